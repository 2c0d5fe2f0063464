// Tensors of files as the library takes them. Whatever does not fit stops with kExitUsage and a sentence that
// names the file.
#pragma once

#include <tessera/tessera.h>

#include <span>
#include <string>
#include <string_view>

#include "cli/files/tensor.hpp"

namespace tessera::cli {

using Names = std::span<const std::string_view>;

// What the command line says about elements.
struct LoadFlags {
  std::string dtype;  // what 16-bit elements, or bytes, without a meaning of their own are
  bool convert = false;
};

// 0 if the library has no tensor of such elements.
tessera_dtype dtype_of(files::Element element);
bool is_8_bit(files::Element element);  // a float
// By the names of the flags.
files::Element element_of(std::string_view name);

files::Tensor load(const std::string& name, Names usual_names);
// A tensor of f32, f16, bf16 or, where allowed, bool.
files::Tensor load_numbers(const std::string& name, Names usual_names, const LoadFlags& flags,
                           bool allow_boolean);
// Slopes and sinks: the library takes f32, into which the narrower types fit exactly.
files::Tensor load_f32(const std::string& name, Names usual_names, const LoadFlags& flags);
// Integers of any type, as int64.
files::Tensor load_whole(const std::string& name, Names usual_names);
// Query, key and value, which may have 8 bits as well: floats, or whole numbers where --dtype says nothing
// else.
files::Tensor load_rows(const std::string& name, Names usual_names, const LoadFlags& flags);

// A contiguous view of the tensor's own rank; at least rank 1, so that a lone number is a list of one.
tessera_tensor view(const files::Tensor& tensor, std::string_view what, std::size_t max_rank);
// The same memory as [batch, heads, rows, dim]: missing dimensions become 1, and [batch, rows, heads,
// dim] is a matter of strides.
tessera_tensor view_4d(const files::Tensor& tensor, bool rows_before_heads);
// The same of memory that is [batch, heads, dim, rows].
tessera_tensor transposed_view_4d(const files::Tensor& tensor);

// Memory for a result, not initialised.
files::Tensor allocate(files::Element element, files::Shape shape, const std::string& source);

}  // namespace tessera::cli
