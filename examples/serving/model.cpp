#include "model.hpp"

#include <cmath>
#include <stdexcept>

#include "workload.hpp"

namespace serving {
namespace {

constexpr int kProjected = (kHeads + 2 * kKvHeads) * kDim;  // a row's queries, keys and values

template <class T>
T* allocate(Machine& machine, std::int64_t count) {
  return static_cast<T*>(machine.allocate(static_cast<std::size_t>(count) * sizeof(T)));
}

void must(const tessera::Status& status) {
  if (!status) throw std::runtime_error(status.message());
}

}  // namespace

Cache::Cache(Machine& machine, int pages, int rows)
    : machine_(machine),
      pages_(pages),
      rows_(rows),
      part_(std::int64_t{kKvHeads} * rows * kDim),
      page_(2 * kLayers * part_),
      memory_(allocate<float>(machine, pages * page_)) {}

tessera::Tensor Cache::part(int n) const {
  return tessera::tensor(memory_ + n * part_, {pages_, kKvHeads, rows_, kDim},
                         {page_, std::int64_t{rows_} * kDim, kDim, 1});
}

void Cache::copy(int from, int to) {
  machine_.copy(memory_ + from * page_, static_cast<std::size_t>(page_) * sizeof(float),
                memory_ + to * page_);
}

void Step::add(const std::vector<std::int32_t>& all, int first, int count,
               const std::vector<std::int32_t>& pages) {
  tokens.insert(tokens.end(), all.begin() + first, all.begin() + first + count);
  offsets.push_back(rows());
  lengths.push_back(first + count);
  table.insert(table.end(), pages.begin(), pages.end());
  table.resize(static_cast<std::size_t>(entries()) * static_cast<std::size_t>(columns),
               -1);  // never looked at
}

void Step::pad(int size) {
  const auto wanted = static_cast<std::size_t>(size);
  offsets.resize(wanted + 1, rows());
  lengths.resize(wanted, 0);
  table.resize(wanted * static_cast<std::size_t>(columns), -1);
  tokens.resize(wanted, 0);
  logits_of.resize(wanted, 0);
}

Model::Model(Machine& machine, std::uint64_t seed, int most_rows, int most_entries, int most_columns)
    : machine_(machine), positions_(kLongest) {
  Random random(seed);
  for (int n = 0; n < kLayers; ++n) {
    weights_.push_back({random_weights(random, kWidth, kProjected),
                        random_weights(random, kHeads * kDim, kWidth),
                        random_weights(random, kWidth, 2 * kInner), random_weights(random, kInner, kWidth)});
  }
  embedding_ = random_weights(random, kVocabulary, kWidth);
  unembedding_ = random_weights(random, kWidth, kVocabulary);
  make_angles(positions_);
  tokens_ = allocate<std::int32_t>(machine, most_rows);
  offsets_ = allocate<std::int32_t>(machine, most_entries + 1);
  lengths_ = allocate<std::int32_t>(machine, most_entries);
  table_ = allocate<std::int32_t>(machine, std::int64_t{most_entries} * most_columns);
  logits_of_ = allocate<std::int32_t>(machine, most_rows);
  const auto rows = [&](int width) { return allocate<float>(machine, std::int64_t{most_rows} * width); };
  x_ = rows(kWidth);
  normal_ = rows(kWidth);
  projected_ = rows(kProjected);
  attended_ = rows(kHeads * kDim);
  inner_ = rows(2 * kInner);
  gated_ = rows(kInner);
  logits_ = rows(kVocabulary);
}

float* Model::random_weights(Random& random, int in, int out) {
  std::vector<float> w(static_cast<std::size_t>(in) * static_cast<std::size_t>(out));
  const double reach = std::sqrt(6.0 / in);
  for (float& x : w) x = static_cast<float>(reach * (2 * random.uniform() - 1));
  auto* const to = allocate<float>(machine_, static_cast<std::int64_t>(w.size()));
  machine_.upload(w.data(), w.size() * sizeof(float), to);
  return to;
}

void Model::make_angles(int positions) {
  constexpr int kPairs = kDim / 2;
  std::vector<float> cos, sin;
  for (int p = 0; p < positions; ++p) {
    for (int j = 0; j < kPairs; ++j) {
      const double angle = p * std::pow(10000.0, -static_cast<double>(j) / kPairs);
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  cos_ = allocate<float>(machine_, static_cast<std::int64_t>(cos.size()));
  sin_ = allocate<float>(machine_, static_cast<std::int64_t>(sin.size()));
  machine_.upload(cos.data(), cos.size() * sizeof(float), cos_);
  machine_.upload(sin.data(), sin.size() * sizeof(float), sin_);
}

void Model::upload(const std::vector<std::int32_t>& values, std::int32_t* to) {
  machine_.upload(values.data(), values.size() * sizeof(std::int32_t), to);
}

// The one call of a layer: it turns queries and new keys, stores new keys and values in their pages, and lets
// each row see what comes before it in its entry.
tessera::Attention Model::problem(const Step& step, const Cache& cache, int layer) const {
  constexpr int kPairs = kDim / 2;
  const std::int64_t rows = step.rows(), entries = step.entries();
  const auto heads_of = [&](float* first, int heads, int width) {
    return tessera::tensor(first, {1, heads, rows, kDim}, {rows * width, kDim, width, 1});
  };
  return {
      .query = heads_of(projected_, kHeads, kProjected),  // three views of one product
      .key = cache.key(layer),
      .value = cache.value(layer),
      .output = heads_of(attended_, kHeads, kHeads * kDim),
      .mask = tessera::causal_bottom_right(),
      .key_lengths = tessera::tensor(lengths_, {entries}),
      .query_offsets = tessera::tensor(offsets_, {entries + 1}),
      .page_table = tessera::tensor(table_, {entries, step.columns}),
      .new_key = heads_of(projected_ + kHeads * kDim, kKvHeads, kProjected),
      .new_value = heads_of(projected_ + (kHeads + kKvHeads) * kDim, kKvHeads, kProjected),
      .rope = {.cos = tessera::tensor(cos_, {positions_, kPairs}),
               .sin = tessera::tensor(sin_, {positions_, kPairs})},
  };
}

// Scratch memory as the plan asks for it. Smaller ones are kept: a step that was captured still uses them.
void Model::find_workspace(const Step& step, const Cache& cache) {
  tessera::Workspace any{.bytes = SIZE_MAX / 512 * 256};
  const tessera::Plan plan = tessera::plan(problem(step, cache, 0), machine_.device(any));
  must(plan.status);
  const auto bytes = static_cast<std::size_t>(plan.workspace_bytes);
  if (bytes > workspace_.bytes) workspace_ = {machine_.allocate(bytes), bytes};
}

void Model::attend(const Step& step, const Cache& cache, int layer) {
  must(tessera::attend(problem(step, cache, layer), machine_.device(workspace_)));
}

void Model::layers(const Step& step, const Cache& cache) {
  const int rows = step.rows();
  machine_.gather(embedding_, tokens_, rows, kWidth, x_);
  for (int n = 0; n < kLayers; ++n) {
    const Layer& w = weights_[static_cast<std::size_t>(n)];
    machine_.normalise(x_, rows, kWidth, normal_);
    machine_.multiply(normal_, w.project, rows, kWidth, kProjected, false, projected_);
    attend(step, cache, n);
    machine_.multiply(attended_, w.out, rows, kHeads * kDim, kWidth, true, x_);
    machine_.normalise(x_, rows, kWidth, normal_);
    machine_.multiply(normal_, w.up, rows, kWidth, 2 * kInner, false, inner_);
    machine_.gate(inner_, rows, kInner, gated_);
    machine_.multiply(gated_, w.down, rows, kInner, kWidth, true, x_);
  }
  const int wanted = static_cast<int>(step.logits_of.size());
  machine_.gather(x_, logits_of_, wanted, kWidth, normal_);
  machine_.normalise(normal_, wanted, kWidth, normal_);
  machine_.multiply(normal_, unembedding_, wanted, kWidth, kVocabulary, false, logits_);
}

std::vector<std::vector<float>> Model::compute(const Step& step, const Cache& cache, bool again) {
  upload(step.tokens, tokens_);
  upload(step.offsets, offsets_);
  upload(step.lengths, lengths_);
  upload(step.table, table_);
  upload(step.logits_of, logits_of_);
  find_workspace(step, cache);
  machine_.run(again, [&] { layers(step, cache); });
  std::vector<std::vector<float>> logits(step.logits_of.size(), std::vector<float>(kVocabulary));
  for (std::size_t n = 0; n < logits.size(); ++n)
    machine_.download(logits_ + n * kVocabulary, kVocabulary * sizeof(float), logits[n].data());
  return logits;
}

}  // namespace serving
