// Three passes over chunks of rows, each of them parallel: sums for the means, largest magnitudes for the
// scales, codes. What chunks find is put together in their order, so that the number of threads changes no
// bit. GPUs (cuda/quantise) do the same in the same order.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/host_memory.hpp"
#include "cpu/pool.hpp"
#include "cpu/threads.hpp"
#include "quantise/codes.hpp"
#include "quantise/quantise.hpp"
#include "quantise/rows.hpp"

namespace tessera::codes {

void hadamard(float* row, std::int64_t dim) {
  for (std::int64_t half = 1; half < dim; half *= 2) {
    for (std::int64_t first = 0; first < dim; first += 2 * half) {
      for (std::int64_t d = first; d < first + half; ++d) {
        const float a = row[d], b = row[d + half];
        row[d] = a + b;
        row[d + half] = a - b;
      }
    }
  }
  const float factor = hadamard_factor(dim);
  for (std::int64_t d = 0; d < dim; ++d) row[d] *= factor;
}

float hadamard_factor(std::int64_t dim) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
}

namespace {

// Rows of one head that one thread takes at a time.
struct Chunk {
  std::int64_t o, h, first_row, last_row;  // last_row: one behind
};

class Chunks {
 public:
  explicit Chunks(const Problem& p)
      : problem_(p),
        per_head_((p.rows + kChunkRows - 1) / kChunkRows),
        count_(p.outer * p.heads * per_head_) {}

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t per_head() const { return per_head_; }
  [[nodiscard]] Chunk operator[](std::int64_t n) const {
    const std::int64_t head = n / per_head_, first = n % per_head_ * kChunkRows;
    return {head / problem_.heads, head % problem_.heads, first, std::min(first + kChunkRows, problem_.rows)};
  }

 private:
  const Problem& problem_;
  std::int64_t per_head_, count_;
};

template <class Body>
class ChunkTask final : public cpu::Task {
 public:
  explicit ChunkTask(const Body& body) : body_(body) {}
  std::byte* enter(bool) noexcept override { return &nothing_; }
  void run(std::int64_t item, std::byte*) noexcept override { body_(item); }

 private:
  const Body& body_;
  std::byte nothing_{};
};

template <class Body>
void for_each_chunk(const Problem& p, const Chunks& chunks, const tessera_device& device, const Body& body) {
  constexpr double kWorthHelp = 1e4;  // elements: fewer are done before a helper has woken up
  const double work =
      static_cast<double>(p.outer) * static_cast<double>(p.heads) * static_cast<double>(p.rows * p.dim);
  const bool help = work >= kWorthHelp;
  ChunkTask task(body);
  cpu::run_parallel(task, chunks.count(), help ? cpu::thread_count(device.threads) : 1,
                    help ? cpu::ForeignPool{device.run_tasks, device.run_context} : cpu::ForeignPool{});
}

// Where the scale of an element is; broadcast dimensions have stride 0.
std::int64_t scale_at(const Problem& p, const Chunk& chunk, std::int64_t row, std::int64_t d) {
  const std::int64_t* const s = p.scale_strides;
  const std::int64_t block = p.scale_rows == 0 ? 0 : row / p.scale_rows;
  return chunk.o * s[0] + chunk.h * s[1] + block * s[2] + d * s[3];
}

// How many scales the rows of a chunk have.
std::int64_t cells_of_chunk(const Problem& p) {
  if (p.by_channel) return p.dim;
  return p.scale_rows == 0 ? 1 : kChunkRows / p.scale_rows;
}

// What the chunks find: made before anything is written, so that a lack of memory leaves the results alone.
struct Found {
  std::vector<Sum> sums;       // of each chunk's channels, for the means
  std::vector<float> largest;  // finite magnitudes, for each scale that a chunk has

  Found(const Problem& p, const Chunks& chunks)
      : sums(static_cast<std::size_t>(p.means != nullptr ? chunks.count() * p.dim : 0)),
        largest(static_cast<std::size_t>(chunks.count() * cells_of_chunk(p))) {}
};

// Of each channel, over the rows of a chunk.
void add_up(const Problem& p, const Chunk& chunk, Sum* sums) {
  Row row;
  std::array<Sum, TESSERA_MAX_HEAD_DIM> block;
  for (std::int64_t first = chunk.first_row; first < chunk.last_row; first += kSumRows) {
    std::fill_n(block.begin(), p.dim, Sum{});
    for (std::int64_t r = first; r < std::min(first + kSumRows, chunk.last_row); ++r) {
      load_row(p, chunk.o, chunk.h, r, row.data());
      for (std::int64_t d = 0; d < p.dim; ++d)
        add(row[static_cast<std::size_t>(d)], &block[static_cast<std::size_t>(d)]);
    }
    for (std::int64_t d = 0; d < p.dim; ++d) add(block[static_cast<std::size_t>(d)], &sums[d]);
  }
}

// Of each channel of each head, over its finite elements.
void write_means(const Problem& p, const Chunks& chunks, const tessera_device& device,
                 std::vector<Sum>& sums) {
  for_each_chunk(p, chunks, device,
                 [&](std::int64_t n) noexcept { add_up(p, chunks[n], sums.data() + n * p.dim); });
  for (std::int64_t head = 0; head < p.outer * p.heads; ++head) {
    for (std::int64_t d = 0; d < p.dim; ++d) {
      Sum all{};
      for (std::int64_t c = 0; c < chunks.per_head(); ++c)
        add(sums[static_cast<std::size_t>((head * chunks.per_head() + c) * p.dim + d)], &all);
      const std::int64_t* const s = p.mean_strides;
      p.means[head / p.heads * s[0] + head % p.heads * s[1] + d * s[3]] = mean_of(all, p.rows);
    }
  }
}

void find_largest(const Problem& p, const Chunks& chunks, const tessera_device& device,
                  std::vector<float>& largest) {
  const std::int64_t cells = cells_of_chunk(p);
  for_each_chunk(p, chunks, device, [&](std::int64_t n) noexcept {
    const Chunk chunk = chunks[n];
    Row row;
    for (std::int64_t r = chunk.first_row; r < chunk.last_row; ++r) {
      prepare_row(p, chunk.o, chunk.h, r, row.data());
      float* const own =
          largest.data() + n * cells + (p.scale_rows == 0 ? 0 : (r - chunk.first_row) / p.scale_rows);
      for (std::int64_t d = 0; d < p.dim; ++d) {
        const float magnitude = magnitude_of(row[static_cast<std::size_t>(d)]);
        float& most = own[p.by_channel ? d : 0];
        if (magnitude > most && magnitude <= kLargestFloat) most = magnitude;
      }
    }
  });
}

template <class F>
void for_each_scale(const Problem& p, F f) {
  const std::int64_t *shape = p.scale_shape, *s = p.scale_strides;
  for (std::int64_t o = 0; o < shape[0]; ++o)
    for (std::int64_t h = 0; h < shape[1]; ++h)
      for (std::int64_t b = 0; b < shape[2]; ++b)
        for (std::int64_t d = 0; d < shape[3]; ++d) f(&p.scales[o * s[0] + h * s[1] + b * s[2] + d * s[3]]);
}

void write_scales(const Problem& p, const Chunks& chunks, const std::vector<float>& largest,
                  float format_largest) {
  const std::int64_t cells = cells_of_chunk(p);
  for_each_scale(p, [](float* scale) { *scale = 0; });
  for (std::int64_t n = 0; n < chunks.count(); ++n) {
    const Chunk chunk = chunks[n];
    for (std::int64_t cell = 0; cell < cells; ++cell) {
      const std::int64_t row = chunk.first_row + (p.by_channel ? 0 : cell * p.scale_rows);
      if (row >= chunk.last_row) break;
      float& most = p.scales[scale_at(p, chunk, row, p.by_channel ? cell : 0)];
      most = std::max(most, largest[static_cast<std::size_t>(n * cells + cell)]);
    }
  }
  for_each_scale(p, [&](float* scale) { *scale = scale_of(*scale, format_largest); });
}

template <class Format>
void write_codes(const Problem& p, const Chunks& chunks, const tessera_device& device) {
  const std::int64_t* const s = p.output.strides;
  for_each_chunk(p, chunks, device, [&](std::int64_t n) noexcept {
    const Chunk chunk = chunks[n];
    auto* const codes = static_cast<std::uint8_t*>(p.output.data) + chunk.o * s[0] + chunk.h * s[1];
    Row row;
    for (std::int64_t r = chunk.first_row; r < chunk.last_row; ++r) {
      prepare_row(p, chunk.o, chunk.h, r, row.data());
      const float* const scale = p.scales + scale_at(p, chunk, r, 0);
      for (std::int64_t d = 0; d < p.dim; ++d) {
        const float x = row[static_cast<std::size_t>(d)] / scale[d * p.scale_strides[3]];
        codes[r * s[2] + d * s[3]] = encode<Format>(x);
      }
    }
  });
}

template <class Format>
void quantise_as(const Problem& p, const tessera_device& device) {
  const Chunks chunks(p);
  Found found(p, chunks);
  if (p.means != nullptr) write_means(p, chunks, device, found.sums);
  find_largest(p, chunks, device, found.largest);
  write_scales(p, chunks, found.largest, Format::kLargest);
  write_codes<Format>(p, chunks, device);
}

}  // namespace

core::Status quantise_on_cpu(const Problem& problem, const tessera_device& device) {
  for (const Piece& each : problem.memory)
    if (core::Status s = cpu::check_on_host(each.name, each.data); !s.ok()) return s;
  if (problem.output.dtype == TESSERA_F8E4M3)
    quantise_as<E4M3>(problem, device);
  else if (problem.output.dtype == TESSERA_I8)
    quantise_as<I8>(problem, device);
  else
    quantise_as<E5M2>(problem, device);
  return {};
}

}  // namespace tessera::codes
