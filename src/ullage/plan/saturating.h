// Products and sums of sizes that end at the largest number rather than overflow: sizes come from files and flags.
#pragma once

#include <cstdint>
#include <limits>

namespace ullage::plan {

// Of numbers that are not negative.
constexpr int64_t product(int64_t a, int64_t b) {
  int64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) ? std::numeric_limits<int64_t>::max() : out;
}
constexpr int64_t sum(int64_t a, int64_t b) {
  int64_t out = 0;
  return __builtin_add_overflow(a, b, &out) ? std::numeric_limits<int64_t>::max() : out;
}

}  // namespace ullage::plan
