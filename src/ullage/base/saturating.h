// Products and sums that stop at the largest number rather than overflow: sizes come from files and flags.
#pragma once

#include <cstdint>
#include <limits>

namespace ullage {

inline constexpr int64_t kSaturated = std::numeric_limits<int64_t>::max();

// Of numbers that are not negative.
constexpr int64_t saturating_add(int64_t a, int64_t b) {
  int64_t out = 0;
  return __builtin_add_overflow(a, b, &out) ? kSaturated : out;
}
constexpr int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) ? kSaturated : out;
}

}  // namespace ullage
