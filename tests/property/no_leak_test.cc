// Invariant 9: after cancel, disconnect or shutdown no block stays in use, and every accepted request has got exactly
// one end.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "tests/property/replay_harness.h"
#include "ullage/engine/engine_thread.h"

namespace ullage::testing {
namespace {

// Arrivals, refusals and ends of each request.
class EndsSink final : public engine::EventSink {
 public:
  void on_events(std::span<const sched::Event> events) override {
    const std::lock_guard lock(mutex_);
    for (const sched::Event& event : events) {
      Counts& counts = counts_[event.request];
      if (std::holds_alternative<sched::ArrivedEvent>(event.body)) ++counts.arrived;
      if (std::holds_alternative<sched::RejectedEvent>(event.body)) ++counts.rejected;
      if (std::holds_alternative<sched::FinishedEvent>(event.body)) ++counts.ended;
      if (std::holds_alternative<sched::CancelledEvent>(event.body)) ++counts.ended;
      if (std::holds_alternative<sched::TokenEvent>(event.body) && counts.ended > 0) ++counts.after_end;
    }
  }
  struct Counts {
    int arrived = 0, rejected = 0, ended = 0, after_end = 0;
  };
  std::map<RequestId, Counts> counts() {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  std::mutex mutex_;
  std::map<RequestId, Counts> counts_;
};

void expect_one_end_each(EndsSink& sink, const std::vector<RequestId>& submitted) {
  const auto counts = sink.counts();
  for (const RequestId id : submitted) {
    const auto it = counts.find(id);
    ASSERT_NE(it, counts.end()) << "request " << id.value << " was never answered";
    const EndsSink::Counts& c = it->second;
    EXPECT_EQ(c.arrived + c.rejected, 1) << "request " << id.value;
    EXPECT_EQ(c.ended, c.arrived) << "request " << id.value;
    EXPECT_EQ(c.after_end, 0) << "request " << id.value << " got a token after its end";
  }
}

enum class End { kDrain, kCancelEach, kCancelAll, kFailure, kNumEnds };

// Fails in the step that it is told.
class FailingExecutor final : public engine::Executor {
 public:
  FailingExecutor(std::unique_ptr<engine::Executor> inner, int64_t failing_step)
      : inner_(std::move(inner)), failing_step_(failing_step) {}
  Result<sched::StepResult> execute(const sched::StepPlan& plan) override {
    if (plan.step_index >= failing_step_) return Error{ErrorCode::kInternal, "planned failure", "executor"};
    return inner_->execute(plan);
  }
  const std::string& device_kind() const override { return inner_->device_kind(); }

 private:
  std::unique_ptr<engine::Executor> inner_;
  int64_t failing_step_;
};

TEST(NoLeak, ThroughTheEngine) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomStream random(seed, 9);
    const SessionLimits limits;
    const engine::EngineOptions options = random_options(random, limits);
    const auto end = static_cast<End>(random.below(static_cast<uint64_t>(End::kNumEnds)));
    const auto num_steps = static_cast<int64_t>(random.below(60));
    VirtualClock clock;
    FailingExecutor executor(std::make_unique<ErraticExecutor>(seed, limits.vocab_size, clock),
                             end == End::kFailure ? num_steps : INT64_MAX);
    EndsSink sink;
    engine::Engine engine(options, executor, clock);
    engine.add_sink(sink);
    std::vector<RequestId> submitted;
    for (int64_t step = 0; step < num_steps; ++step) {
      for (uint64_t n = random.below(3); n > 0; --n) {
        submitted.emplace_back(static_cast<int64_t>(submitted.size()) + 1);
        (void)engine.add_request(random_request(random, submitted.back(), options, limits));
      }
      if (!submitted.empty() && random.below(3) == 0) engine.cancel(submitted[random.below(submitted.size())]);
      if (!submitted.empty() && random.below(6) == 0) {
        engine.finish(submitted[random.below(submitted.size())], sched::FinishReason::kStop);
      }
      ASSERT_TRUE(engine.step());
    }
    if (end == End::kCancelEach) {
      for (const RequestId id : submitted) engine.cancel(id);
    } else if (end == End::kCancelAll) {
      engine.cancel_all();
    }
    while (engine.has_work()) {
      if (!engine.step()) break;  // the planned failure
    }
    EXPECT_FALSE(engine.has_work());
    EXPECT_EQ(engine.num_running() + engine.num_waiting(), 0);
    EXPECT_EQ(engine.num_free_blocks(), engine.num_usable_blocks());
    EXPECT_TRUE(engine.reset_prefix_cache());
    expect_one_end_each(sink, submitted);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(NoLeak, ThroughTheThread) {
  constexpr int kClients = 3;
  constexpr int kRequests = 40;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomStream random(seed, 99);
    const SessionLimits limits;
    const engine::EngineOptions options = random_options(random, limits);
    const auto end = static_cast<End>(random.below(static_cast<uint64_t>(End::kNumEnds)));
    VirtualClock clock;  // the engine's thread alone uses it
    FailingExecutor executor(std::make_unique<ErraticExecutor>(seed, limits.vocab_size, clock),
                             end == End::kFailure ? 20 : INT64_MAX);
    EndsSink sink;
    engine::Engine engine(options, executor, clock);
    engine.add_sink(sink);
    std::vector<std::vector<RequestId>> accepted(kClients);
    {
      engine::EngineThread thread(engine, 16);
      std::vector<std::thread> clients;
      for (int client = 0; client < kClients; ++client) {
        clients.emplace_back([&, client] {
          RandomStream own(seed, 1000 + static_cast<uint64_t>(client));
          for (int i = 0; i < kRequests; ++i) {
            const RequestId id(1 + client * kRequests + i);
            if (thread.submit(random_request(own, id, options, limits))) {
              accepted[static_cast<size_t>(client)].push_back(id);
            }
            // Hangs up now and then: at once, or later, or on a request that has ended.
            if (own.below(3) == 0) thread.cancel(RequestId(id.value - static_cast<int64_t>(own.below(4))));
            if (own.below(6) == 0) thread.finish(id, sched::FinishReason::kStop);
          }
        });
      }
      // Half of the runs are stopped in mid-load.
      if (random.below(2) == 0) thread.stop();
      for (std::thread& client : clients) client.join();
      if (end == End::kDrain) {
        EXPECT_TRUE(thread.drain(60 * kNanosPerSecond));
      }
    }
    EXPECT_EQ(engine.num_running() + engine.num_waiting(), 0);
    EXPECT_EQ(engine.num_free_blocks(), engine.num_usable_blocks());
    for (const auto& ids : accepted) expect_one_end_each(sink, ids);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace ullage::testing
