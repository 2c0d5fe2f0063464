// Any bytes as a .safetensors file. Accepted tensors must lie inside the file without sharing a byte, be
// as long as their shapes say, and keep names and shapes when written again.
#include <algorithm>
#include <cstdlib>

#include "cli/files/safetensors.hpp"
#include "cli/files/tensor.hpp"

using namespace tessera::files;

namespace {

void require(bool promise) {
  if (!promise) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes file = std::as_bytes(std::span(data, size));
  std::string error;
  const std::optional<TensorMap> tensors = parse_safetensors(file, &error);
  require(tensors.has_value() == error.empty());
  if (!tensors) return 0;

  std::vector<Bytes> pieces;
  std::vector<NamedShape> shapes;
  std::string content;
  for (const auto& [name, array] : *tensors) {
    require(byte_count(array.shape, array.element) == static_cast<std::int64_t>(array.bytes.size()));
    require(settle(array, nullptr, name).bytes.size() == array.bytes.size());
    if (array.bytes.empty()) continue;
    require(array.bytes.data() >= file.data() + 8);
    require(array.bytes.data() + array.bytes.size() <= file.data() + file.size());
    pieces.push_back(array.bytes);
    shapes.push_back({name, array.element, array.shape});
    content.append(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
  }
  std::ranges::sort(pieces, {}, &Bytes::data);
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    require(pieces[i - 1].data() + pieces[i - 1].size() <= pieces[i].data());
  }

  const std::string written = safetensors_header(shapes) + content;
  const std::optional<TensorMap> again =
      parse_safetensors(std::as_bytes(std::span(written.data(), written.size())), &error);
  require(again && again->size() == shapes.size());
  for (const NamedShape& shape : shapes) {
    const auto found = again->find(shape.name);
    require(found != again->end() && found->second.shape == shape.shape);
    require(std::ranges::equal(found->second.bytes, tensors->at(shape.name).bytes));
  }
  return 0;
}
