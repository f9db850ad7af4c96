// Small values: errors, quotes, hashes, random numbers, clocks, the log hook.
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ullage/base/clock.h"
#include "ullage/base/hash.h"
#include "ullage/base/ids.h"
#include "ullage/base/log.h"
#include "ullage/base/quote.h"
#include "ullage/base/random.h"
#include "ullage/base/result.h"

namespace ullage {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error{ErrorCode::kInvalidArgument, "is odd", "n"};
  return n / 2;
}

Result<int> quarter(int n) {
  ULLAGE_TRY(const int once, half(n));
  ULLAGE_TRY(const int twice, half(once));
  return twice;
}

Result<void> must_be_even(int n) {
  ULLAGE_TRY_VOID(half(n));
  return {};
}

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(*quarter(12), 3);
  ASSERT_FALSE(quarter(6));
  EXPECT_EQ(quarter(6).error().to_string(), "n: is odd");
  EXPECT_TRUE(must_be_even(2));
  EXPECT_FALSE(must_be_even(3));
  EXPECT_EQ((Error{ErrorCode::kIo, "broke", ""}).to_string(), "broke");
}

TEST(Result, CodesHaveTheirNames) {
  EXPECT_STREQ(to_string(ErrorCode::kInvalidArgument), "invalid_argument");
  EXPECT_STREQ(to_string(ErrorCode::kTooLarge), "too_large");
  EXPECT_STREQ(to_string(ErrorCode::kInternal), "internal");
}

TEST(Quote, MakesForeignTextFitForAMessage) {
  EXPECT_EQ(quote("plain text"), "\"plain text\"");
  EXPECT_EQ(quote("a\"b\\c\n\x1b[31m\xff"), "\"a\\x22b\\x5cc\\x0a\\x1b[31m\\xff\"");
  EXPECT_EQ(quote(std::string(100, 'x'), 4), "\"xxxx...\"");
  EXPECT_EQ(quote(std::string(4, 'x'), 4), "\"xxxx\"");
  EXPECT_EQ(quote(""), "\"\"");
}

// Published vectors of XXH3-128 (xxHash's own sanity checks: empty input, seed 0).
TEST(Hash, IsXxh3) {
  EXPECT_EQ(to_hex(hash128({})), "99aa06d3014798d86001c324468d497f");
  const std::string text = "abc";
  EXPECT_EQ(to_hex(hash128(std::as_bytes(std::span(text)))), "06b05ab6733a618578af5f94892f3950");
  EXPECT_NE(hash128(std::as_bytes(std::span(text)), 1), hash128(std::as_bytes(std::span(text))));
}

TEST(Random, DependsOnSeedStreamAndIndexAlone) {
  RandomStream a(7, 3);
  RandomStream b(7, 3);
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t bits = a.bits();
    ASSERT_EQ(bits, b.bits());
    ASSERT_EQ(bits, random_bits(7, 3, i));
    seen.insert(bits);
    seen.insert(random_bits(7, 4, i));
    seen.insert(random_bits(8, 3, i));
  }
  EXPECT_EQ(seen.size(), 3000u);  // 64 bits: a collision among 3000 would be a fault of the mixing
}

TEST(Random, UniformFillsTheUnitIntervalEvenly) {
  std::vector<int> bins(16, 0);
  constexpr int kDraws = 160000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double u = random_uniform(1, 2, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<size_t>(u * 16)];
  }
  double chi_squared = 0;
  for (const int bin : bins) chi_squared += (bin - kDraws / 16.0) * (bin - kDraws / 16.0) / (kDraws / 16.0);
  EXPECT_LT(chi_squared, 50.0);  // 15 degrees of freedom: beyond 50 once in 90,000 seeds
}

TEST(Random, BelowStaysBelowAndReachesAll) {
  RandomStream stream(5);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t n = stream.below(6);
    ASSERT_LT(n, 6u);
    seen.insert(n);
  }
  EXPECT_EQ(seen.size(), 6u);
  EXPECT_EQ(stream.below(1), 0u);
  EXPECT_LT(stream.below(UINT64_MAX), UINT64_MAX);
  EXPECT_LT(stream.below(uint64_t{1} << 63), uint64_t{1} << 63);
}

TEST(Clocks, TheVirtualOneMovesOnlyWhenTold) {
  VirtualClock clock;
  EXPECT_EQ(clock.now(), 0);
  clock.advance(5);
  clock.sleep_until(3);  // past already
  EXPECT_EQ(clock.now(), 5);
  clock.sleep_until(9);
  EXPECT_EQ(clock.now(), 9);
  RealClock real;
  const Nanos before = real.now();
  real.sleep_until(before + 1'000'000);
  EXPECT_GE(real.now(), before + 1'000'000);
}

TEST(Log, GoesThroughTheHook) {
  std::vector<std::string> lines;
  set_log_hook([&](LogLevel level, std::string_view message) {
    lines.push_back(std::to_string(static_cast<int>(level)) + std::string(message));
  });
  log(LogLevel::kWarning, "odd");
  set_log_hook({});
  log(LogLevel::kError, "dropped");
  EXPECT_EQ(lines, std::vector<std::string>{"2odd"});
}

}  // namespace
}  // namespace ullage
