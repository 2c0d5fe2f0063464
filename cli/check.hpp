// How much of a case is verified: cases cut down so that thousands of checks stay affordable, and in words
// what a verdict rests on.
#pragma once

#include <string>

#include "cases/gates.hpp"

namespace tessera::cli {

// 2 * batch * heads * queries * keys * (dim + value_dim), visible or not: what the oracle looks at.
double oracle_flops(const cases::Case& c);

// The same case with batch, heads and lengths cut down until oracle_flops() <= most_flops.
cases::Case reduced(const cases::Case& c, double most_flops);

// "every row", or "640 of 131,072 rows": the gates draw rows where the oracle would take minutes.
std::string rows_judged(const cases::Verdict& verdict);

}  // namespace tessera::cli
