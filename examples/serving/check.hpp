// Was every token right? Two answers, both from each request alone.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model.hpp"
#include "workload.hpp"

namespace serving {

class Check {
 public:
  // What was compared, for people.
  struct Counts {
    int lives = 0, tokens = 0, ties = 0;
    float difference = 0;  // the largest of two logits, in whole()
  };

  explicit Check(Model& model);

  // Computes the request again, alone and in one large page, in the same entries that it had in the batch:
  // the same numbers of rows at the same places. The logits must have the same bits. "" or a sentence.
  std::string same_bits(const Request& request);
  // Computes the whole request in one call, as somebody without a cache would. Another number of rows may
  // round otherwise, so it is the tokens that must be the same. "" or a sentence.
  std::string same_tokens(const Request& request);

  const Counts& counts() const { return counts_; }

 private:
  Model& model_;
  Cache cache_;
  Counts counts_;
};

}  // namespace serving
