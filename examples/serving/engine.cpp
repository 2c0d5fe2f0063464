#include "engine.hpp"

#include <algorithm>

namespace serving {
namespace {

// Tokens at the beginning of `request` whose keys and values `other` holds. The last token is always left
// over: its row is what the next token is sampled from.
int common_prefix(const Request& request, const Request& other) {
  const int most = std::min(other.computed, request.size() - 1);
  const auto end =
      std::mismatch(request.tokens.begin(), request.tokens.begin() + std::max(most, 0), other.tokens.begin());
  return static_cast<int>(end.first - request.tokens.begin());
}

}  // namespace

Engine::Engine(Model& model, int pages, std::vector<Request>& requests)
    : model_(model), cache_(model.machine(), pages, kPageRows), pages_(pages), requests_(requests) {}

bool Engine::step() {
  receive();
  admit();
  compute(choose());
  ++now_;
  return finished_ < static_cast<int>(requests_.size());
}

void Engine::receive() {
  const bool idle = running_.empty() && waiting_.empty();
  if (idle && received_ < requests_.size()) now_ = std::max(now_, requests_[received_].arrives);
  for (; received_ < requests_.size() && requests_[received_].arrives <= now_; ++received_)
    waiting_.push_back(&requests_[received_]);
}

// A request begins, or begins again, when there are pages for all that it is known to need. More may be
// wanted later, by it and by others: then the youngest gives way.
void Engine::admit() {
  while (!waiting_.empty() && running() < kEntries) {
    Request& request = *waiting_.front();
    if (pages_.free() < pages_of(request.size())) return;
    waiting_.pop_front();
    request.lives.emplace_back();
    share_prefix(request);
    running_.push_back(&request);
  }
}

// Names the pages of whoever has the longest common prefix; the last one may be full in part.
void Engine::share_prefix(Request& request) {
  const Request* best = nullptr;
  int rows = kPageRows - 1;  // less than a page is not worth the copy
  for (const Request* other : running_) {
    const int common = common_prefix(request, *other);
    if (common > rows) best = other, rows = common;
  }
  if (best == nullptr) return;
  request.pages.assign(best->pages.begin(), best->pages.begin() + pages_of(rows));
  for (const int page : request.pages) pages_.share(page);
  request.computed = rows;
  for (const Segment& s : best->lives.back())
    if (s.first < rows) request.lives.back().push_back({s.whose, s.first, s.rows});
  counts_.shared += rows;
}

// The rows of a step, the oldest request first. Each gets one, so that nobody who decodes waits for prompts;
// what is left of kStepRows goes to chunks of prompts.
std::vector<Engine::Part> Engine::choose() {
  std::vector<Part> parts;
  int left = kStepRows - running();
  for (std::size_t n = 0; n < running_.size(); ++n) {
    Request& request = *running_[n];
    const int rows = std::min({request.size() - request.computed, kChunk, left + 1});
    if (!make_room(request, rows)) break;  // it was the youngest, and gave way itself
    left -= rows - 1;
    parts.push_back({&request, rows});
  }
  return parts;
}

// Pages for `rows` more rows that no other request names: taken anew, or copied from a shared one.
bool Engine::make_room(Request& request, int rows) {
  const int first = request.computed / kPageRows, end = pages_of(request.computed + rows);
  for (int n = first; n < end; ++n) {
    const auto at = static_cast<std::size_t>(n);
    if (at == request.pages.size()) {
      if (!find_page(request)) return false;
      request.pages.push_back(pages_.take());
    } else if (pages_.is_shared(request.pages[at])) {
      if (!find_page(request)) return false;
      if (!pages_.is_shared(request.pages[at])) continue;  // who shared it gave way
      const int copy = pages_.take();
      cache_.copy(request.pages[at], copy);
      pages_.give_back(request.pages[at]);
      request.pages[at] = copy;
      ++counts_.copies;
    }
  }
  counts_.most_pages = std::max(counts_.most_pages, pages_.in_use());
  return true;
}

// Sees to it that a page is free. The youngest gives way; false if that is `request`.
bool Engine::find_page(const Request& request) {
  while (pages_.free() == 0) {
    Request& youngest = *running_.back();
    preempt(youngest);
    if (&youngest == &request) return false;
  }
  return true;
}

// It keeps its tokens. What it had computed is computed again when it resumes.
void Engine::preempt(Request& request) {
  release(request);
  running_.pop_back();
  waiting_.push_front(&request);
  ++counts_.preemptions;
}

void Engine::release(Request& request) {
  for (const int page : request.pages) pages_.give_back(page);
  request.pages.clear();
  request.computed = 0;
}

void Engine::compute(const std::vector<Part>& parts) {
  Step step;
  step.columns = pages_of(kLongest);
  std::vector<Request*> sampled;
  int decodes = 0;
  for (const auto& [request, rows] : parts) {
    step.add(request->tokens, request->computed, rows, request->pages);
    request->lives.back().push_back({request, request->computed, rows});
    request->computed += rows;
    counts_.computed += rows;
    decodes += rows == 1 ? 1 : 0;
    if (request->computed < request->size()) continue;
    step.logits_of.push_back(step.rows() - 1);
    sampled.push_back(request);
  }
  if (parts.empty()) return;
  const bool decode = step.rows() == step.entries();
  if (decode && model_.machine().replays()) step.pad(kEntries);
  const auto logits = model_.compute(step, cache_, decode);
  for (std::size_t n = 0; n < sampled.size(); ++n) take_token(*sampled[n], logits[n]);
  ++counts_.steps;
  counts_.mixed += !decode && decodes > 0 ? 1 : 0;
  std::erase_if(running_, [](const Request* request) { return request->is_finished(); });
}

void Engine::take_token(Request& request, const std::vector<float>& logits) {
  request.lives.back().back().logits = logits;
  request.tokens.push_back(sample(request, request.size(), logits));
  ++counts_.generated;
  if (!request.is_finished()) return;
  release(request);
  ++finished_;
}

}  // namespace serving
