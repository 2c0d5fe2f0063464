#include "cuda/fp8_rows/tail.hpp"

namespace tessera::cuda::fp8_rows {
namespace {

template <class Key>
const void* function_of(Element output) {
  return output == Element::bf16 ? reinterpret_cast<const void*>(attend_tails<Key, __nv_bfloat16>)
                                 : reinterpret_cast<const void*>(attend_tails<Key, __half>);
}

}  // namespace

const void* tail_function_for(Keys keys, Element output) {
  switch (keys) {
    case Keys::e4m3:
      return function_of<ptx::E4m3>(output);
    case Keys::e5m2:
      return function_of<ptx::E5m2>(output);
    case Keys::i8:
      return function_of<ptx::I8>(output);
    default:
      return function_of<Wide>(output);
  }
}

}  // namespace tessera::cuda::fp8_rows
