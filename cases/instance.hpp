// A case with memory: inputs made from a seed, outputs poisoned, guard bands of NaN around every
// buffer so that a read outside shows up as NaN and a write outside is found.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cases/case.hpp"
#include "cases/mirror.hpp"

namespace tessera::cases {

enum class Input {
  normal,     // standard normal
  large,      // scores of magnitude 1e4
  dominant,   // one key outweighs all others
  equal,      // every element the same: the output is known without an oracle
  hidden,     // rows with nothing visible: an additive or boolean mask hides whole rows
  tiny,       // denormal and near-denormal values
  nonfinite,  // NaN and inf where their effect is defined: hidden keys, a NaN query row, an inf value
};
const std::vector<Input>& all_inputs();
std::string_view name(Input input);
std::optional<Input> parse_input(std::string_view text);
// False where the input would be `normal` over again: hidden needs a mask tensor or key lengths.
bool differs_from_normal(const Case& c, Input input);

class Instance {
 public:
  Instance(const Case& c, Input input, std::uint64_t seed);
  ~Instance();
  Instance(Instance&&) noexcept;
  Instance& operator=(Instance&&) noexcept;

  const Case& shape() const;
  Input input() const;
  std::uint64_t seed() const;
  // The problem over this instance's buffers; valid as long as the instance lives.
  const tessera_attention& problem() const;
  tessera_attention& problem();

  // Fills output and lse, gaps included, with a NaN pattern; of a case that stores new rows, key and value
  // hold again what they held before the first call.
  void poison_outputs();
  // Empty, or which buffer's guard band, gap or input was written to.
  std::string damage() const;
  // Behind a call that stores new rows: empty, or where key or value is not what the oracle makes of it.
  std::string misplaced() const;
  // Empty, or the first element of output or lse that still holds the poison.
  std::string unwritten() const;
  // Call after changing inputs on purpose: what they hold now is what damage() compares with.
  void accept_inputs();
  // Output and lse as contiguous float64, [b,h,q,dv] and [b,h,q].
  std::vector<double> output() const;
  std::vector<double> lse() const;
  // Every byte of output and lse that belongs to an element: for bit-for-bit comparison.
  std::vector<unsigned char> output_bytes() const;
  // What is written to (output and lse, key and value where new rows are stored), gaps and guard bands
  // included, as it looks right after poison_outputs().
  std::vector<std::vector<unsigned char>> poisoned() const;
  // All of its memory on a GPU, made and filled when first asked for and kept from then on.
  core::Status mirror(int gpu, Mirror** out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::cases
