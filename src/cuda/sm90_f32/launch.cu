// Host code, but nvcc's: what the kernels receive is declared beside device functions.
#include <algorithm>

#include "cuda/sm90/make_schedule.hpp"
#include "cuda/sm90_f32/dispatch.hpp"
#include "cuda/sm90_f32/launch.hpp"
#include "cuda/sm90_f32/params.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::sm90_f32 {
namespace {

const void* function_for(const Choice& choice) {
  static const Functions of_64 = functions<64, 64>(), of_128 = functions<128, 128>(),
                         of_256 = functions<256, 256>();
  const int dim = choice.config.dim;
  return (dim == 64 ? of_64 : dim == 128 ? of_128 : of_256).of(choice.variant);
}

}  // namespace

bool in_build() { return true; }

void set_step(const core::Problem& p, const Choice& choice, runtime::Step* out) {
  const int pack = static_cast<int>(p.group());
  // A problem without rows is planned too, if never launched.
  const int row_tiles = std::max(static_cast<int>(choice.row_tiles), 1), blocks = std::max(choice.blocks, 1);
  out->kernel = "sm90_f32";
  out->pdl = true;
  out->function = function_for(choice);
  out->set_params(F32Params{translate(p, pack),
                            sm90::make_schedule(row_tiles, static_cast<int>(p.kv_heads),
                                                static_cast<int>(p.batch), blocks, choice.unequal),
                            rows_of_16_bytes(p) ? 1 : 0});
  out->place = [](void* params, const core::Addresses& at, void*) {
    place(&static_cast<F32Params*>(params)->problem, at);
    return core::Status{};
  };
  out->grid[0] = static_cast<unsigned>(blocks);
  out->threads = static_cast<unsigned>(choice.config.threads());
  out->shared_bytes = static_cast<unsigned>(choice.config.shared_bytes());
}

}  // namespace tessera::cuda::sm90_f32
