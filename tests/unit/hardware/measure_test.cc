#include "ullage/hardware/measure.h"

#include <gtest/gtest.h>

#include <vector>

namespace ullage::hardware {
namespace {

bool never() { return false; }

TEST(MeasureRate, IsUnitsOverTime) {
  // given work that takes 10 ms a call
  VirtualClock clock;
  const auto rate =
      measure_rate(clock, {.num_rounds = 5, .min_round = 100'000'000}, 50, [&] { clock.advance(10'000'000); }, never);
  // then
  ASSERT_TRUE(rate);
  EXPECT_DOUBLE_EQ(rate->median, 5000);
  EXPECT_DOUBLE_EQ(rate->lowest, 5000);
  EXPECT_EQ(rate->num_rounds, 5);
}

TEST(MeasureRate, MedianIgnoresADisturbedRound) {
  // given rounds of one call of 1 s, of which one takes 10 s
  VirtualClock clock;
  int call = 0;
  const std::vector<Nanos> seconds{1, 1, 1, 10, 1, 2};  // the first fills the round
  const auto work = [&] { clock.advance(seconds[static_cast<size_t>(call++)] * kNanosPerSecond); };
  const auto rate = measure_rate(clock, {.num_rounds = 5, .min_round = kNanosPerSecond}, 100, work, never);
  ASSERT_TRUE(rate);
  EXPECT_DOUBLE_EQ(rate->median, 100);
  EXPECT_DOUBLE_EQ(rate->lowest, 10);
  EXPECT_DOUBLE_EQ(rate->highest, 100);
}

TEST(MeasureRate, EndsWhenStoppedOrTheClockStands) {
  VirtualClock clock;
  int calls = 0;
  const auto stopped = measure_rate(clock, {}, 1, [&] { clock.advance(1'000'000); }, [&] { return ++calls > 3; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(measure_rate(clock, {}, 1, [] {}, never).error().code, ErrorCode::kInternal);
  EXPECT_EQ(measure_rate(clock, {.num_rounds = 0}, 1, [] {}, never).error().where, "num_rounds");
}

}  // namespace
}  // namespace ullage::hardware
