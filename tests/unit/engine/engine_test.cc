#include "ullage/engine/engine.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/engine/test_parts.h"

namespace ullage::engine {
namespace {

TEST(Engine, RunsRequestsToTheirEnd) {
  FakeExecutor executor;
  VirtualClock clock;
  KeepingSink sink;
  Engine engine(small_options(), executor, clock);
  engine.add_sink(sink);
  ASSERT_TRUE(engine.add_request(request(1, 10, 3)));
  ASSERT_TRUE(engine.add_request(request(2, 5, 2, 50)));
  while (engine.has_work()) ASSERT_TRUE(*engine.step());
  EXPECT_FALSE(*engine.step());
  EXPECT_EQ(sink.tokens_of(RequestId(1)), (std::vector<TokenId>{100, 101, 102}));
  EXPECT_EQ(sink.tokens_of(RequestId(2)), (std::vector<TokenId>{100, 101}));
  EXPECT_EQ(executor.num_steps, 3);  // both prompts in the first step
  EXPECT_EQ(engine.num_free_blocks(), engine.num_usable_blocks());
  const auto& last = sink.events.back();
  ASSERT_TRUE(std::holds_alternative<sched::StepEvent>(last.body)) << "a step's event comes last";
  EXPECT_EQ(std::get<sched::StepEvent>(last.body).step_index, 2);
}

TEST(Engine, CancelFreesAtOnceAndOnce) {
  FakeExecutor executor;
  VirtualClock clock;
  KeepingSink sink;
  Engine engine(small_options(), executor, clock);
  engine.add_sink(sink);
  ASSERT_TRUE(engine.add_request(request(1, 10, 20)));
  ASSERT_TRUE(*engine.step());
  EXPECT_LT(engine.num_free_blocks(), engine.num_usable_blocks());
  EXPECT_TRUE(engine.cancel(RequestId(1)));
  EXPECT_EQ(engine.num_free_blocks(), engine.num_usable_blocks());
  EXPECT_FALSE(engine.cancel(RequestId(1)));
  EXPECT_FALSE(engine.finish(RequestId(1), sched::FinishReason::kStop));
  EXPECT_FALSE(engine.cancel(RequestId(77)));
  EXPECT_EQ(sink.by_request[1].cancelled, 1);
  EXPECT_EQ(sink.by_request[1].ends(), 1);
}

TEST(Engine, FinishIsTheCallersOwnEnd) {
  FakeExecutor executor;
  VirtualClock clock;
  KeepingSink sink;
  Engine engine(small_options(), executor, clock);
  engine.add_sink(sink);
  ASSERT_TRUE(engine.add_request(request(1, 10, 20)));
  ASSERT_TRUE(*engine.step());
  ASSERT_TRUE(engine.finish(RequestId(1), sched::FinishReason::kStop));
  EXPECT_EQ(sink.by_request[1].finished, 1);
  EXPECT_FALSE(engine.has_work());
}

TEST(Engine, RefusalIsBothReturnedAndTold) {
  FakeExecutor executor;
  VirtualClock clock;
  KeepingSink sink;
  Engine engine(small_options(), executor, clock);
  engine.add_sink(sink);
  const auto too_long = engine.add_request(request(1, 64, 1));
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(sink.by_request[1].rejected, 1);
  EXPECT_EQ(sink.by_request[1].arrived, 0);
}

TEST(Engine, ArrivalIsWhenTheClientWasHeard) {
  FakeExecutor executor;
  VirtualClock clock;
  KeepingSink sink;
  Engine engine(small_options(), executor, clock);
  engine.add_sink(sink);
  clock.advance(5000);
  auto params = request(1, 4, 1);
  params.arrival = 2000;
  ASSERT_TRUE(engine.add_request(params));
  ASSERT_TRUE(engine.add_request(request(2, 4, 1)));
  EXPECT_EQ(sink.events[0].time, 2000);
  EXPECT_EQ(sink.events[1].time, 5000);
}

TEST(Engine, FailedExecutorEndsEveryRequest) {
  FakeExecutor executor;
  executor.on_execute = [](const sched::StepPlan& plan) -> Result<void> {
    if (plan.step_index == 2) return Error{ErrorCode::kInternal, "the device has gone", "executor"};
    return {};
  };
  VirtualClock clock;
  KeepingSink sink;
  EngineOptions options = small_options();
  options.max_num_seqs = 2;  // the third waits
  Engine engine(options, executor, clock);
  engine.add_sink(sink);
  for (int64_t id = 1; id <= 3; ++id) ASSERT_TRUE(engine.add_request(request(id, 6, 20)));
  ASSERT_TRUE(engine.step());
  ASSERT_TRUE(engine.step());
  const auto failed = engine.step();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "the device has gone");
  for (int64_t id = 1; id <= 3; ++id) EXPECT_EQ(sink.by_request[id].ends(), 1) << id;
  EXPECT_EQ(engine.num_free_blocks(), engine.num_usable_blocks());
  EXPECT_FALSE(engine.has_work());
  EXPECT_FALSE(engine.step()) << "the error stays";
  const auto late = engine.add_request(request(4, 6, 20));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(sink.by_request[4].rejected, 1);
}

TEST(Engine, ResultThatDoesNotFitItsPlanFailsTheExecutor) {
  const std::vector<std::function<void(sched::StepResult&)>> faults = {
      [](sched::StepResult& r) { r.tokens.pop_back(); }, [](sched::StepResult& r) { r.tokens.push_back(r.tokens[0]); },
      [](sched::StepResult& r) { r.tokens[0].id = RequestId(9); }};
  for (const auto& fault : faults) {
    FakeExecutor executor;
    executor.change_result = fault;
    VirtualClock clock;
    Engine engine(small_options(), executor, clock);
    ASSERT_TRUE(engine.add_request(request(1, 6, 20)));
    const auto step = engine.step();
    ASSERT_FALSE(step);
    EXPECT_EQ(step.error().code, ErrorCode::kInternal);
    EXPECT_EQ(engine.num_free_blocks(), engine.num_usable_blocks());
  }
}

TEST(Engine, CancelAllLeavesWhatIsCached) {
  FakeExecutor executor;
  VirtualClock clock;
  KeepingSink sink;
  Engine engine(small_options(), executor, clock);
  engine.add_sink(sink);
  for (int64_t id = 1; id <= 3; ++id) ASSERT_TRUE(engine.add_request(request(id, 9, 20)));
  ASSERT_TRUE(engine.step());
  engine.cancel_all();
  for (int64_t id = 1; id <= 3; ++id) EXPECT_EQ(sink.by_request[id].cancelled, 1) << id;
  EXPECT_EQ(engine.num_free_blocks(), engine.num_usable_blocks());
  ASSERT_TRUE(engine.add_request(request(4, 9, 1)));
  ASSERT_TRUE(engine.step());
  int64_t cached = 0;
  for (const auto& event : sink.events) {
    const auto* admitted = std::get_if<sched::AdmittedEvent>(&event.body);
    if (admitted != nullptr && event.request == RequestId(4)) cached = admitted->num_cached_tokens;
  }
  EXPECT_EQ(cached, 8);
  EXPECT_TRUE(engine.reset_prefix_cache());
}

TEST(Engine, OptionsAreChecked) {
  EXPECT_TRUE(validate(small_options()));
  EngineOptions options = small_options();
  options.num_blocks = 0;
  EXPECT_FALSE(validate(options));
  options = small_options();
  options.block_size = -1;
  EXPECT_FALSE(validate(options));
}

}  // namespace
}  // namespace ullage::engine
