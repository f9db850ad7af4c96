// Invariant 2: a prefix hit is given only for equal tokens, equal parent chain, equal salt and adapter. A pretended
// executor remembers which tokens each slot holds; whatever a request reads must be its own past, also with keys that
// collide all the time, partial hits, preemptions and cancels.
#include <gtest/gtest.h>

#include "tests/property/scheduler_world.h"

namespace ullage::sched {
namespace {

const bool kIsWhole = test::pin_rapidcheck(4000, 150);

TEST(PrefixProperty, HitsAreGivenForEqualContentOnly) {
  EXPECT_TRUE(rc::check("what a request reads is its own past", [] {
    test::SchedulerWorld world(test::draw_scheduler_options(), {.contents = true});
    for (const uint64_t command : test::draw_commands()) world.run(command);
    world.drain();
  }));
  RecordProperty("steps", std::to_string(test::totals.num_steps));
  if (kIsWhole) test::expect_hard_work();
}

// Who is preempted after having been scheduled in the same step (the priority policy alone does that) has blocks that
// were to be filled in it. Nobody may find them. Small blocks and long prompts in chunks of several make that happen.
TEST(PrefixProperty, PreemptedChunksAreNotFound) {
  EXPECT_TRUE(rc::check("what a request reads is its own past, under the priority policy", [] {
    SchedulerOptions options;
    options.num_blocks = test::draw_between(16, 40);
    options.block_size = test::draw_between(1, 2);
    options.max_model_len = 48;
    options.max_num_seqs = test::draw_between(3, 6);
    options.max_num_batched_tokens = test::draw_between(12, 40);
    options.long_prefill_token_threshold = test::draw_between(3, 8);
    options.is_priority_policy = true;
    test::SchedulerWorld world(options, {.contents = true});
    for (const uint64_t command : test::draw_commands()) world.run(command);
    world.drain();
  }));
}

}  // namespace
}  // namespace ullage::sched
