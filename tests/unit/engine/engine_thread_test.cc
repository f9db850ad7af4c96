#include "ullage/engine/engine_thread.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/unit/engine/test_parts.h"

namespace ullage::engine {
namespace {

constexpr Nanos kLong = 30 * kNanosPerSecond;

// A sink that another thread can wait on.
class WaitingSink final : public EventSink {
 public:
  void on_events(std::span<const sched::Event> events) override {
    {
      const std::lock_guard lock(mutex_);
      kept_.on_events(events);
    }
    changed_.notify_all();
  }
  template <class Predicate>
  bool wait_for(Predicate predicate) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return predicate(kept_); });
  }
  KeepingSink kept() {
    const std::lock_guard lock(mutex_);
    return kept_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  KeepingSink kept_;
};

// Holds the executor in a step until it is opened.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    has_visitor_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return is_open_; });
  }
  void wait_for_visitor() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return has_visitor_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  bool has_visitor_ = false;
};

struct Parts {
  explicit Parts(const EngineOptions& options = small_options()) : engine(options, executor, clock) {
    engine.add_sink(sink);
  }
  FakeExecutor executor;
  RealClock clock;
  WaitingSink sink;
  Engine engine;
};

TEST(EngineThread, ServesAndDrains) {
  Parts parts;
  EngineThread thread(parts.engine);
  for (int64_t id = 1; id <= 20; ++id) ASSERT_TRUE(thread.submit(request(id, 5, 4)));
  EXPECT_TRUE(thread.drain(kLong));
  const auto kept = parts.sink.kept();
  for (int64_t id = 1; id <= 20; ++id) {
    EXPECT_EQ(kept.by_request.at(id).finished, 1) << id;
    EXPECT_EQ(kept.by_request.at(id).tokens, 4) << id;
  }
  const auto late = thread.submit(request(21, 5, 4));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kUnavailable);
  thread.stop();
  thread.stop();
  EXPECT_EQ(parts.engine.num_free_blocks(), parts.engine.num_usable_blocks());
}

TEST(EngineThread, DrainOfAnIdleEngineIsImmediate) {
  Parts parts;
  EngineThread thread(parts.engine);
  EXPECT_TRUE(thread.drain(kLong));
}

TEST(EngineThread, DrainTellsATimeout) {
  Parts parts;
  Gate gate;
  parts.executor.on_execute = [&](const sched::StepPlan&) -> Result<void> {
    gate.pass();
    return {};
  };
  EngineThread thread(parts.engine);
  ASSERT_TRUE(thread.submit(request(1, 5, 4)));
  gate.wait_for_visitor();
  EXPECT_FALSE(thread.drain(1'000'000));
  gate.open();
  EXPECT_TRUE(thread.drain(kLong));
}

TEST(EngineThread, CancelOfAQueuedRequestIsNotLost) {
  Parts parts;
  Gate gate;
  parts.executor.on_execute = [&](const sched::StepPlan&) -> Result<void> {
    gate.pass();
    return {};
  };
  EngineThread thread(parts.engine);
  ASSERT_TRUE(thread.submit(request(1, 5, 1)));
  gate.wait_for_visitor();
  // The engine is in a step: the request and its cancel both wait in the queue.
  ASSERT_TRUE(thread.submit(request(2, 5, 4)));
  thread.cancel(RequestId(2));
  gate.open();
  ASSERT_TRUE(thread.drain(kLong));
  const auto kept = parts.sink.kept();
  EXPECT_EQ(kept.by_request.at(2).arrived, 1);
  EXPECT_EQ(kept.by_request.at(2).cancelled, 1);
  EXPECT_EQ(kept.by_request.at(2).tokens, 0);
}

TEST(EngineThread, FullQueueRefusesRequestsButNotCancels) {
  Parts parts;
  Gate gate;
  parts.executor.on_execute = [&](const sched::StepPlan&) -> Result<void> {
    gate.pass();
    return {};
  };
  EngineThread thread(parts.engine, 2);
  ASSERT_TRUE(thread.submit(request(1, 5, 8)));
  gate.wait_for_visitor();
  ASSERT_TRUE(thread.submit(request(2, 5, 8)));
  ASSERT_TRUE(thread.submit(request(3, 5, 8)));
  const auto full = thread.submit(request(4, 5, 8));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::kUnavailable);
  for (int64_t id = 1; id <= 4; ++id) thread.cancel(RequestId(id));
  gate.open();
  ASSERT_TRUE(thread.drain(kLong));
  const auto kept = parts.sink.kept();
  for (int64_t id = 1; id <= 3; ++id) EXPECT_EQ(kept.by_request.at(id).cancelled, 1) << id;
  EXPECT_FALSE(kept.by_request.contains(4));
}

TEST(EngineThread, SinkMayFinishARequest) {
  // A stop string: the sink sees a token and ends the request before another is computed.
  Parts parts;
  struct StopSink final : EventSink {
    void on_events(std::span<const sched::Event> events) override {
      for (const sched::Event& event : events) {
        const auto* token = std::get_if<sched::TokenEvent>(&event.body);
        if (token != nullptr && token->output_index == 2) thread->finish(event.request, sched::FinishReason::kStop);
      }
    }
    EngineThread* thread = nullptr;
  } stop_sink;
  parts.engine.add_sink(stop_sink);
  EngineThread thread(parts.engine);
  stop_sink.thread = &thread;
  ASSERT_TRUE(thread.submit(request(1, 5, 40)));
  ASSERT_TRUE(thread.drain(kLong));
  EXPECT_EQ(parts.sink.kept().by_request.at(1).tokens, 3);
  EXPECT_EQ(parts.sink.kept().by_request.at(1).finished, 1);
}

TEST(EngineThread, StopEndsWhatIsLiveAndQueued) {
  Parts parts;
  Gate gate;
  parts.executor.on_execute = [&](const sched::StepPlan&) -> Result<void> {
    gate.pass();
    return {};
  };
  EngineThread thread(parts.engine);
  ASSERT_TRUE(thread.submit(request(1, 5, 40)));
  gate.wait_for_visitor();
  ASSERT_TRUE(thread.submit(request(2, 5, 40)));
  std::thread stopper([&] { thread.stop(); });
  gate.open();
  thread.stop();
  stopper.join();
  const auto kept = parts.sink.kept();
  EXPECT_EQ(kept.by_request.at(1).ends(), 1);
  EXPECT_EQ(kept.by_request.at(2).ends(), 1);
  EXPECT_EQ(parts.engine.num_free_blocks(), parts.engine.num_usable_blocks());
  thread.cancel(RequestId(1));
  EXPECT_FALSE(thread.submit(request(3, 5, 4)));
  EXPECT_FALSE(thread.post([](Engine&) {}));
}

TEST(EngineThread, PostRunsBetweenSteps) {
  Parts parts;
  EngineThread thread(parts.engine);
  std::promise<int64_t> answer;
  ASSERT_TRUE(thread.post([&](Engine& engine) { answer.set_value(engine.num_usable_blocks()); }));
  EXPECT_EQ(answer.get_future().get(), 32);
}

TEST(EngineThread, TellsOfAFailedExecutor) {
  Parts parts;
  parts.executor.on_execute = [](const sched::StepPlan& plan) -> Result<void> {
    if (plan.step_index == 1) return Error{ErrorCode::kInternal, "the device has gone", "executor"};
    return {};
  };
  EngineThread thread(parts.engine);
  EXPECT_FALSE(thread.has_failed());
  ASSERT_TRUE(thread.submit(request(1, 5, 40)));
  ASSERT_TRUE(parts.sink.wait_for(
      [](const KeepingSink& kept) { return kept.by_request.contains(1) && kept.by_request.at(1).ends() == 1; }));
  EXPECT_TRUE(thread.drain(kLong));
  EXPECT_TRUE(thread.has_failed());
  EXPECT_NE(thread.failure().find("the device has gone"), std::string::npos);
  EXPECT_FALSE(thread.submit(request(2, 5, 4)));
}

TEST(EngineThread, HeartbeatShowsAStuckExecutor) {
  Parts parts;
  Gate gate;
  parts.executor.on_execute = [&](const sched::StepPlan&) -> Result<void> {
    gate.pass();
    return {};
  };
  EngineThread thread(parts.engine);
  ASSERT_TRUE(thread.submit(request(1, 5, 1)));
  gate.wait_for_visitor();
  const Nanos first = thread.since_heartbeat();
  Nanos second = first;
  while (second <= first) second = thread.since_heartbeat();  // ends only if it grows
  EXPECT_GT(second, 0);
  gate.open();
  ASSERT_TRUE(thread.drain(kLong));
}

TEST(EngineThread, ManyThreadsAtOnce) {
  Parts parts;
  constexpr int kThreads = 4;
  constexpr int64_t kRequests = 50;
  {
    EngineThread thread(parts.engine);
    std::latch start(kThreads);
    std::vector<std::thread> clients;
    for (int t = 0; t < kThreads; ++t) {
      clients.emplace_back([&, t] {
        start.arrive_and_wait();
        for (int64_t i = 0; i < kRequests; ++i) {
          const int64_t id = 1 + t * kRequests + i;
          ASSERT_TRUE(thread.submit(request(id, 3 + i % 9, 1 + i % 5)));
          if (i % 3 == 0) thread.cancel(RequestId(id));
          if (i % 7 == 0) thread.post([](Engine& engine) { (void)engine.num_running(); });
          (void)thread.since_heartbeat();
        }
      });
    }
    for (std::thread& client : clients) client.join();
    EXPECT_TRUE(thread.drain(kLong));
  }
  const auto kept = parts.sink.kept();
  for (int64_t id = 1; id <= kThreads * kRequests; ++id) EXPECT_EQ(kept.by_request.at(id).ends(), 1) << id;
  EXPECT_EQ(parts.engine.num_free_blocks(), parts.engine.num_usable_blocks());
}

}  // namespace
}  // namespace ullage::engine
