// Serves requests by a small transformer over a cache in pages, then computes every one of them alone and
// compares. README.md has the picture; engine.cpp is where it happens, model.cpp has the call of tessera.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "check.hpp"
#include "engine.hpp"
#include "machine.hpp"
#include "model.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "workload.hpp"

namespace {

void serve(serving::Engine& engine, int requests) {
  serving::Progress progress("served");
  const auto begin = std::chrono::steady_clock::now();
  const auto rate = [&] {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    return static_cast<int>(engine.counts().generated / std::max(passed.count(), 1e-9));
  };
  while (engine.step()) {
    progress.show(engine.finished(), requests,
                  ", " + std::to_string(engine.running()) + " running, " + std::to_string(engine.waiting()) +
                      " waiting, " + std::to_string(rate()) + " tokens/s");
  }
  progress.show(requests, requests, ", " + std::to_string(rate()) + " tokens/s");
  progress.end();
  std::printf("%d tokens generated, %d a second\n", engine.counts().generated, rate());
}

void report(const serving::Engine::Counts& c, int pages) {
  std::printf("%d steps, %d of them mixed: chunks of prompts beside decodes\n", c.steps, c.mixed);
  std::printf("%d rows computed, %d rows taken over from requests with the same prefix\n", c.computed,
              c.shared);
  std::printf("%d of %d pages in use at most, %d copied on write, %d preemptions\n", c.most_pages, pages,
              c.copies, c.preemptions);
}

bool check(serving::Model& model, const std::vector<serving::Request>& requests) {
  serving::Check check(model);
  {
    serving::Progress progress("checked");
    int done = 0;
    for (const serving::Request& request : requests) {
      std::string complaint = check.same_bits(request);
      if (complaint.empty()) complaint = check.same_tokens(request);
      if (!complaint.empty()) {
        progress.end();
        std::fprintf(stderr, "serving: %s\n", complaint.c_str());
        return false;
      }
      progress.show(++done, static_cast<int>(requests.size()));
    }
  }
  const serving::Check::Counts& c = check.counts();
  std::printf("alone, in the same chunks: the same bits, %d tokens' logits of %d requests in %d lives\n",
              c.tokens, static_cast<int>(requests.size()), c.lives);
  std::printf("alone, in one call: the same tokens, %d ties; logits differ by %.1e at most\n", c.ties,
              static_cast<double>(c.difference));
  return true;
}

int run(const serving::Options& options) {
  const std::unique_ptr<serving::Machine> machine =
      options.cuda ? serving::make_cuda_machine() : serving::make_cpu_machine(options.threads);
  serving::Model model(*machine, options.seed, serving::kLongest, serving::kEntries,
                       serving::pages_of(serving::kLongest));
  std::vector<serving::Request> requests = serving::make_requests(options.requests, options.seed);
  serving::Engine engine(model, options.pages, requests);
  std::printf("%d requests on %s\n", options.requests, machine->name());
  serve(engine, options.requests);
  report(engine.counts(), options.pages);
  return check(model, requests) ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  serving::Options options;
  std::string complaint;
  if (!serving::parse(count, words, &options, &complaint)) {
    std::fprintf(stderr, "serving: %s\n", complaint.c_str());
    return 2;
  }
  if (options.help) {
    std::fputs(serving::kHelp, stdout);
    return 0;
  }
  try {
    return run(options);
  } catch (const std::bad_alloc&) {
    std::fputs("serving: not enough memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "serving: %s\n", error.what());
  }
  return 1;
}
