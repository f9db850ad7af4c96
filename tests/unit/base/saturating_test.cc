#include "ullage/base/saturating.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace ullage {
namespace {

TEST(Saturating, StopsAtTheLargestNumber) {
  constexpr std::array<int64_t, 9> kNumbers = {
      0, 1, 2, 3'037'000'499, 3'037'000'500, 1LL << 32, kSaturated / 2, kSaturated - 1, kSaturated};
  for (const int64_t a : kNumbers) {
    for (const int64_t b : kNumbers) {
      const __int128 sum = static_cast<__int128>(a) + b;
      const __int128 product = static_cast<__int128>(a) * b;
      EXPECT_EQ(saturating_add(a, b), static_cast<int64_t>(std::min<__int128>(sum, kSaturated))) << a << ' ' << b;
      EXPECT_EQ(saturating_mul(a, b), static_cast<int64_t>(std::min<__int128>(product, kSaturated))) << a << ' ' << b;
    }
  }
}

}  // namespace
}  // namespace ullage
