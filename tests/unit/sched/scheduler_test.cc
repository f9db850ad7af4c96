// The scheduler's rules one at a time; facts of vLLM's own tests (v1/core/test_scheduler.py) are named after them.
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/sched/requests.h"
#include "ullage/sched/scheduler.h"

namespace ullage::sched {
namespace {

using test::make_request;
using test::token_range;

SchedulerOptions small_options() {
  SchedulerOptions options;
  options.num_blocks = 11;
  options.block_size = 4;
  options.max_model_len = 40;
  return options;
}

struct Driver {
  explicit Driver(const SchedulerOptions& options) : scheduler(options) {}
  Result<void> add(RequestParams params) { return scheduler.add(std::move(params), 0, events); }
  // Plans and commits a step; tokens scheduled by request.
  std::map<int64_t, int64_t> step(TokenId token = 7) {
    events.clear();
    const StepPlan& plan = scheduler.plan(0, events);
    std::map<int64_t, int64_t> scheduled;
    for (const ScheduledRequest& r : plan.requests) scheduled[r.id.value] = r.num_tokens;
    preempted = plan.preempted;
    scheduler.commit(test::make_result(plan, token), 0, events);
    scheduler.check_invariants();
    return scheduled;
  }
  const FinishedEvent* finished() const {
    for (const Event& e : events)
      if (const auto* f = std::get_if<FinishedEvent>(&e.body)) return f;
    return nullptr;
  }
  Scheduler scheduler;
  std::vector<Event> events;
  std::vector<RequestId> preempted;
};

using Scheduled = std::map<int64_t, int64_t>;

TEST(Scheduler, ConcurrentPartialRequests) {  // 35
  SchedulerOptions options;
  options.num_blocks = 1000;
  options.block_size = 16;
  options.max_model_len = 2000;
  options.max_num_batched_tokens = 1024;
  options.long_prefill_token_threshold = 400;
  options.enable_prefix_caching = false;
  Driver d(options);
  for (int64_t id = 1; id <= 3; ++id) ASSERT_TRUE(d.add(make_request(id, token_range(800), 10)).has_value());
  EXPECT_EQ(d.step(), (Scheduled{{1, 400}, {2, 400}, {3, 224}}));
  EXPECT_EQ(d.step(), (Scheduled{{1, 400}, {2, 400}, {3, 224}}));
  EXPECT_EQ(d.step(), (Scheduled{{1, 1}, {2, 1}, {3, 352}}));
}

TEST(Scheduler, PriorityThenArrivalThenId) {  // 36
  SchedulerOptions options = small_options();
  options.is_priority_policy = true;
  options.max_num_seqs = 1;
  Driver d(options);
  ASSERT_TRUE(d.add(make_request(1, token_range(4), 1, 1, 30)).has_value());
  ASSERT_TRUE(d.add(make_request(2, token_range(4), 1, 1, 10)).has_value());
  ASSERT_TRUE(d.add(make_request(3, token_range(4), 1, 0, 40)).has_value());
  ASSERT_TRUE(d.add(make_request(4, token_range(4), 1, 1, 10)).has_value());
  for (const int64_t id : {3, 2, 4, 1}) EXPECT_EQ(d.step().begin()->first, id);
  EXPECT_FALSE(d.scheduler.has_work());
}

TEST(Scheduler, LowPriorityIsPreemptedAndFindsItsBlocksAgain) {  // 36
  SchedulerOptions options;
  options.num_blocks = 6;
  options.block_size = 16;
  options.max_model_len = 80;
  options.is_priority_policy = true;
  Driver d(options);
  ASSERT_TRUE(d.add(make_request(1, token_range(32), 16, 1)).has_value());      // low priority: 2 blocks
  ASSERT_TRUE(d.add(make_request(2, token_range(48, 100), 4, 0)).has_value());  // 3 blocks
  EXPECT_EQ(d.step(), (Scheduled{{1, 32}, {2, 48}}));
  // Both need one more and none is free: the one of lower importance goes.
  EXPECT_EQ(d.step(), (Scheduled{{2, 1}}));
  EXPECT_EQ(d.preempted, std::vector{RequestId(1)});
  d.step();
  d.step();
  EXPECT_EQ(d.scheduler.num_running(), 0);
  const Scheduled resumed = d.step();
  EXPECT_EQ(resumed.at(1), 33 - 16) << "of its two blocks the tail was evicted, the first is a hit";
}

TEST(Scheduler, YoungestIsPreemptedAndComesBackFirst) {
  Driver d(small_options());
  ASSERT_TRUE(d.add(make_request(1, token_range(20), 10)).has_value());
  ASSERT_TRUE(d.add(make_request(2, token_range(20, 100), 10)).has_value());
  EXPECT_EQ(d.step(), (Scheduled{{1, 20}, {2, 20}}));  // all ten blocks
  ASSERT_TRUE(d.add(make_request(3, token_range(2, 200), 1)).has_value());
  EXPECT_EQ(d.step(), (Scheduled{{1, 1}}));  // nobody is admitted in a step that preempts
  EXPECT_EQ(d.preempted, std::vector{RequestId(2)});
  std::vector<RequestId> waiting;
  d.scheduler.waiting_ids(waiting);
  EXPECT_EQ(waiting, (std::vector{RequestId(2), RequestId(3)}));
}

TEST(Scheduler, SecondRequestOfAStepHitsTheFirst) {
  SchedulerOptions options = small_options();
  options.num_blocks = 100;
  Driver d(options);
  for (int64_t id = 1; id <= 3; ++id) ASSERT_TRUE(d.add(make_request(id, token_range(17), 4)).has_value());
  EXPECT_EQ(d.step(), (Scheduled{{1, 17}, {2, 1}, {3, 1}}));
}

TEST(Scheduler, RefusesWhatCanNeverFitWithTheNumbers) {
  Driver d(small_options());  // 10 usable blocks of 4, max_model_len 40
  EXPECT_EQ(d.add(make_request(1, {}, 1)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(d.add(make_request(1, {1}, 0)).error().code, ErrorCode::kInvalidArgument);
  auto bad_min = make_request(1, {1}, 2);
  bad_min.stop.min_tokens = 3;
  EXPECT_EQ(d.add(bad_min).error().code, ErrorCode::kInvalidArgument);
  const auto long_prompt = d.add(make_request(1, token_range(40), 1));
  EXPECT_EQ(long_prompt.error().code, ErrorCode::kTooLarge);
  EXPECT_NE(long_prompt.error().message.find("40 tokens"), std::string::npos);
  EXPECT_TRUE(std::holds_alternative<RejectedEvent>(d.events.back().body));
  EXPECT_TRUE(d.add(make_request(1, token_range(39), INT64_MAX)).has_value());
  EXPECT_EQ(d.add(make_request(1, {1}, 1)).error().code, ErrorCode::kInvalidArgument) << "the id is live";

  SchedulerOptions options = small_options();
  options.max_model_len = 1000;
  Driver tight(options);
  EXPECT_TRUE(tight.add(make_request(1, token_range(20), 21)).has_value());  // 40 cached tokens: 10 blocks
  const auto refused = tight.add(make_request(2, token_range(20), 22));
  EXPECT_EQ(refused.error().code, ErrorCode::kTooLarge);
  EXPECT_NE(refused.error().message.find("needs 11 KV-cache blocks of 4 tokens, and the pool has 10"),
            std::string::npos)
      << refused.error().message;
}

TEST(Scheduler, QueueIsBounded) {
  SchedulerOptions options = small_options();
  options.max_queue_len = 2;
  Driver d(options);
  EXPECT_TRUE(d.add(make_request(1, {1}, 1)).has_value());
  EXPECT_TRUE(d.add(make_request(2, {1}, 1)).has_value());
  EXPECT_EQ(d.add(make_request(3, {1}, 1)).error().code, ErrorCode::kUnavailable);
}

TEST(Scheduler, WithoutChunkingAPromptWaitsForAWholeStep) {
  SchedulerOptions options = small_options();
  options.enable_chunked_prefill = false;
  options.max_num_batched_tokens = 16;
  Driver d(options);
  EXPECT_EQ(d.add(make_request(1, token_range(17), 1)).error().code, ErrorCode::kTooLarge);
  ASSERT_TRUE(d.add(make_request(2, token_range(10), 2)).has_value());
  ASSERT_TRUE(d.add(make_request(3, token_range(10, 100), 1)).has_value());
  EXPECT_EQ(d.step(), (Scheduled{{2, 10}}));
  EXPECT_EQ(d.step(), (Scheduled{{2, 1}, {3, 10}}));
}

TEST(Scheduler, StopRules) {
  const auto outcome = [](auto change, std::vector<TokenId> sampled) {
    Driver d(small_options());
    RequestParams params = make_request(1, token_range(4), 5);
    params.stop.eos_token_ids = {2};
    params.stop.stop_token_ids = {3};
    change(params);
    EXPECT_TRUE(d.add(std::move(params)).has_value());
    for (const TokenId token : sampled) {
      EXPECT_EQ(d.finished(), nullptr);
      d.step(token);
    }
    return d.finished() ? *d.finished() : FinishedEvent{FinishReason::kCancelled, -9, 0, 0, 0};
  };
  const auto same = [](RequestParams&) {};
  EXPECT_EQ(outcome(same, {9, 2}).stop_token, 2);
  EXPECT_EQ(outcome(same, {9, 3}).reason, FinishReason::kStop);
  EXPECT_EQ(outcome(same, {9, 9, 9, 9, 9}).reason, FinishReason::kLength);
  EXPECT_EQ(outcome(same, {9, 9, 9, 9, 2}).stop_token, 2) << "a stop token at the limit is a stop";
  EXPECT_EQ(outcome([](RequestParams& p) { p.stop.ignore_eos = true; }, {2, 3}).stop_token, 3);
  EXPECT_EQ(outcome([](RequestParams& p) { p.stop.min_tokens = 3; }, {2, 3, 2}).num_output_tokens, 3);
  EXPECT_EQ(outcome([](RequestParams& p) { p.prompt = token_range(38); }, {9, 9}).reason, FinishReason::kLength)
      << "max_model_len";
}

TEST(Scheduler, CancelAndFinishFreeAtOnce) {
  Driver d(small_options());
  ASSERT_TRUE(d.add(make_request(1, token_range(9), 5)).has_value());
  ASSERT_TRUE(d.add(make_request(2, token_range(9, 50), 5)).has_value());
  d.step();
  EXPECT_EQ(d.scheduler.num_free_blocks(), 4);
  EXPECT_TRUE(d.scheduler.cancel(RequestId(1), 0, d.events));
  EXPECT_EQ(std::get<CancelledEvent>(d.events.back().body).num_output_tokens, 1);
  EXPECT_TRUE(d.scheduler.finish(RequestId(2), FinishReason::kStop, 0, d.events));
  EXPECT_EQ(d.scheduler.num_free_blocks(), 10);
  EXPECT_FALSE(d.scheduler.cancel(RequestId(1), 0, d.events));
  EXPECT_FALSE(d.scheduler.has_work());
}

TEST(SchedulerDeathTest, CancelBetweenPlanAndCommitIsACallersBug) {
  Driver d(small_options());
  ASSERT_TRUE(d.add(make_request(1, token_range(9), 5)).has_value());
  d.scheduler.plan(0, d.events);
  EXPECT_DEATH(d.scheduler.cancel(RequestId(1), 0, d.events), "between commit and plan");
}

TEST(Scheduler, OptionsOutOfRangeAreNamed) {
  SchedulerOptions options = small_options();
  EXPECT_TRUE(validate(options).has_value());
  options.num_blocks = 1;
  EXPECT_EQ(validate(options).error().where, "num_blocks");
  options = small_options();
  options.enable_chunked_prefill = false;
  options.long_prefill_token_threshold = 8;
  EXPECT_EQ(validate(options).error().where, "long_prefill_token_threshold");
}

}  // namespace
}  // namespace ullage::sched
