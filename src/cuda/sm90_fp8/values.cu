// The pass over V: a block takes 64 keys of a head through shared memory, in whichever order they lie. Rows
// past an entry's keys become 0, whatever they hold.
//
// Scales by block go into f16 here, relative to the largest of the head, which is left for the end.
#include <algorithm>

#include "cuda/estimate.hpp"
#include "cuda/ptx/pdl.hpp"
#include "cuda/sm90_fp8/values.hpp"
#include "cuda/tile/coded_rows.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::sm90_fp8 {
namespace {

constexpr int kKeys = 64, kThreads = 256, kMostDim = 256, kPitch = kMostDim + 16;

struct ValuesParams {
  Params problem;
  Coded coded;
  char* out;      // an offset into the workspace until placed
  float* scales;  // the same; null: there are none
  int row;        // elements of a row of the result
};

struct alignas(16) Tile {
  unsigned char code[kKeys][kPitch];
  float largest[kThreads / 32];
};

template <class Code>
struct ValuesPass {
  const ValuesParams& p;
  Tile& tile;
  const int first_key = static_cast<int>(blockIdx.x) * kKeys, head = static_cast<int>(blockIdx.y),
            batch = static_cast<int>(blockIdx.z);
  const int keys = tile::Sequence{p.problem, batch}.keys(), columns = p.problem.sizes.value_dim;
  const unsigned char* const from = static_cast<const unsigned char*>(p.problem.kv.value.data) +
                                    batch * p.problem.kv.value.strides.batch +
                                    head * p.problem.kv.value.strides.head;

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }

  // 16 neighbours, of which the first `left` are there.
  __device__ static uint4 load(const unsigned char* at, int left) {
    if (left >= 16) return *reinterpret_cast<const uint4*>(at);
    alignas(16) unsigned char bytes[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) bytes[i] = i < left ? at[i] : 0;
    return *reinterpret_cast<const uint4*>(bytes);
  }
  __device__ void read_rows() const {
    const int chunks = (columns + 15) / 16;
    for (int n = thread(); n < kKeys * chunks; n += kThreads) {
      const int key = n / chunks, column = n % chunks * 16;
      uint4 x = {};
      if (first_key + key < keys)
        x = load(from + (first_key + key) * p.problem.kv.value.strides.row + column, columns - column);
      *reinterpret_cast<uint4*>(&tile.code[key][column]) = x;
    }
  }
  __device__ void read_columns() const {
    for (int n = thread(); n < columns * (kKeys / 16); n += kThreads) {
      const int column = n / (kKeys / 16), key = n % (kKeys / 16) * 16, left = keys - first_key - key;
      alignas(16) unsigned char bytes[16];
      *reinterpret_cast<uint4*>(bytes) =
          left <= 0 ? uint4{} : load(from + column * p.coded.value_column + first_key + key, left);
#pragma unroll
      for (int i = 0; i < 16; ++i) tile.code[key + i][column] = bytes[i];
    }
    // Columns up to the next multiple of 8 are stored with these.
    for (int n = thread(); n < kKeys * 8; n += kThreads)
      if (columns + n % 8 < kMostDim && columns % 8 != 0) tile.code[n / 8][columns + n % 8] = 0;
  }

  // By all threads: the head's largest scale.
  __device__ float largest_scale() const {
    const Scales& scales = p.coded.value;
    float most = 0.0f;
    for (int n = thread(); n < (p.problem.sizes.keys + (1 << scales.shift) - 1) >> scales.shift;
         n += kThreads)
      most = fmaxf(most, fabsf(scales.data[scales.at(batch, head, n << scales.shift)]));
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
    if (thread() % 32 == 0) tile.largest[thread() / 32] = most;
    __syncthreads();
    for (int w = 0; w < kThreads / 32; ++w) most = fmaxf(most, tile.largest[w]);
    return most;
  }
  __device__ static unsigned scaled(unsigned pair, float scale) {
    const float2 x = tile::unpack<__half>(pair);
    return tile::pack<__half>(x.x * scale, x.y * scale);
  }
  __device__ void write_wide() const {
    float scale = 1.0f;
    if (p.scales != nullptr) {
      const float most = largest_scale();
      if (blockIdx.x == 0 && thread() == 0) p.scales[batch * gridDim.y + head] = most;
      const int key = min(first_key, p.problem.sizes.keys - 1);
      if (most > 0.0f) scale = p.coded.value.data[p.coded.value.at(batch, head, key)] / most;
    }
    auto* const out = reinterpret_cast<__half*>(p.out) +
                      (static_cast<long long>(batch) * gridDim.y + head) * p.problem.sizes.keys * p.row;
    const int chunks = (columns + 7) / 8, there = min(kKeys, p.problem.sizes.keys - first_key);
    for (int n = thread(); n < there * chunks; n += kThreads) {
      const int key = n / chunks, column = n % chunks * 8;
      const uint2 x = *reinterpret_cast<const uint2*>(&tile.code[key][column]);
      uint4 y = make_uint4(ptx::widen<Code>(static_cast<unsigned short>(x.x)),
                           ptx::widen<Code>(static_cast<unsigned short>(x.x >> 16)),
                           ptx::widen<Code>(static_cast<unsigned short>(x.y)),
                           ptx::widen<Code>(static_cast<unsigned short>(x.y >> 16)));
      if (p.scales != nullptr)
        y = make_uint4(scaled(y.x, scale), scaled(y.y, scale), scaled(y.z, scale), scaled(y.w, scale));
      *reinterpret_cast<uint4*>(out + static_cast<long long>(first_key + key) * p.row + column) = y;
    }
  }
  __device__ void run() const {
    if (p.coded.value_column == 1) {
      read_rows();
    } else {
      read_columns();
    }
    __syncthreads();
    write_wide();
  }
};

template <class Code>
__global__ void __launch_bounds__(kThreads) prepare_values(const __grid_constant__ ValuesParams p) {
  __shared__ Tile tile;
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  ValuesPass<Code>{p, tile}.run();
}

core::Status place_values(void* params, const core::Addresses& at, void* workspace) {
  auto& p = *static_cast<ValuesParams*>(params);
  place(&p.problem, at);
  place(&p.coded, at);
  auto* const memory = static_cast<char*>(workspace);
  p.out = memory + reinterpret_cast<std::intptr_t>(p.out);
  if (p.scales != nullptr)
    p.scales = reinterpret_cast<float*>(memory + reinterpret_cast<std::intptr_t>(p.scales));
  return {};
}

}  // namespace

ValuesLayout values_layout(const core::Problem& p) {
  const std::int64_t heads = p.batch * p.kv_heads;
  ValuesLayout l;
  l.row = divide_up(p.value_dim, 8) * 8;
  l.bytes = heads * std::max<std::int64_t>(p.keys, 1) * l.row * 2;
  if (p.scales.value.block_stride != 0) l.scale_bytes = heads * 4;
  return l;
}

core::Tensor4 values_tensor(const core::Problem& p, const ValuesLayout& l) {
  const std::int64_t of_head = std::max<std::int64_t>(p.keys, 1) * l.row;
  // An address that is aligned: the real one comes with the workspace.
  return {reinterpret_cast<void*>(256), p.kv_heads * of_head, of_head, l.row};
}

void make_values(const core::Problem& p, const ValuesLayout& l, runtime::Step* out) {
  ValuesParams params{};
  params.problem = translate(p, 1);
  params.coded = translate_coded(p);
  params.out = reinterpret_cast<char*>(l.at);
  params.scales = l.scale_bytes > 0 ? reinterpret_cast<float*>(l.scales_at) : nullptr;
  params.row = static_cast<int>(l.row);
  out->kernel = "sm90_fp8";
  out->pdl = true;
  out->function = p.dtype == TESSERA_F8E4M3 ? reinterpret_cast<const void*>(prepare_values<ptx::E4m3>)
                                            : reinterpret_cast<const void*>(prepare_values<ptx::E5m2>);
  out->set_params(params);
  out->place = place_values;
  out->grid[0] = static_cast<unsigned>(divide_up(std::max<std::int64_t>(p.keys, 1), kKeys));
  out->grid[1] = static_cast<unsigned>(p.kv_heads);
  out->grid[2] = static_cast<unsigned>(p.batch);
  out->threads = kThreads;
}

}  // namespace tessera::cuda::sm90_fp8
