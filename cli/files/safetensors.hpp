// The .safetensors format: a length, a JSON object, the data of all tensors back to back.
//
//   <u64 length> {"q": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...} <data>
//
// Read as strictly as the format's own reader: no key twice, no gap or overlap between tensors, every
// byte of data owned by one of them.
#pragma once

#include <map>

#include "cli/files/array.hpp"

namespace tessera::files {

using TensorMap = std::map<std::string, Array, std::less<>>;

// On failure returns nothing and puts into *error what is wrong, without the file's name.
// The arrays' bytes point into `file`. Tensors of types this program has no use for (the 8-bit floats,
// complex numbers) are checked like all others and left out of the map.
std::optional<TensorMap> parse_safetensors(Bytes file, std::string* error);

struct NamedShape {
  std::string name;
  Element element = Element::f32;
  Shape shape;
};

// Everything in front of the data of these tensors, which follow in this order without gaps. The data
// starts on a multiple of 8 bytes. Names must be distinct.
std::string safetensors_header(const std::vector<NamedShape>& tensors);

}  // namespace tessera::files
