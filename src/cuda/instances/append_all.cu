#include "cuda/append/kernel.hpp"

namespace tessera::cuda::append {
namespace {

template <class T>
const void* function_of(bool wide) {
  return wide ? reinterpret_cast<const void*>(move_rows<T, true>)
              : reinterpret_cast<const void*>(move_rows<T, false>);
}

}  // namespace

const void* function_for(Element element, bool wide) {
  switch (element) {
    case Element::f32:
      return function_of<float>(wide);
    case Element::f16:
      return function_of<__half>(wide);
    case Element::bf16:
      return function_of<__nv_bfloat16>(wide);
    case Element::e4m3:
    case Element::e5m2:
      break;
  }
  return function_of<unsigned char>(wide);  // codes are only copied
}

}  // namespace tessera::cuda::append
