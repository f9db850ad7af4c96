// Running statistics, made from events alone: vLLM's steady log line, totals, and a record per request from which
// latency histograms are fed.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ullage/base/ids.h"
#include "ullage/base/units.h"
#include "ullage/engine/engine.h"
#include "ullage/memory/kv_layout.h"
#include "ullage/sched/event.h"

namespace ullage::engine {

// One request's times (of events; the engine's clock) and counts. A time is kNever until it has come.
struct RequestRecord {
  static constexpr Nanos kNever = -1;

  RequestId id;
  Nanos arrival = kNever;
  Nanos first_scheduled = kNever;  // first admission; a preemption does not move it
  Nanos first_token = kNever;
  Nanos last_token = kNever;
  Nanos ended = kNever;
  int64_t num_prompt_tokens = 0;
  int64_t num_cached_tokens = 0;  // of the prompt, at first admission
  int64_t num_output_tokens = 0;
  int64_t num_preemptions = 0;
  sched::FinishReason reason = sched::FinishReason::kCancelled;  // once ended
  bool is_running = false;
};

// Seconds between two times of a record, as vLLM's histograms define them; 0 when one of the two never came.
double ttft_seconds(const RequestRecord& record);                   // arrival -> first token
double e2e_seconds(const RequestRecord& record);                    // arrival -> end
double queue_seconds(const RequestRecord& record);                  // arrival -> first scheduled
double prefill_seconds(const RequestRecord& record);                // first scheduled -> first token
double decode_seconds(const RequestRecord& record);                 // first token -> last token
double inference_seconds(const RequestRecord& record);              // first scheduled -> last token
double time_per_output_token_seconds(const RequestRecord& record);  // decode / (output tokens - 1); 0 for one token

// Told of what histograms need, on the engine's thread, in order of events. Must not call the engine.
class StatisticsListener {
 public:
  virtual ~StatisticsListener() = default;
  virtual void on_first_token(const RequestRecord& record) { (void)record; }
  // `gap`: since the request's previous token. Never called for its first.
  virtual void on_inter_token(const RequestRecord& record, Nanos gap) { (void)record, (void)gap; }
  // Finished or cancelled; the last call for this request.
  virtual void on_request_end(const RequestRecord& record) { (void)record; }
  virtual void on_step(const sched::StepEvent& step) { (void)step; }
};

// Since the engine's start.
struct StatisticsTotals {
  // Of prompts whose first token has come (vLLM counts a prompt at that moment, and only once):
  int64_t prompt_tokens = 0;
  int64_t prompt_tokens_cached = 0;  // of them, found in the prefix cache; the rest was computed
  int64_t generation_tokens = 0;
  int64_t preemptions = 0;
  // Tokens looked up and found at admissions; those of preempted requests are left out, as vLLM does.
  int64_t prefix_cache_queries = 0;
  int64_t prefix_cache_hits = 0;
  int64_t num_steps = 0;
  int64_t finished_stop = 0;
  int64_t finished_length = 0;
  int64_t cancelled = 0;
  int64_t rejected = 0;
};

// What vLLM's steady line says of an interval.
struct IntervalStatistics {
  double prompt_throughput = 0;      // computed (not cached) prompt tokens/s
  double generation_throughput = 0;  // tokens/s
  int64_t num_running = 0;           // now
  int64_t num_waiting = 0;           // now
  int64_t num_preemptions = 0;       // since the engine's start: one that happened is not forgotten
  double kv_cache_usage = 0;         // now, [0, 1]
  double prefix_cache_hit_rate = 0;  // over the last 1000 requests, [0, 1]
  // Nothing ran in this interval nor in the one before; vLLM then keeps quiet.
  bool is_idle = false;
};

// One owner thread: the engine's (ask through EngineThread::post).
class Statistics final : public EventSink {
 public:
  // `start`: the clock's time now.
  explicit Statistics(Nanos start = 0);

  // Not owned; outlives this.
  void add_listener(StatisticsListener& listener);
  void on_events(std::span<const sched::Event> events) override;

  const StatisticsTotals& totals() const { return totals_; }
  int64_t num_running() const { return num_running_; }
  int64_t num_waiting() const { return static_cast<int64_t>(live_.size()) - num_running_; }
  double kv_cache_usage() const;
  double prefix_cache_hit_rate() const;
  // Ends the running interval, and starts the next.
  IntervalStatistics take_interval(Nanos now);

 private:
  void on_event(const sched::Event& event);
  void on_admitted(RequestRecord& record, const sched::AdmittedEvent& body, Nanos time);
  void on_token(RequestRecord& record, Nanos time);
  void end_request(RequestId id, sched::FinishReason reason, Nanos time);

  std::vector<StatisticsListener*> listeners_;
  std::map<RequestId, RequestRecord> live_;
  StatisticsTotals totals_;
  int64_t num_running_ = 0;
  int64_t num_blocks_used_ = 0;
  int64_t num_blocks_total_ = 0;
  // Queries and hits of the last requests admitted for the first time.
  std::deque<std::pair<int64_t, int64_t>> recent_;
  int64_t recent_queries_ = 0;
  int64_t recent_hits_ = 0;
  Nanos interval_start_ = 0;
  StatisticsTotals interval_base_;
  bool was_idle_ = true;
};

// vLLM's steady line, with the device's kind in place of "GPU" and without a word on preemptions until there were any.
std::string format_steady_line(const IntervalStatistics& interval, std::string_view device_kind, int engine_index = 0);
// A boot line: "KV blocks: 25,600 of 16 tokens, 2.00 MiB each". Those allocated, the reserved one among them.
std::string format_blocks_line(int64_t num_blocks, int64_t block_size, Bytes block);
// vLLM's boot line: "CPU KV cache size: 409,600 tokens, Maximum concurrency for 131,072 tokens per request: 3.12x".
std::string format_capacity_line(const memory::KvCapacity& capacity, int64_t max_model_len,
                                 std::string_view device_kind);

}  // namespace ullage::engine
