#include "cuda/append/kernel.hpp"

namespace tessera::cuda::append {
namespace {

template <class T>
const void* function_of(Way way) {
  return way == Way::codes ? reinterpret_cast<const void*>(move_rows_with_tails<T, Way::codes>)
                           : reinterpret_cast<const void*>(move_rows_with_tails<T, Way::narrow>);
}

}  // namespace

const void* tail_function_for(Element element, Way way) {
  return element == Element::f32   ? function_of<float>(way)
         : element == Element::f16 ? function_of<__half>(way)
                                   : function_of<__nv_bfloat16>(way);
}

}  // namespace tessera::cuda::append
