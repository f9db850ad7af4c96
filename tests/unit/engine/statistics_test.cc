#include "ullage/engine/statistics.h"

#include <gtest/gtest.h>

#include <vector>

namespace ullage::engine {
namespace {

using sched::AdmittedEvent;
using sched::ArrivedEvent;
using sched::CancelledEvent;
using sched::Event;
using sched::FinishedEvent;
using sched::FinishReason;
using sched::PreemptedEvent;
using sched::RejectedEvent;
using sched::StepEvent;
using sched::TokenEvent;

constexpr Nanos kMs = 1'000'000;

void tell(Statistics& statistics, Nanos time, int64_t id, decltype(Event::body) body) {
  const std::vector<Event> events{Event{time, RequestId(id), std::move(body)}};
  statistics.on_events(events);
}

struct Listener final : StatisticsListener {
  void on_first_token(const RequestRecord& record) override { first.push_back(record); }
  void on_inter_token(const RequestRecord&, Nanos gap) override { gaps.push_back(gap); }
  void on_request_end(const RequestRecord& record) override { ended.push_back(record); }
  void on_step(const StepEvent&) override { ++num_steps; }
  std::vector<RequestRecord> first, ended;
  std::vector<Nanos> gaps;
  int num_steps = 0;
};

TEST(Statistics, RecordsTimesAsVllmDefinesThem) {
  Statistics statistics;
  Listener listener;
  statistics.add_listener(listener);
  tell(statistics, 100 * kMs, 1, ArrivedEvent{12});
  tell(statistics, 150 * kMs, 1, AdmittedEvent{4, false, 12});
  tell(statistics, 250 * kMs, 1, TokenEvent{});
  tell(statistics, 260 * kMs, 1, PreemptedEvent{13});
  tell(statistics, 300 * kMs, 1, AdmittedEvent{8, true, 13});  // moves neither scheduling time nor hit rate
  tell(statistics, 350 * kMs, 1, TokenEvent{});
  tell(statistics, 380 * kMs, 1, TokenEvent{});
  tell(statistics, 380 * kMs, 1, FinishedEvent{FinishReason::kLength, -1, 12, 3, 4});
  ASSERT_EQ(listener.ended.size(), 1u);
  const RequestRecord& record = listener.ended[0];
  EXPECT_DOUBLE_EQ(ttft_seconds(record), 0.150);
  EXPECT_DOUBLE_EQ(queue_seconds(record), 0.050);
  EXPECT_DOUBLE_EQ(prefill_seconds(record), 0.100);
  EXPECT_DOUBLE_EQ(decode_seconds(record), 0.130);
  EXPECT_DOUBLE_EQ(inference_seconds(record), 0.230);
  EXPECT_DOUBLE_EQ(e2e_seconds(record), 0.280);
  EXPECT_DOUBLE_EQ(time_per_output_token_seconds(record), 0.065);
  EXPECT_EQ(listener.gaps, (std::vector<Nanos>{100 * kMs, 30 * kMs}));
  EXPECT_EQ(record.num_preemptions, 1);
  EXPECT_EQ(record.num_cached_tokens, 4);
  EXPECT_EQ(record.reason, FinishReason::kLength);
  EXPECT_EQ(statistics.totals().prompt_tokens, 12);
  EXPECT_EQ(statistics.totals().prompt_tokens_cached, 4);
  EXPECT_EQ(statistics.totals().generation_tokens, 3);
  EXPECT_EQ(statistics.totals().prefix_cache_queries, 12);
  EXPECT_EQ(statistics.totals().prefix_cache_hits, 4);
  EXPECT_EQ(statistics.totals().finished_length, 1);
}

TEST(Statistics, CancelledBeforeItRanHasNoTimes) {
  Statistics statistics;
  Listener listener;
  statistics.add_listener(listener);
  tell(statistics, 5, 1, ArrivedEvent{12});
  EXPECT_EQ(statistics.num_waiting(), 1);
  tell(statistics, 9, 1, CancelledEvent{0});
  EXPECT_EQ(statistics.num_waiting(), 0);
  EXPECT_EQ(ttft_seconds(listener.ended[0]), 0);
  EXPECT_EQ(queue_seconds(listener.ended[0]), 0);
  EXPECT_EQ(statistics.totals().cancelled, 1);
  tell(statistics, 9, 2, RejectedEvent{});
  EXPECT_EQ(statistics.totals().rejected, 1);
  EXPECT_EQ(statistics.num_waiting(), 0);
}

TEST(Statistics, IntervalIsSinceTheLastOne) {
  Statistics statistics(0);
  tell(statistics, 0, 1, ArrivedEvent{100});
  tell(statistics, 0, 2, ArrivedEvent{50});
  tell(statistics, 1, 1, AdmittedEvent{20, false, 100});
  for (int i = 0; i < 5; ++i) tell(statistics, 2, 1, TokenEvent{});
  StepEvent step;
  step.num_blocks_used = 8;
  step.num_blocks_total = 32;
  tell(statistics, 3, 0, step);
  IntervalStatistics interval = statistics.take_interval(2 * kNanosPerSecond);
  EXPECT_DOUBLE_EQ(interval.prompt_throughput, 40.0);  // 80 computed in 2 s
  EXPECT_DOUBLE_EQ(interval.generation_throughput, 2.5);
  EXPECT_EQ(interval.num_running, 1);
  EXPECT_EQ(interval.num_waiting, 1);
  EXPECT_DOUBLE_EQ(interval.kv_cache_usage, 0.25);
  EXPECT_DOUBLE_EQ(interval.prefix_cache_hit_rate, 0.2);
  EXPECT_FALSE(interval.is_idle);
  tell(statistics, 4, 1, CancelledEvent{5});
  tell(statistics, 4, 2, CancelledEvent{0});
  interval = statistics.take_interval(4 * kNanosPerSecond);
  EXPECT_EQ(interval.prompt_throughput, 0);
  EXPECT_EQ(interval.num_running, 0);
  EXPECT_EQ(interval.kv_cache_usage, 0) << "nothing runs, so nothing holds a block";
  EXPECT_FALSE(interval.is_idle) << "one more line tells that all is over";
  EXPECT_TRUE(statistics.take_interval(6 * kNanosPerSecond).is_idle);
}

TEST(Statistics, HitRateForgetsAfterAThousandRequests) {
  Statistics statistics;
  for (int64_t id = 1; id <= 1500; ++id) {
    tell(statistics, 0, id, ArrivedEvent{10});
    tell(statistics, 0, id, AdmittedEvent{id <= 500 ? 10 : 0, false, 10});
    if (id == 1000) {
      EXPECT_DOUBLE_EQ(statistics.prefix_cache_hit_rate(), 0.5);
    }
  }
  EXPECT_DOUBLE_EQ(statistics.prefix_cache_hit_rate(), 0.0);
}

TEST(FormatSteadyLine, IsVllms) {
  IntervalStatistics interval;
  interval.prompt_throughput = 1234.56;
  interval.generation_throughput = 78.9;
  interval.num_running = 3;
  interval.num_waiting = 1;
  interval.kv_cache_usage = 0.1234;
  interval.prefix_cache_hit_rate = 0.5;
  EXPECT_EQ(format_steady_line(interval, "CPU"),
            "Engine 000: Avg prompt throughput: 1234.6 tokens/s, Avg generation throughput: 78.9 tokens/s, Running: 3 "
            "reqs, Waiting: 1 reqs, CPU KV cache usage: 12.3%, Prefix cache hit rate: 50.0%");
  interval.num_preemptions = 7;
  EXPECT_NE(format_steady_line(interval, "CPU").find("Waiting: 1 reqs, Preemptions: 7, CPU KV cache usage"),
            std::string::npos);
}

TEST(FormatCapacityLine, IsVllms) {
  memory::KvCapacity capacity;
  capacity.size_tokens = 409600;
  capacity.max_concurrency = 3.125;
  // Python's %.2f and C++'s both round half to even in binary: 3.125 is exact, so 3.12.
  EXPECT_EQ(format_blocks_line(25601, 16, Bytes(2 << 20)), "KV blocks: 25,601 of 16 tokens, 2.00 MiB each");
  EXPECT_EQ(format_capacity_line(capacity, 131072, "CPU"),
            "CPU KV cache size: 409,600 tokens, Maximum concurrency for 131,072 tokens per request: 3.12x");
}

}  // namespace
}  // namespace ullage::engine
