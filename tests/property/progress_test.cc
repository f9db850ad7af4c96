// Invariant 3: every accepted request ends, and what can never fit is refused at admission. Invariant 9's part of it:
// no block stays in use.
#include <gtest/gtest.h>

#include "tests/property/scheduler_world.h"

namespace ullage::sched {
namespace {

const bool kIsPinned = test::pin_rapidcheck(4000, 150);

TEST(ProgressProperty, WhatIsAcceptedEnds) {
  EXPECT_TRUE(kIsPinned);
  EXPECT_TRUE(rc::check("whatever is accepted ends, and only what can never fit is refused", [] {
    test::SchedulerWorld world(test::draw_scheduler_options(), {.progress = true});
    for (const uint64_t command : test::draw_commands()) world.run(command);
    world.drain();
  }));
  const auto& totals = test::totals;
  RecordProperty("steps", std::to_string(totals.num_steps));
  EXPECT_GT(totals.num_steps, 10000);
  EXPECT_GT(totals.num_preempted, 500);
  EXPECT_GT(totals.num_hit_tokens, 1000);
  EXPECT_GT(totals.num_copies, 500);
  EXPECT_GT(totals.num_refused, 500);
}

}  // namespace
}  // namespace ullage::sched
