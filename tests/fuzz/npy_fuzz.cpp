// Any bytes as a .npy file. What is accepted must hold what its shape says, survive being arranged for
// the library, and read back the same after being written.
#include <cstdlib>
#include <cstring>

#include "cli/files/npy.hpp"
#include "cli/files/tensor.hpp"

using namespace tessera::files;

namespace {

void require(bool promise) {
  if (!promise) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string error;
  const std::optional<Array> array = parse_npy(std::as_bytes(std::span(data, size)), &error);
  require(array.has_value() == error.empty());
  if (!array) return 0;

  require(array->shape.size() <= kMaxFileRank);
  require(byte_count(array->shape, array->element) == static_cast<std::int64_t>(array->bytes.size()));

  const Tensor tensor = settle(*array, nullptr, "fuzz");
  require(tensor.bytes.size() == array->bytes.size());
  if (tensor.element == Element::f64) require(narrowed(tensor).count() == tensor.count());
  if (const std::optional<Tensor> wide = as_int64(tensor, &error)) require(wide->count() == tensor.count());

  const std::string header = npy_header(tensor.element, tensor.shape);
  std::vector<std::byte> file(header.size() + tensor.bytes.size());
  std::memcpy(file.data(), header.data(), header.size());
  if (!tensor.bytes.empty())
    std::memcpy(file.data() + header.size(), tensor.bytes.data(), tensor.bytes.size());
  const std::optional<Array> again = parse_npy(file, &error);
  const Element written = tensor.element == Element::bf16 ? Element::raw16 : tensor.element;
  require(again && again->shape == tensor.shape && again->element == written);
  require(tensor.bytes.empty() ||
          std::memcmp(again->bytes.data(), tensor.bytes.data(), tensor.bytes.size()) == 0);
  return 0;
}
