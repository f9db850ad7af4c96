// Invariant 3: every accepted request ends, and what can never fit is refused at admission. Invariant 9's part of it:
// no block stays in use.
#include <gtest/gtest.h>

#include "tests/property/scheduler_world.h"

namespace ullage::sched {
namespace {

const bool kIsWhole = test::pin_rapidcheck(4000, 150);

TEST(ProgressProperty, WhatIsAcceptedEnds) {
  EXPECT_TRUE(rc::check("whatever is accepted ends, and only what can never fit is refused", [] {
    test::SchedulerWorld world(test::draw_scheduler_options(), {.progress = true});
    for (const uint64_t command : test::draw_commands()) world.run(command);
    world.drain();
  }));
  RecordProperty("steps", std::to_string(test::totals.num_steps));
  if (kIsWhole) test::expect_hard_work();
}

}  // namespace
}  // namespace ullage::sched
