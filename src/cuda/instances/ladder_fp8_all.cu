// Rung 12: the kernels of this rung, and its row of the table.
#include "cuda/ladder/fp8.hpp"
#include "cuda/ladder/instance.hpp"

namespace tessera::cuda::ladder {

Rung fp8(Element codes, int dim) {
  constexpr auto function_of = []<class Code>(Code, int padded) {
    return padded == 64 ? address(fp8<Code, 64>) : address(fp8<Code, 128>);
  };
  const sm89::Config c = fp8_config(dim);
  return {codes == Element::e4m3 ? function_of(ptx::E4m3{}, dim) : function_of(ptx::E5m2{}, dim), c.rows(),
          c.threads(), c.shared_bytes()};
}

}  // namespace tessera::cuda::ladder
