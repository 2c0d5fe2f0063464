// An entry of a dense batch gets the bits that it gets alone, whatever its neighbours are: the decode kernels
// cut its keys by its own length, and merge the pieces in their order, whichever blocks had them.
#include <gtest/gtest.h>

#include <cstring>

#include "cases/fill.hpp"
#include "tests/cuda/support.hpp"

namespace tessera {
namespace {

using testing_cuda::case_of;
using testing_cuda::gpu_device;

struct Bits {
  std::vector<unsigned char> output, lse;
  bool operator==(const Bits&) const = default;
};

std::vector<unsigned char> entry_bytes(const tessera_tensor& t, std::int64_t b) {
  const auto bytes = static_cast<std::size_t>(t.strides[0]) * tessera_dtype_size(t.dtype);
  const auto* const first = static_cast<const unsigned char*>(t.data) + static_cast<std::size_t>(b) * bytes;
  return {first, first + bytes};
}

Bits entry(const tessera_attention& p, std::int64_t b) {
  return {entry_bytes(p.output, b), entry_bytes(p.lse, b)};
}

// Entry b of `from` in place of entry `to` of another problem of the same shape.
void copy_entry(const tessera_attention& from, std::int64_t b, const tessera_attention& into,
                std::int64_t to) {
  const auto copy = [&](const tessera_tensor& source, const tessera_tensor& target) {
    const auto bytes = static_cast<std::size_t>(source.strides[0]) * tessera_dtype_size(source.dtype);
    std::memcpy(static_cast<unsigned char*>(target.data) + static_cast<std::size_t>(to) * bytes,
                static_cast<const unsigned char*>(source.data) + static_cast<std::size_t>(b) * bytes, bytes);
  };
  copy(from.query, into.query);
  copy(from.key, into.key);
  copy(from.value, into.value);
  static_cast<std::int32_t*>(into.key_lengths.data)[to] =
      static_cast<const std::int32_t*>(from.key_lengths.data)[b];
}

struct Batch {
  cases::Instance instance;
  std::vector<std::int32_t> lengths;

  Batch(const std::string& words, std::vector<std::int32_t> of_entries, std::uint64_t seed)
      : instance(case_of(words), cases::Input::normal, seed), lengths(std::move(of_entries)) {
    tessera_tensor t = TESSERA_TENSOR_NONE;
    t.data = lengths.data();
    t.dtype = TESSERA_I32;
    t.rank = 1;
    t.shape[0] = static_cast<std::int64_t>(lengths.size());
    t.strides[0] = 1;
    instance.problem().key_lengths = t;
  }
  const tessera_attention& problem() { return instance.problem(); }
  void run() {
    instance.poison_outputs();
    tessera_device device = gpu_device();
    device.kernel = "decode";
    const std::string why = cases::attend_with_library(instance.problem(), device);
    ASSERT_EQ(why, "");
  }
};

class DecodeBits : public testing::TestWithParam<const char*> {};

TEST_P(DecodeBits, AreThoseOfTheEntryAlone) {
  SKIP_WITHOUT_GPU();
  const std::string shape = GetParam();
  // Of one piece, of two, of none, one key more than a piece, and many pieces.
  const std::vector<std::int32_t> lengths = {900, 1, 0, 129, 640};
  Batch all("b5 " + shape, lengths, 3);
  all.run();
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const auto at = static_cast<std::int64_t>(b);
    Batch alone("b1 " + shape, {0}, 7);
    copy_entry(all.problem(), at, alone.problem(), 0);
    alone.run();
    EXPECT_TRUE(entry(alone.problem(), 0) == entry(all.problem(), at)) << "entry " << b << " alone";
    Batch moved("b3 " + shape, {64, 0, 900}, 11);
    copy_entry(all.problem(), at, moved.problem(), 1);
    moved.run();
    EXPECT_TRUE(entry(moved.problem(), 1) == entry(all.problem(), at)) << "entry " << b << " beside others";
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, DecodeBits,
                         testing::Values("h4/2 q1 k900 d64 bf16", "h48 q1 k900 d64 f16",
                                         "h2/1 q3 k900 d128 f16 causal=bottom-right",
                                         "h8/1 q2 k900 d64 f16 causal=bottom-right window=500,0"));

struct Dense {
  const char *kernel, *shape;
};
void PrintTo(const Dense& d, std::ostream* out) { *out << d.kernel << ", " << d.shape; }

class DecodeBitsDense : public testing::TestWithParam<Dense> {};

// A second kernel and the first merge by the same steps: one block that has all of a sequence writes what
// several write together. How many blocks there are is decided by the batch.
TEST_P(DecodeBitsDense, DoNotDependOnHowManyBlocksShareASequence) {
  SKIP_WITHOUT_GPU();
  const std::string shape = GetParam().shape;
  cases::Instance one(case_of("b1 " + shape), cases::Input::normal, 5);
  cases::Instance many(case_of("b40 " + shape), cases::Input::normal, 6);
  for (std::int64_t b : {0, 17, 39}) {
    for (const auto& [source, target] : {std::pair{&one.problem().query, &many.problem().query},
                                         {&one.problem().key, &many.problem().key},
                                         {&one.problem().value, &many.problem().value}}) {
      const auto bytes = static_cast<std::size_t>(source->strides[0]) * 2;
      std::memcpy(static_cast<unsigned char*>(target->data) + static_cast<std::size_t>(b) * bytes,
                  source->data, bytes);
    }
  }
  tessera_device device = gpu_device();
  device.kernel = GetParam().kernel;
  for (cases::Instance* each : {&one, &many}) {
    each->poison_outputs();
    ASSERT_EQ(cases::attend_with_library(each->problem(), device), "");
  }
  for (std::int64_t b : {0, 17, 39})
    EXPECT_TRUE(entry(many.problem(), b) == entry(one.problem(), 0)) << "entry " << b;
}

// Of one chain of pieces, and of several; of rows that fill a tile and of fewer.
INSTANTIATE_TEST_SUITE_P(Shapes, DecodeBitsDense,
                         testing::Values(Dense{"decode", "h2/1 q1 k1500 d64 bf16"},
                                         Dense{"serving", "h2/1 q20 k1500 d64 bf16"},
                                         Dense{"serving", "h2/1 q32 k2900 d64 f16 causal=bottom-right"},
                                         Dense{"serving", "h2/1 q11 k1100 d64 bf16 softcap=20"},
                                         Dense{"serving", "h16/1 q1 k1500 d576 v512 bf16 latent"},
                                         Dense{"serving", "h40/1 q1 k1100 d576 v512 bf16 latent"}));

}  // namespace
}  // namespace tessera
