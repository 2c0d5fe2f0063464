// The CUDA rows of the kernel table: a folder each. Production first, then the kernels that take everything,
// of 8 bits and of more, then the other rungs, which are there to be asked for by name.
#include "cuda/backend.hpp"
#include "cuda/decode/choose.hpp"
#include "cuda/fp8_rows/choose.hpp"
#include "cuda/ladder/rows.hpp"
#include "cuda/serving/choose.hpp"
#include "cuda/sm80/choose.hpp"
#include "cuda/sm80_f32/choose.hpp"
#include "cuda/sm89/choose.hpp"
#include "cuda/sm90/choose.hpp"
#include "cuda/sm90_f32/choose.hpp"
#include "cuda/sm90_fp8/choose.hpp"

namespace tessera::cuda {

std::vector<core::Kernel> kernels() {
  std::vector<core::Kernel> rows = {
      decode::production_row(), serving::production_row(),  serving::codes_row(),
      sm90::production_row(),   sm90_f32::production_row(), sm90_fp8::production_row(),
      sm89::production_row(),   sm80::production_row(),     sm80_f32::production_row(),
      fp8_rows::row(),          fp8_rows::tail_row()};
  for (core::Kernel& rung : ladder::rows()) rows.push_back(std::move(rung));
  for (core::Kernel& row : rows) {
    row.device = TESSERA_CUDA;
    if (!row.missing) row.missing = [](const core::Device&) { return std::string(); };
  }
  return rows;
}

}  // namespace tessera::cuda
