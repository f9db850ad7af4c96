// Invariant 4: a step never exceeds its token budget, max_num_seqs, or the pool.
#include <gtest/gtest.h>

#include "tests/property/scheduler_world.h"

namespace ullage::sched {
namespace {

const bool kIsWhole = test::pin_rapidcheck(4000, 150);

TEST(BudgetProperty, NoStepExceedsItsLimits) {
  EXPECT_TRUE(rc::check("a step keeps within budget, seats and pool", [] {
    test::SchedulerWorld world(test::draw_scheduler_options(), {.limits = true});
    for (const uint64_t command : test::draw_commands()) world.run(command);
    world.drain();
  }));
  RecordProperty("steps", std::to_string(test::totals.num_steps));
  if (kIsWhole) test::expect_hard_work();
}

}  // namespace
}  // namespace ullage::sched
