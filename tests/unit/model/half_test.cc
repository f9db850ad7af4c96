#include "ullage/model/half.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace ullage::model {
namespace {

// The value of a binary16 pattern from its definition.
double f16_by_definition(uint16_t half) {
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (half >> 10) & 31;
  const double mantissa = half & 0x3ff;
  return exponent == 0 ? sign * std::ldexp(mantissa, -24) : sign * std::ldexp(1024.0 + mantissa, exponent - 25);
}

// Nearest of all finite patterns (and infinity from 65520 on), ties to the even one: by search.
uint16_t f16_by_search(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double x = std::fabs(static_cast<double>(value));
  if (x >= 65520.0) return static_cast<uint16_t>(sign | 0x7c00);
  uint16_t low = 0;
  uint16_t high = 0x7c00;  // patterns are ordered by value; 0x7c00 stands for 65536 here
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (f16_by_definition(middle) <= x ? low : high) = middle;
  }
  const double below = x - f16_by_definition(low);
  const double above = f16_by_definition(high) - x;
  const bool up = above < below || (above == below && (high & 1) == 0);
  return static_cast<uint16_t>(sign | (up ? high : low));
}

TEST(Half, EveryFinitePatternIsItsDefinitionAndComesBack) {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto half = static_cast<uint16_t>(pattern);
    if ((half & 0x7c00) == 0x7c00) continue;
    ASSERT_EQ(static_cast<double>(f16_to_f32(half)), f16_by_definition(half)) << pattern;
    ASSERT_EQ(f32_to_f16(f16_to_f32(half)), half) << pattern;
  }
}

TEST(Half, RoundsToNearestEvenEverywhere) {
  uint32_t bits = 12345;
  for (int i = 0; i < 200000; ++i) {
    bits = bits * 1664525u + 1013904223u;
    // Exponents from far below the subnormals to above the largest.
    const uint32_t exponent = 100 + (bits >> 8) % 45;
    const float value = std::bit_cast<float>((bits & 0x807fffffu) | (exponent << 23));
    ASSERT_EQ(f32_to_f16(value), f16_by_search(value)) << value;
  }
  // Exact ties between neighbours, and one step to either side of them.
  for (uint32_t pattern = 0; pattern < 0x7c00; ++pattern) {
    const double a = f16_by_definition(static_cast<uint16_t>(pattern));
    const double b = pattern + 1 == 0x7c00 ? 65536.0 : f16_by_definition(static_cast<uint16_t>(pattern + 1));
    const auto tie = static_cast<float>((a + b) / 2);
    for (const float value : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, 1e9f)}) {
      ASSERT_EQ(f32_to_f16(value), f16_by_search(value)) << value;
    }
  }
}

TEST(Half, InfinityAndNaNSurviveBothWays) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(f16_to_f32(0x7c00), infinity);
  EXPECT_EQ(f16_to_f32(0xfc00), -infinity);
  EXPECT_TRUE(std::isnan(f16_to_f32(0x7e00)));
  EXPECT_EQ(f32_to_f16(-infinity), 0xfc00);
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(f32_to_bf16(infinity), 0x7f80);
}

TEST(Bf16, RoundsToNearestEven) {
  for (uint32_t pattern = 0; pattern < 0x7f80; pattern += 7) {
    const auto half = static_cast<uint16_t>(pattern);
    const uint32_t bits = pattern << 16;
    ASSERT_EQ(f32_to_bf16(bf16_to_f32(half)), half);
    const auto even = static_cast<uint16_t>(pattern + (pattern & 1));
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(bits | 0x8000u)), even);
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(bits | 0x7fffu)), half);
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(bits | 0x8001u)), half + 1);
  }
}

}  // namespace
}  // namespace ullage::model
