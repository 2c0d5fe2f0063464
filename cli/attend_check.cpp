// The oracle is slow and knows nothing of threads, so the problem is cut into one piece for each batch
// entry and head; pieces do not influence each other, and each gives the bar a step.
#include "cli/attend_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "cli/common.hpp"
#include "cli/term.hpp"
#include "oracle/oracle.hpp"

namespace tessera::cli {
namespace {

// A view moved to index `at` of dimension d, which keeps size 1.
void fix(tessera_tensor* t, int d, std::int64_t at) {
  if (t->data == nullptr) return;
  const auto element_bytes = static_cast<std::int64_t>(tessera_dtype_size(t->dtype));
  if (t->shape[d] != 1) t->data = static_cast<std::byte*>(t->data) + at * t->strides[d] * element_bytes;
  t->shape[d] = 1;
}

struct Element {
  double got, exact, plain;
};

// The results of one piece, in the order of its rows.
struct Piece {
  std::vector<Element> output, lse;
};

Piece compute_piece(const tessera_attention& p) {
  const oracle::Result exact = oracle::attend(p);
  const oracle::Result plain = oracle::plain(p);
  const std::int64_t rows = p.query.shape[2];
  const std::int64_t dim = p.value.shape[3];
  Piece piece;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t d = 0; d < dim; ++d) {
      const auto at = static_cast<std::size_t>(i * dim + d);
      const double got = oracle::load(p.output.data, p.output.dtype, i * p.output.strides[2] + d);
      piece.output.push_back({got, exact.output[at], plain.output[at]});
    }
    if (p.lse.data == nullptr) continue;
    const auto at = static_cast<std::size_t>(i);
    const double got = oracle::load(p.lse.data, TESSERA_F32, i * p.lse.strides[2]);
    piece.lse.push_back({got, exact.lse[at], plain.lse[at]});
  }
  return piece;
}

double worst_plain_error(const std::vector<Piece>& pieces, std::vector<Element> Piece::*part) {
  double worst = 0;
  for (const Piece& piece : pieces) {
    for (const Element& e : piece.*part) {
      if (std::isfinite(e.exact) && std::isfinite(e.plain))
        worst = std::max(worst, std::abs(e.plain - e.exact));
    }
  }
  return worst;
}

// NaN for NaN and inf for inf; a finite value within the bound.
void judge(const std::vector<Piece>& pieces, std::vector<Element> Piece::*part, std::string_view name,
           tessera_dtype dtype, double plain_error, double* worst_error, AttendCheck* check) {
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    const std::vector<Element>& elements = pieces[p].*part;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const Element& e = elements[i];
      const double stored = oracle::round_to(dtype, e.exact);  // a finite value may be inf in f16
      double ratio = 0;
      if (std::isfinite(stored) && std::isfinite(e.got)) {
        const double error = std::abs(e.got - e.exact);
        ratio = error / (2 * plain_error + oracle::rounding_step(dtype, e.exact));
        *worst_error = std::max(*worst_error, error);
        check->worst_ratio = std::max(check->worst_ratio, ratio);
      } else if (!(e.got == stored || (std::isnan(e.got) && std::isnan(stored)))) {
        ratio = check->worst_ratio = std::numeric_limits<double>::infinity();
      }
      if (ratio > 1 && check->why.empty()) {
        check->why =
            fmt::format("{}: element {} of piece {} (batch entry, head) is {:.9g}, the oracle says {:.9g}",
                        name, i, p, e.got, e.exact);
      }
    }
  }
}

}  // namespace

tessera_attention slice(const tessera_attention& problem, std::int64_t batch_entry, std::int64_t head) {
  tessera_attention p = problem;
  const std::int64_t kv_head = head / (problem.query.shape[1] / problem.key.shape[1]);
  for (tessera_tensor* t : {&p.query, &p.output, &p.lse}) {
    fix(t, 0, batch_entry);
    fix(t, 1, head);
  }
  for (tessera_tensor* t : {&p.key, &p.value}) {
    fix(t, 0, batch_entry);
    fix(t, 1, kv_head);
  }
  // The mask's dimensions count from the back: rank 2 has neither batch nor heads.
  if (p.mask.tensor.rank == 4) fix(&p.mask.tensor, 0, batch_entry);
  if (p.mask.tensor.rank >= 3) fix(&p.mask.tensor, p.mask.tensor.rank - 3, head);
  fix(&p.key_lengths, 0, batch_entry);
  if (p.alibi_slopes.rank == 2) fix(&p.alibi_slopes, 0, batch_entry);
  if (p.alibi_slopes.rank >= 1) fix(&p.alibi_slopes, p.alibi_slopes.rank - 1, head);
  fix(&p.sinks, 0, head);
  return p;
}

AttendCheck check_against_oracle(const tessera_attention& problem, int threads) {
  const std::int64_t heads = problem.query.shape[1];
  const std::int64_t count = problem.query.shape[0] * heads;
  std::vector<Piece> pieces(static_cast<std::size_t>(count));
  {
    Progress progress("checking against the float64 oracle", pieces.size());
    std::atomic<std::int64_t> next = 0;
    const auto work = [&] {
      for (std::int64_t i = next++; i < count; i = next++) {
        pieces[static_cast<std::size_t>(i)] = compute_piece(slice(problem, i / heads, i % heads));
        progress.tick(fmt::format("batch entry {}, head {}", i / heads, i % heads));
      }
    };
    const int cores = threads > 0 ? threads : this_machine().cores;
    std::vector<std::jthread> others;
    for (std::int64_t t = 1; t < std::min<std::int64_t>(cores, count); ++t) others.emplace_back(work);
    work();
  }
  AttendCheck check;
  check.plain_error = worst_plain_error(pieces, &Piece::output);
  judge(pieces, &Piece::output, "output", problem.output.dtype, check.plain_error, &check.worst_error,
        &check);
  const double plain_lse_error = worst_plain_error(pieces, &Piece::lse);
  judge(pieces, &Piece::lse, "lse", TESSERA_F32, plain_lse_error, &check.lse_error, &check);
  check.passed = check.why.empty();
  return check;
}

}  // namespace tessera::cli
