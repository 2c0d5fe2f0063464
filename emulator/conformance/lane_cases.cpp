// One case for every arithmetic form that the emulator knows, and for the odd ones beside them.
#include "emulator/conformance/case.hpp"
#include "emulator/conformance/values.hpp"
#include "emulator/exec/lanes/table.hpp"

namespace emulator::conformance {

std::string module_text(std::string_view body, unsigned input_bytes, unsigned output_bytes,
                        std::string_view version) {
  return ".version " + std::string(version) +
         "\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 dynamic[];\n"
         ".visible .entry conform(.param .u64 in, .param .u64 out, .param .align 64 .b8 map[128])\n{\n"
         ".reg .pred %p<20>; .reg .b16 %rs<40>; .reg .b32 %r<400>; .reg .b64 %rd<60>;\n"
         "ld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\n"
         "cvta.to.global.u64 %rd1, %rd1;\ncvta.to.global.u64 %rd2, %rd2;\n"
         "mov.u32 %r2, %tid.x;\nmov.u32 %r3, %ctaid.x;\nmov.u32 %r5, %ntid.x;\n"
         "mad.lo.s32 %r1, %r3, %r5, %r2;\nmov.u32 %r4, dynamic;\n"
         "mul.wide.u32 %rd3, %r1, " +
         std::to_string(input_bytes) +
         ";\nadd.s64 %rd1, %rd1, %rd3;\n"
         "mul.wide.u32 %rd3, %r1, " +
         std::to_string(output_bytes) + ";\nadd.s64 %rd2, %rd2, %rd3;\n" + std::string(body) + "ret;\n}\n";
}

namespace {

constexpr unsigned kOperandWords = 8;  // room for four operands of 64 bits

std::uint64_t seed_of(std::string_view name) {
  std::uint64_t seed = 0xcbf29ce484222325u;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return seed;
}

std::string number(std::size_t i) { return std::to_string(i); }

// A register of the operand's kind, filled from memory.
std::string fetch(std::size_t i, char letter) {
  const std::string n = number(10 + i);
  const std::string load = "ld.global.u64 %rd" + n + ", [%rd1+" + number(8 * i) + "];\n";
  switch (letter) {
    case 'h':
      return load + "cvt.u16.u64 %rs" + n + ", %rd" + n + ";\n";
    case 'w':
      return load + "cvt.u32.u64 %r" + n + ", %rd" + n + ";\n";
    case 'p':
      return load + "setp.ne.s64 %p" + n + ", %rd" + n + ", 0;\n";
    default:
      return load;
  }
}
std::string name_of(std::size_t i, char letter) {
  const char* prefix = letter == 'h' ? "%rs" : letter == 'w' ? "%r" : letter == 'p' ? "%p" : "%rd";
  return prefix + number(10 + i);
}
// Register 9 of its kind holds the result.
std::string keep_result(char letter) {
  const char* widen = letter == 'h'   ? "cvt.u64.u16 %rd9, %rs9;\n"
                      : letter == 'w' ? "cvt.u64.u32 %rd9, %r9;\n"
                      : letter == 'p' ? "selp.u64 %rd9, 1, 0, %p9;\n"
                                      : "";
  return std::string(widen) + "st.global.u64 [%rd2], %rd9;\n";
}

struct Shape {
  std::string name;
  std::string_view signature;  // as in the lane tables
  std::string instruction;     // empty: the name with operands in order
  Kind kind;
};

Case lane_case(const Shape& shape) {
  const std::string_view operands = shape.signature.substr(2);
  const char result = shape.signature[0];
  std::string body;
  for (std::size_t i = 0; i < operands.size(); ++i) body += fetch(i, operands[i]);
  if (shape.instruction.empty()) {
    body += shape.name + " " +
            (result == 'h'   ? "%rs9"
             : result == 'w' ? "%r9"
             : result == 'p' ? "%p9"
                             : "%rd9");
    for (std::size_t i = 0; i < operands.size(); ++i) body += ", " + name_of(i, operands[i]);
    body += ";\n";
  } else {
    body += shape.instruction + "\n";
  }
  Case out;
  out.name = shape.name;
  out.ptx = module_text(body + keep_result(result), 4 * kOperandWords, 8);
  out.blocks = 26;
  out.items = std::size_t{out.blocks} * out.threads;
  out.input_words = kOperandWords;
  out.result_bits = result == 'p' ? 1 : result == 'h' ? 16 : result == 'w' ? 32 : 64;
  out.kept = 128;
  Random random(seed_of(shape.name));
  out.input.resize(out.items * kOperandWords);
  for (std::size_t i = 0; i < out.items; ++i) {
    for (std::size_t k = 0; k < operands.size(); ++k) {
      // Shifts, positions and lengths beside what they are applied to.
      const std::uint64_t x = operand(random, shape.kind, operands[k]);
      out.input[i * kOperandWords + 2 * k] = static_cast<std::uint32_t>(x);
      out.input[i * kOperandWords + 2 * k + 1] = static_cast<std::uint32_t>(x >> 32);
    }
  }
  return out;
}

// Documented errors (PTX ISA, "Floating Point Instructions"). Twice the error where both sides have one.
struct Approximate {
  std::string_view opcode;
  Bound bound;
};
constexpr Approximate kApproximate[] = {
    {"rcp.approx", {0x1p-23, 0}}, {"sqrt.approx", {0x1p-23, 0}},      {"rsqrt.approx", {0x1.2p-23, 0}},
    {"ex2.approx", {0x1p-22, 0}}, {"lg2.approx", {0x1p-22, 0x1p-22}}, {"tanh.approx", {0x1p-11, 0}},
    {"div.full", {0x1p-22, 0}},   {"div.approx", {0x1p-22, 0}},
};

}  // namespace

void add_lane_cases(std::vector<Case>& out) {
  for (const auto& table : best_lanes().forms) {
    for (const Form& form : table) {
      Case one = lane_case({std::string(form.name), form.signature, "", kind_of(form.name)});
      for (const Approximate& approximate : kApproximate) {
        if (form.name.substr(0, approximate.opcode.size()) != approximate.opcode) continue;
        one.bound = approximate.bound;
        one.blocks = 4;
        one.items = one.kept = std::size_t{one.blocks} * one.threads;
        one.input.resize(one.items * kOperandWords);
      }
      out.push_back(std::move(one));
    }
  }
  std::vector<Shape> odd = {
      {"prmt.b32", "w=www", "", Kind::integer},
      {"bfi.b32", "w=wwww", "", Kind::integer},
      {"mov.b32 pack", "w=hh", "mov.b32 %r9, {%rs10, %rs11};", Kind::integer},
      {"mov.b32 unpack", "w=w", "mov.b32 {%rs1, %rs2}, %r10; mov.b32 %r9, {%rs2, %rs1};", Kind::integer},
      {"mov.b64 pack", "q=ww", "mov.b64 %rd9, {%r10, %r11};", Kind::integer},
      {"mov.b64 unpack", "q=q", "mov.b64 {%r6, %r7}, %rd10; mov.b64 %rd9, {%r7, %r6};", Kind::integer},
      {"not.pred", "p=p", "", Kind::integer},
      {"mov.pred", "p=p", "", Kind::integer},
      {"and.pred", "p=pp", "", Kind::integer},
      {"or.pred", "p=pp", "", Kind::integer},
      {"xor.pred", "p=pp", "", Kind::integer},
  };
  for (const int table : {0x80, 0xfe, 0x96, 0xe8, 0xca, 0x1d, 0x78, 0xf8, 0x6a, 0x3c})
    odd.push_back({"lop3.b32 " + std::to_string(table), "w=www",
                   "lop3.b32 %r9, %r10, %r11, %r12, " + std::to_string(table) + ";", Kind::integer});
  for (const Shape& shape : odd) out.push_back(lane_case(shape));
}

std::vector<Case> all_cases() {
  std::vector<Case> out;
  add_lane_cases(out);
  add_warp_cases(out);
  add_matrix_cases(out);
  add_float8_cases(out);
  add_memory_cases(out);  // last: a GPU that refuses a tensor map runs nothing more
  return out;
}

}  // namespace emulator::conformance
