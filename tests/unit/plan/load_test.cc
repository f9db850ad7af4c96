#include "ullage/plan/load.h"

#include <gtest/gtest.h>

namespace ullage::plan {
namespace {

// Little's law, with the lessons' numbers.
TEST(LoadOf, SlotsNeededAndIdle) {
  const Load fits = load_of(2, 20, 57);
  EXPECT_EQ(fits.needed_slots, 40);
  EXPECT_TRUE(fits.fits);
  EXPECT_EQ(fits.idle_slots, 17);
  EXPECT_DOUBLE_EQ(fits.max_qps, 2.85);

  const Load over = load_of(3, 20, 57);
  EXPECT_FALSE(over.fits);
  EXPECT_EQ(over.idle_slots, 0);
  EXPECT_GT(over.load, 1);
}

TEST(LoadOf, NothingRuns) {
  const Load none = load_of(1, 10, 0);
  EXPECT_FALSE(none.fits);
  EXPECT_EQ(none.max_qps, 0);
}

TEST(MoneyOf, SharesTheDevicesTime) {
  const Money money = money_of(3.6, 1000, 500, 0.25, 10);
  EXPECT_DOUBLE_EQ(money.per_million_input, 0.25);
  EXPECT_DOUBLE_EQ(money.per_million_output, 1.5);
  EXPECT_DOUBLE_EQ(money.output_over_input, 6);
  EXPECT_DOUBLE_EQ(money.per_user_hour, 0.36);
}

TEST(CeilingAt, IsWholeRequests) {
  EXPECT_EQ(ceiling_at(1048576, 3276.8), 320);
  EXPECT_EQ(ceiling_at(0, 10), 0);
  EXPECT_EQ(ceiling_at(10, 0), 0);
}

TEST(ComputationsWithoutCache, IsTheSumOfAllLengths) {
  EXPECT_EQ(computations_without_cache(1000), 500500);
  int64_t sum = 0;
  for (int64_t n = 1; n <= 777; ++n) sum += n;
  EXPECT_EQ(computations_without_cache(777), sum);
}

}  // namespace
}  // namespace ullage::plan
