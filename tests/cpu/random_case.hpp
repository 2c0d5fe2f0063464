// Random small cases over everything the interface offers, and the smallest case that still fails.
#pragma once

#include <functional>

#include "cases/case.hpp"
#include "cases/random.hpp"

namespace tessera::testing_cpu {

// Case `number` of the sequence that `random` stands for.
cases::Case random_case(const cases::Random& random, std::uint64_t number);

// Takes options away and halves sizes as long as `fails` says yes.
cases::Case smallest_failing(cases::Case c, const std::function<bool(const cases::Case&)>& fails);

}  // namespace tessera::testing_cpu
