#include "cuda/append/kernel.hpp"

namespace tessera::cuda::append {
namespace {

template <class T>
const void* function_of(Way way) {
  if constexpr (sizeof(T) > 1)
    if (way == Way::codes) return reinterpret_cast<const void*>(move_rows<T, Way::codes>);
  return way == Way::wide ? reinterpret_cast<const void*>(move_rows<T, Way::wide>)
                          : reinterpret_cast<const void*>(move_rows<T, Way::narrow>);
}

}  // namespace

const void* function_for(Element element, Way way) {
  switch (element) {
    case Element::f32:
      return function_of<float>(way);
    case Element::f16:
      return function_of<__half>(way);
    case Element::bf16:
      return function_of<__nv_bfloat16>(way);
    case Element::e4m3:
    case Element::e5m2:
      break;
  }
  return function_of<unsigned char>(way);  // codes are only copied
}

}  // namespace tessera::cuda::append
