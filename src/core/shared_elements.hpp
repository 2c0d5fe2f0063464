// Whether two tensors have an element in common, as far as addresses, shapes and strides tell cheaply.
#pragma once

#include <tessera/tessera.h>

namespace tessera::core {

// Of two tensors [outer, heads, rows, dim] that have elements, and no two of their own in one place. Where
// both have rows of contiguous elements, the same number of them and as many bytes between them (K and V in
// one pool, say) the answer is exact. Else true is sure, and false may mean that it is not known.
bool share_an_element(const tessera_tensor& a, const tessera_tensor& b);

}  // namespace tessera::core
