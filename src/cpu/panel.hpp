// What the per-target code keeps about the rows of one panel, and how scores become weights.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/problem.hpp"

namespace tessera::cpu {

inline constexpr int kMaxPanelRows = 32;  // two AVX-512 vectors

enum class PanelKind {
  wide,    // rows in lanes, Q and O transposed
  narrow,  // the same at half the width
  few,     // dimensions in lanes, up to four rows
  tiny,    // keys in lanes, up to four rows of a few dimensions
};

struct Panel {
  PanelKind kind = PanelKind::wide;
  int rows = 0;                               // real ones; the lanes after them are padding
  std::int64_t first_row = 0;                 // within the (batch entry, kv head)
  float* query = nullptr;                     // [dim][width], or [row][query_stride] for few and tiny
  bool tiny_query = false;                    // pairs only: see pairs-inl.hpp
  float* output = nullptr;                    // [value_dim][width], or [row][output_stride] for few and tiny
  float* max = nullptr;                       // [width]
  float* sum = nullptr;                       // [width]
  std::int64_t key_begin = 0, key_end = 0;    // keys that some row sees
  std::int64_t full_begin = 0, full_end = 0;  // keys that the band hides from no row
  std::int64_t begin[kMaxPanelRows];          // the band of each row
  std::int64_t end[kMaxPanelRows];
  std::int64_t position[kMaxPanelRows];
  std::int64_t mask_offset[kMaxPanelRows];
  std::int64_t mask_key = 0;  // the key that the first column of the mask tensor stands for
  float slope[kMaxPanelRows];
};

// A plain problem keeps scores as bare dot products: scale and the base of the exponential meet in one
// factor. Any option that works on natural scores makes it "full": scores are then finished one by one.
struct Scoring {
  bool full = false;
  bool flip_query = false;  // a negative scale is moved into the queries, so that a max stays a max
  float scale = 1;          // >= 0
  float softcap = 0;
  float factor = 1;    // exp2(factor * score) = exp(natural score)
  double natural = 1;  // natural score = natural * score
};

inline Scoring scoring_of(const core::Problem& p) {
  constexpr double kLog2E = 1.4426950408889634;
  Scoring s;
  s.flip_query = p.scoring.scale < 0;
  s.scale = std::fabs(p.scoring.scale);
  // A scale whose factor is zero or infinite must not meet the infinity of a hidden key in one product.
  s.full = p.scoring.softcap > 0 || p.scoring.alibi_slopes.data != nullptr ||
           p.visibility.mask.kind == core::MaskKind::additive ||
           !std::isnormal(static_cast<float>(s.scale * kLog2E));
  s.softcap = p.scoring.softcap;
  s.natural = s.full ? 1.0 : static_cast<double>(s.scale);
  s.factor = static_cast<float>(s.natural * kLog2E);
  return s;
}

}  // namespace tessera::cpu
