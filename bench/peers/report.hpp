// The comparison as a table of at most 100 columns and as JSON.
#pragma once

#include <string>
#include <vector>

#include "suite.hpp"

namespace tessera::peers {

struct Run {
  Host host;
  std::string date;    // UTC, ISO 8601
  std::string commit;  // of the tree this was built from; "-dirty" if it had local changes
  std::string command;
  std::uint64_t seed = 0;
  bool quick = false;
  std::vector<Rates> rates;
  std::vector<Block> blocks;  // shapes and causal
  std::vector<Block> sweep;
};

void print_host(const Run& run);
void print_rates(const Rates& rates);
void print_block(const Block& block);
void print_sweep(const std::vector<Block>& sweep, int threads);
void print_summary(const Run& run);

bool any_tessera_wrong(const Run& run);
int missed_goals(const Run& run);

// FILE, or FOLDER/ for FOLDER/<cpu>/peers.json. Returns the path written; throws std::runtime_error.
std::string write_json(const Run& run, const std::string& path);

}  // namespace tessera::peers
