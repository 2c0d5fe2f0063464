// Loads and stores of every width, ldmatrix, cp.async, and what the TMA puts where.
#include "emulator/conformance/case.hpp"
#include "emulator/conformance/values.hpp"

namespace emulator::conformance {
namespace {

void fill(Case& one, std::size_t words, std::uint64_t seed) {
  Random random(seed);
  for (std::size_t i = 0; i < words; ++i) one.input.push_back(static_cast<std::uint32_t>(random.next()));
}
std::string number(std::size_t i) { return std::to_string(i); }

// 16 bytes of a thread through global or shared memory, by vectors of a type. No space: a generic address.
Case access_case(const std::string& space, unsigned vector, const std::string& type) {
  const std::string suffix =
      (space.empty() ? "" : "." + space) + (vector == 1 ? "" : ".v" + number(vector)) + "." + type;
  const unsigned bytes = type.substr(1) == "8"    ? 1
                         : type.substr(1) == "16" ? 2
                         : type.substr(1) == "32" ? 4
                                                  : 8;
  const std::string prefix = bytes == 8 ? "%rd" : bytes == 2 ? "%rs" : "%r";
  std::string registers;
  for (unsigned v = 0; v < vector; ++v) registers += (v > 0 ? ", " : "") + prefix + number(20 + v);
  if (vector > 1) registers = "{" + registers + "}";
  const bool shared = space == "shared" || space == "volatile.shared";
  std::string body = "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1];\n";
  if (shared)
    body +=
        "mul.lo.s32 %r6, %r2, 16;\nadd.s32 %r6, %r6, %r4;\nst.shared.v4.u32 [%r6], {%r10, %r11, %r12, "
        "%r13};\n";
  body += "ld" + suffix + " " + registers + ", [" + (shared ? "%r6" : "%rd1") + "];\n";
  // What was loaded, as words: extensions show.
  for (unsigned v = 0; v < vector && bytes < 8; ++v)
    body += (bytes == 2 ? "cvt.u32.u16 %r30, %rs" : "mov.b32 %r30, %r") + number(20 + v) +
            ";\nst.global.u32 [%rd2+" + number(4 * v) + "], %r30;\n";
  for (unsigned v = 0; v < vector && bytes == 8; ++v)
    body += "st.global.u64 [%rd2+" + number(8 * v) + "], %rd" + number(20 + v) + ";\n";
  body += std::string("st") + suffix + " [" + (shared ? "%r6+0" : "%rd2+16") + "], " + registers + ";\n";
  if (shared)
    body +=
        "ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r6];\nst.global.v4.u32 [%rd2+16], {%r10, %r11, %r12, "
        "%r13};\n";
  Case out;
  out.name = "ld, st" + suffix;
  out.ptx = module_text(body, 16, 32);
  out.threads = 32;
  out.shared_bytes = shared ? 512 : 0;
  out.items = 32;
  out.item_words = 8;
  out.result_bits = 256;
  out.input_words = 4;
  out.kept = 8;
  out.chunk = 8;
  fill(out, 128, 17 + suffix.size());
  return out;
}

// A warp loads matrices from rows of 16 bytes in any order.
Case ldmatrix_case(unsigned count, bool transposed) {
  std::string registers;
  for (unsigned i = 0; i < count; ++i) registers += (i > 0 ? ", " : "") + ("%r" + number(20 + i));
  const std::string form =
      "ldmatrix.sync.aligned.m8n8.x" + number(count) + (transposed ? ".trans" : "") + ".shared.b16";
  std::string body =
      "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1];\nmul.lo.s32 %r6, %r2, 16;\nadd.s32 %r7, %r6, %r4;\n"
      "st.shared.v4.u32 [%r7], {%r10, %r11, %r12, %r13};\nbar.sync 0;\n"
      "mul.lo.s32 %r6, %r2, 13;\nadd.s32 %r6, %r6, %r3;\nand.b32 %r6, %r6, 31;\nshl.b32 %r6, %r6, "
      "4;\nadd.s32 %r7, %r6, %r4;\n" +
      form + " {" + registers + "}, [%r7];\n";
  for (unsigned i = 0; i < count; ++i)
    body += "st.global.u32 [%rd2+" + number(4 * i) + "], %r" + number(20 + i) + ";\n";
  Case out;
  out.name = form;
  out.ptx = module_text(body, 16, 16);
  out.threads = 32;
  out.blocks = 4;
  out.shared_bytes = 512;
  out.items = 128;
  out.item_words = 4;
  out.result_bits = 32 * count;
  out.kept = out.items;
  fill(out, 512, 5 + count);
  return out;
}

// cp.async with fewer bytes read than written: zeros follow.
Case copy_case(const std::string& cache, unsigned bytes, bool hint = false) {
  Case out;
  const std::string form = "cp.async." + cache + ".shared.global" + (hint ? ".L2::cache_hint" : "");
  out.name = form + " " + number(bytes);
  const std::string policy = hint ? "createpolicy.fractional.L2::evict_first.b64 %rd3;\n" : "";
  out.ptx = module_text("ld.global.u32 %r10, [%rd1];\nrem.u32 %r10, %r10, " + number(bytes + 1) +
                            ";\nmul.lo.s32 %r6, %r2, 16;\nadd.s32 %r7, %r6, %r4;\nmov.u32 %r11, "
                            "0;\nst.shared.v4.u32 [%r7], {%r11, %r11, %r11, %r11};\n" +
                            policy + form + " [%r7], [%rd1+16], " + number(bytes) +
                            (hint ? ", %r10, %rd3" : ", %r10") +
                            ";\ncp.async.commit_group;\ncp.async.wait_group 0;\n"
                            "ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r7];\nst.global.v4.u32 [%rd2], "
                            "{%r10, %r11, %r12, %r13};\n",
                        32, 16);
  out.threads = 64;
  out.shared_bytes = 1024;
  out.items = 64;
  out.item_words = 4;
  out.result_bits = 128;
  out.input_words = 8;
  out.kept = out.items;
  fill(out, 512, 23 + bytes);
  return out;
}

const char* const kWait =
    "bar.sync 0;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], 0;\n@%p2 bra on;\nbra "
    "again;\non:\n";

// A box of a tensor, partly outside; block b starts at a corner of its own. `hint`: with a policy for L2.
Case tensor_case(unsigned swizzle, unsigned columns, bool hint = false) {
  Case out;
  const unsigned bytes = columns * 2 * 16;
  const std::string form =
      std::string("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes") +
      (hint ? ".L2::cache_hint" : "");
  out.name = form + " swizzle " + number(swizzle) + ", " + number(columns) + " columns";
  out.ptx = module_text(
      "setp.ne.s32 %p1, %r2, 0;\nadd.s32 %r5, %r4, 8192;\nsub.s32 %r20, %r3, 2;\nmul.lo.s32 %r20, %r20, 24;\n"
      "sub.s32 %r21, 3, %r3;\nmov.u32 %r22, 1;\nand.b32 %r23, %r3, 1;\n@%p1 bra wait;\n"
      "mbarrier.init.shared::cta.b64 [%r5], 1;\nfence.mbarrier_init.release.cluster;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], " +
          number(bytes) + ";\nmov.b64 %rd20, map;\ncvta.param.u64 %rd20, %rd20;\n" +
          (hint ? "createpolicy.fractional.L2::evict_first.b64 %rd21;\n" : "") + form +
          " [%r4], [%rd20, {%r20, %r21, %r22, %r23}], [%r5]" + (hint ? ", %rd21" : "") + ";\nwait:\n" +
          kWait +
          "mov.u32 %r6, 0;\nmul.lo.s32 %r7, %r2, 4;\nadd.s32 %r7, %r7, %r4;\nmad.lo.s32 %r8, %r2, -28, "
          "0;\ncvt.s64.s32 %rd5, %r8;\n"
          "add.s64 %rd5, %rd5, %rd2;\ncopy:\nld.shared.u32 %r10, [%r7];\nst.global.u32 [%rd5], "
          "%r10;\nadd.s32 %r7, %r7, 256;\n"
          "add.s64 %rd5, %rd5, 256;\nadd.s32 %r6, %r6, 256;\nsetp.lt.s32 %p3, %r6, " +
          number(bytes) + ";\n@%p3 bra copy;\n",
      0, 32);
  out.threads = 64;
  out.blocks = 5;
  out.shared_bytes = 8192 + 64;
  out.items = out.blocks * 64;
  out.item_words = 8;
  out.result_bits = 256;
  out.kept = 64;
  out.chunk = 64;
  fill(out, 8192, 99 + swizzle);
  Tensor tensor;
  tensor.extents = {90, 10, 3, 2, 1};
  tensor.strides = {192, 192 * 10, 192 * 30, 0};
  tensor.box = {columns, 8, 1, 2, 1};
  tensor.swizzle = swizzle;
  out.tensor = tensor;
  return out;
}

// A box of 8-bit elements in five dimensions, or of a plain matrix's rows in four.
Case tensor_8_case(unsigned rank, unsigned swizzle, unsigned columns, bool hint = false) {
  Case out;
  const unsigned bytes = columns * 8 * 2 * 2;
  const std::string form = "cp.async.bulk.tensor." + number(rank) +
                           "d.shared::cluster.global.mbarrier::complete_tx::bytes" +
                           (hint ? ".L2::cache_hint" : "");
  out.name = form + " 8 bits, swizzle " + number(swizzle) + ", " + number(columns) + " columns";
  out.ptx = module_text(
      "setp.ne.s32 %p1, %r2, 0;\nadd.s32 %r5, %r4, 8192;\nsub.s32 %r20, %r3, 2;\nmul.lo.s32 %r20, %r20, 32;\n"
      "sub.s32 %r21, 3, %r3;\nmov.u32 %r22, 1;\nand.b32 %r23, %r3, 1;\nshr.u32 %r24, %r3, 1;\n@%p1 bra "
      "wait;\n"
      "mbarrier.init.shared::cta.b64 [%r5], 1;\nfence.mbarrier_init.release.cluster;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], " +
          number(bytes) + ";\nmov.b64 %rd20, map;\ncvta.param.u64 %rd20, %rd20;\n" +
          (hint ? "createpolicy.fractional.L2::evict_first.b64 %rd21;\n" : "") + form +
          " [%r4], [%rd20, {%r20, %r21, %r22, %r23" + (rank == 5 ? ", %r24" : "") + "}], [%r5]" +
          (hint ? ", %rd21" : "") + ";\nwait:\n" + kWait +
          "mov.u32 %r6, 0;\nmul.lo.s32 %r7, %r2, 4;\nadd.s32 %r7, %r7, %r4;\nmul.lo.s32 %r8, %r2, " +
          number(bytes / 64 - 4) +
          ";\ncvt.u64.u32 %rd5, %r8;\nsub.s64 %rd5, %rd2, %rd5;\ncopy:\nld.shared.u32 %r10, [%r7];\n"
          "st.global.u32 [%rd5], %r10;\nadd.s32 %r7, %r7, 256;\nadd.s64 %rd5, %rd5, 256;\n"
          "add.s32 %r6, %r6, 256;\nsetp.lt.s32 %p3, %r6, " +
          number(bytes) + ";\n@%p3 bra copy;\n",
      0, bytes / 64);
  out.threads = 64;
  out.blocks = 5;
  out.shared_bytes = 8192 + 64;
  out.items = out.blocks * 64;
  out.item_words = bytes / 256;
  out.result_bits = bytes / 8;
  out.kept = 64;
  out.chunk = 64;
  fill(out, 8192, 199 + swizzle + rank);
  Tensor tensor;
  tensor.element_bytes = 1;
  tensor.rank = rank;
  tensor.extents = {112, 10, 3, 2, 3};
  tensor.strides = {128, 128 * 10, 128 * 30, 128 * 60};
  tensor.box = {columns, 8, rank == 5 ? 1u : 2u, 2, 2};
  tensor.swizzle = swizzle;
  out.tensor = tensor;
  return out;
}

Case bulk_case() {
  Case out;
  out.name = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
  out.ptx = module_text(
      std::string("setp.ne.s32 %p1, %r2, 0;\nadd.s32 %r5, %r4, 1024;\n@%p1 bra wait;\n"
                  "mbarrier.init.shared::cta.b64 [%r5], 1;\nfence.mbarrier_init.release.cluster;\n"
                  "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 256;\n"
                  "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1+48], 256, "
                  "[%r5];\nwait:\n") +
          kWait +
          "mul.lo.s32 %r7, %r2, 4;\nadd.s32 %r7, %r7, %r4;\nld.shared.u32 %r10, [%r7];\nst.global.u32 "
          "[%rd2], %r10;\n",
      0, 4);
  out.threads = 64;
  out.shared_bytes = 1024 + 64;
  out.items = 64;
  out.item_words = 1;
  out.result_bits = 32;
  out.kept = 64;
  fill(out, 256, 3);
  return out;
}

}  // namespace

void add_memory_cases(std::vector<Case>& out) {
  for (const std::string space : {"global", "shared", "volatile.shared"})
    for (const std::string type :
         {"u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64"})
      for (const unsigned vector : {1u, 2u, 4u}) {
        const bool wide = type.substr(1) == "64";
        if ((wide && vector == 4) || (space == "volatile.shared" && vector > 1)) continue;
        out.push_back(access_case(space, vector, type));
      }
  for (const std::string type : {"u16", "u32", "f32"}) out.push_back(access_case("", 1, type));
  for (const unsigned count : {1u, 2u, 4u})
    for (const bool transposed : {false, true}) out.push_back(ldmatrix_case(count, transposed));
  for (const unsigned bytes : {4u, 8u, 16u}) out.push_back(copy_case("ca", bytes));
  out.push_back(copy_case("cg", 16));
  out.push_back(copy_case("cg", 16, true));
  out.push_back(tensor_case(0, 64));
  out.push_back(tensor_case(1, 16));
  out.push_back(tensor_case(2, 32));
  out.push_back(tensor_case(3, 64));
  out.push_back(tensor_case(3, 64, true));
  out.push_back(bulk_case());
  for (const std::string space : {"global", "shared"})
    for (const unsigned vector : {1u, 2u, 4u}) out.push_back(access_case(space, vector, "b8"));
  for (const unsigned rank : {4u, 5u}) {
    out.push_back(tensor_8_case(rank, 0, 64));
    out.push_back(tensor_8_case(rank, 1, 32));
    out.push_back(tensor_8_case(rank, 2, 64));
    out.push_back(tensor_8_case(rank, 3, 128));
    out.push_back(tensor_8_case(rank, 3, 128, true));
  }
}

}  // namespace emulator::conformance
