#include "cuda/fp8_rows/tail.hpp"

namespace tessera::cuda::fp8_rows {
namespace {

template <class Key>
const void* function_of(Element output) {
  return output == Element::bf16 ? reinterpret_cast<const void*>(attend_tails<Key, __nv_bfloat16>)
                                 : reinterpret_cast<const void*>(attend_tails<Key, __half>);
}

}  // namespace

const void* tail_function_for(Codes codes, Element output) {
  return codes == Codes::e4m3   ? function_of<ptx::E4m3>(output)
         : codes == Codes::e5m2 ? function_of<ptx::E5m2>(output)
                                : function_of<ptx::I8>(output);
}

const void* tail_function_for(Element keys) {
  return keys == Element::f32   ? reinterpret_cast<const void*>(attend_tails<float, float>)
         : keys == Element::f16 ? reinterpret_cast<const void*>(attend_tails<__half, __half>)
                                : reinterpret_cast<const void*>(attend_tails<__nv_bfloat16, __nv_bfloat16>);
}

}  // namespace tessera::cuda::fp8_rows
