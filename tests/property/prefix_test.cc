// Invariant 2: a prefix hit is given only for equal tokens, equal parent chain, equal salt and adapter. A pretended
// executor remembers which tokens each slot holds; whatever a request reads must be its own past, also with keys that
// collide all the time, partial hits, preemptions and cancels.
#include <gtest/gtest.h>

#include "tests/property/scheduler_world.h"

namespace ullage::sched {
namespace {

const bool kIsPinned = test::pin_rapidcheck(4000, 150);

TEST(PrefixProperty, HitsAreGivenForEqualContentOnly) {
  EXPECT_TRUE(kIsPinned);
  EXPECT_TRUE(rc::check("what a request reads is its own past", [] {
    test::SchedulerWorld world(test::draw_scheduler_options(), {.contents = true});
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
