#include "cuda/fp8_rows/kernel.hpp"

namespace tessera::cuda::fp8_rows {
namespace {

template <class Code>
const void* function_of(Element output) {
  return output == Element::bf16 ? reinterpret_cast<const void*>(attend<Code, __nv_bfloat16>)
                                 : reinterpret_cast<const void*>(attend<Code, __half>);
}

}  // namespace

const void* function_for(Codes codes, Element output) {
  return codes == Codes::e4m3   ? function_of<ptx::E4m3>(output)
         : codes == Codes::e5m2 ? function_of<ptx::E5m2>(output)
                                : function_of<ptx::I8>(output);
}

}  // namespace tessera::cuda::fp8_rows
