// Continuous batching: which rows of which requests make up a step, and which pages they lie in.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "model.hpp"
#include "pages.hpp"
#include "workload.hpp"

namespace serving {

inline constexpr int kEntries = 8;    // requests that run at once
inline constexpr int kStepRows = 40;  // rows of a step, all entries together
inline constexpr int kChunk = 24;     // of a prompt, in one step

class Engine {
 public:
  struct Counts {
    int steps = 0, mixed = 0;                     // mixed: chunks of prompts beside decodes
    int generated = 0, computed = 0, shared = 0;  // tokens
    int preemptions = 0, copies = 0, most_pages = 0;
  };

  Engine(Model& model, int pages, std::vector<Request>& requests);

  // One step; false when every request is finished.
  bool step();

  int finished() const { return finished_; }
  int running() const { return static_cast<int>(running_.size()); }
  int waiting() const { return static_cast<int>(waiting_.size()); }
  const Counts& counts() const { return counts_; }

 private:
  struct Part {  // of a step
    Request* request;
    int rows;
  };

  void receive();
  void admit();
  void share_prefix(Request& request);
  std::vector<Part> choose();
  bool make_room(Request& request, int rows);
  bool find_page(const Request& request);
  void preempt(Request& request);
  void release(Request& request);
  void compute(const std::vector<Part>& parts);
  void take_token(Request& request, const std::vector<float>& logits);

  Model& model_;
  Cache cache_;
  Pages pages_;
  std::vector<Request>& requests_;
  std::size_t received_ = 0;
  std::deque<Request*> waiting_;  // in the order of their numbers, as is running_
  std::vector<Request*> running_;
  int now_ = 0, finished_ = 0;
  Counts counts_;
};

}  // namespace serving
