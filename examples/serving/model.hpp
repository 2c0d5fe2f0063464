// A small transformer with random weights: embedding, layers of RMSNorm, grouped-query attention with RoPE
// and a gated MLP, logits. Its keys and values lie in pages.
#pragma once

#include <cstdint>
#include <memory>
#include <tessera/tessera.hpp>
#include <vector>

#include "machine.hpp"

namespace serving {

inline constexpr int kVocabulary = 256;
inline constexpr int kLayers = 3;
inline constexpr int kWidth = 128;
inline constexpr int kHeads = 8, kKvHeads = 2, kDim = 16;
inline constexpr int kInner = 256;  // of the MLP

// Keys and values of all layers. A page holds `rows` tokens of all of them, so that it is copied in one
// piece: [pages, layers, key and value, kv_heads, rows, dim].
class Cache {
 public:
  Cache(Machine& machine, int pages, int rows);

  int rows() const { return rows_; }
  tessera::Tensor key(int layer) const { return part(2 * layer); }
  tessera::Tensor value(int layer) const { return part(2 * layer + 1); }
  void copy(int from, int to);

 private:
  tessera::Tensor part(int n) const;

  Machine& machine_;
  std::int64_t pages_;
  int rows_;
  std::int64_t part_, page_;  // floats of each
  float* memory_;
};

// What one step computes: rows of several entries, one behind the other.
struct Step {
  std::vector<std::int32_t> tokens = {};     // [rows]
  std::vector<std::int32_t> offsets = {0};   // [entries + 1]: where the rows of each entry begin
  std::vector<std::int32_t> lengths = {};    // [entries]: its keys, the new ones included
  std::vector<std::int32_t> table = {};      // [entries, columns]: the pages it lies in
  std::vector<std::int32_t> logits_of = {};  // rows whose logits are wanted
  int columns = 1;

  int rows() const { return static_cast<int>(tokens.size()); }
  int entries() const { return static_cast<int>(lengths.size()); }
  // One more entry: `count` tokens from `first` on, keys before them being in `pages` already.
  void add(const std::vector<std::int32_t>& all, int first, int count,
           const std::vector<std::int32_t>& pages);
  // Entries without rows and keys, and rows without an entry: a step of a size that serves all.
  void pad(int size);
};

class Model {
 public:
  Model(Machine& machine, std::uint64_t seed, int most_rows, int most_entries, int most_columns);

  // Computes the step, stores its keys and values, and returns logits, one vector for each of
  // step.logits_of. again: the same sizes and the same cache each time, which may be replayed.
  std::vector<std::vector<float>> compute(const Step& step, const Cache& cache, bool again = false);

  Machine& machine() { return machine_; }

 private:
  struct Layer {
    float *project, *out, *up, *down;
  };
  float* random_weights(class Random& random, int in, int out);
  void make_angles(int positions);
  void upload(const std::vector<std::int32_t>& values, std::int32_t* to);
  void layers(const Step& step, const Cache& cache);
  void attend(const Step& step, const Cache& cache, int layer);
  tessera::Attention problem(const Step& step, const Cache& cache, int layer) const;
  void find_workspace(const Step& step, const Cache& cache);

  Machine& machine_;
  std::vector<Layer> weights_;
  float *embedding_, *unembedding_;
  float *cos_, *sin_;
  int positions_;
  std::int32_t *tokens_, *offsets_, *lengths_, *table_, *logits_of_;  // the step, in the machine's memory
  float *x_, *normal_, *projected_, *attended_, *inner_, *gated_, *logits_;
  tessera::Workspace workspace_;
};

}  // namespace serving
