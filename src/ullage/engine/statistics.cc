#include "ullage/engine/statistics.h"

#include <variant>

#include <fmt/format.h>

namespace ullage::engine {
namespace {

// vLLM's CachingMetrics(max_recent_requests).
constexpr size_t kMaxRecentRequests = 1000;

double seconds_between(Nanos from, Nanos to) {
  return from == RequestRecord::kNever || to == RequestRecord::kNever ? 0.0 : to_seconds(to - from);
}

double ratio(int64_t part, int64_t whole) {
  return whole <= 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

double ttft_seconds(const RequestRecord& record) { return seconds_between(record.arrival, record.first_token); }
double e2e_seconds(const RequestRecord& record) { return seconds_between(record.arrival, record.ended); }
double queue_seconds(const RequestRecord& record) { return seconds_between(record.arrival, record.first_scheduled); }
double prefill_seconds(const RequestRecord& record) {
  return seconds_between(record.first_scheduled, record.first_token);
}
double decode_seconds(const RequestRecord& record) { return seconds_between(record.first_token, record.last_token); }
double inference_seconds(const RequestRecord& record) {
  return seconds_between(record.first_scheduled, record.last_token);
}
double time_per_output_token_seconds(const RequestRecord& record) {
  return record.num_output_tokens < 2 ? 0.0
                                      : decode_seconds(record) / static_cast<double>(record.num_output_tokens - 1);
}

Statistics::Statistics(Nanos start) : interval_start_(start) {}

void Statistics::add_listener(StatisticsListener& listener) { listeners_.push_back(&listener); }

void Statistics::on_events(std::span<const sched::Event> events) {
  for (const sched::Event& event : events) on_event(event);
}

void Statistics::on_event(const sched::Event& event) {
  if (const auto* arrived = std::get_if<sched::ArrivedEvent>(&event.body)) {
    RequestRecord& record = live_[event.request];
    record.id = event.request;
    record.arrival = event.time;
    record.num_prompt_tokens = arrived->num_prompt_tokens;
    return;
  }
  if (std::holds_alternative<sched::RejectedEvent>(event.body)) {
    ++totals_.rejected;
    return;
  }
  if (const auto* step = std::get_if<sched::StepEvent>(&event.body)) {
    ++totals_.num_steps;
    num_blocks_used_ = step->num_blocks_used;
    num_blocks_total_ = step->num_blocks_total;
    for (StatisticsListener* listener : listeners_) listener->on_step(*step);
    return;
  }
  const auto it = live_.find(event.request);
  if (it == live_.end()) return;  // block events, and requests from before this sink was added
  RequestRecord& record = it->second;
  if (const auto* admitted = std::get_if<sched::AdmittedEvent>(&event.body)) {
    on_admitted(record, *admitted, event.time);
  } else if (std::holds_alternative<sched::TokenEvent>(event.body)) {
    on_token(record, event.time);
  } else if (std::holds_alternative<sched::PreemptedEvent>(event.body)) {
    ++totals_.preemptions;
    ++record.num_preemptions;
    num_running_ -= record.is_running;
    record.is_running = false;
  } else if (const auto* finished = std::get_if<sched::FinishedEvent>(&event.body)) {
    end_request(event.request, finished->reason, event.time);
  } else if (std::holds_alternative<sched::CancelledEvent>(event.body)) {
    end_request(event.request, sched::FinishReason::kCancelled, event.time);
  }
}

void Statistics::on_admitted(RequestRecord& record, const sched::AdmittedEvent& body, Nanos time) {
  num_running_ += !record.is_running;
  record.is_running = true;
  if (body.is_resumed) return;
  record.first_scheduled = time;
  record.num_cached_tokens = body.num_cached_tokens;
  totals_.prefix_cache_queries += body.num_queried_tokens;
  totals_.prefix_cache_hits += body.num_cached_tokens;
  recent_.emplace_back(body.num_queried_tokens, body.num_cached_tokens);
  recent_queries_ += body.num_queried_tokens;
  recent_hits_ += body.num_cached_tokens;
  if (recent_.size() > kMaxRecentRequests) {
    recent_queries_ -= recent_.front().first;
    recent_hits_ -= recent_.front().second;
    recent_.pop_front();
  }
}

void Statistics::on_token(RequestRecord& record, Nanos time) {
  ++totals_.generation_tokens;
  ++record.num_output_tokens;
  const Nanos previous = record.last_token;
  record.last_token = time;
  if (record.first_token == RequestRecord::kNever) {
    record.first_token = time;
    totals_.prompt_tokens += record.num_prompt_tokens;
    totals_.prompt_tokens_cached += record.num_cached_tokens;
    for (StatisticsListener* listener : listeners_) listener->on_first_token(record);
  } else {
    for (StatisticsListener* listener : listeners_) listener->on_inter_token(record, time - previous);
  }
}

void Statistics::end_request(RequestId id, sched::FinishReason reason, Nanos time) {
  const auto it = live_.find(id);
  RequestRecord& record = it->second;
  record.ended = time;
  record.reason = reason;
  if (reason == sched::FinishReason::kStop) ++totals_.finished_stop;
  if (reason == sched::FinishReason::kLength) ++totals_.finished_length;
  if (reason == sched::FinishReason::kCancelled) ++totals_.cancelled;
  num_running_ -= record.is_running;
  record.is_running = false;
  for (StatisticsListener* listener : listeners_) listener->on_request_end(record);
  live_.erase(it);
}

double Statistics::kv_cache_usage() const {
  // Only running requests hold blocks; the last of them may have been cancelled after the last step told its count.
  return num_running_ == 0 ? 0.0 : ratio(num_blocks_used_, num_blocks_total_);
}

double Statistics::prefix_cache_hit_rate() const { return ratio(recent_hits_, recent_queries_); }

IntervalStatistics Statistics::take_interval(Nanos now) {
  const auto per_second = [&](int64_t tokens) {
    const double seconds = to_seconds(now - interval_start_);
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
  };
  const auto computed = [](const StatisticsTotals& t) { return t.prompt_tokens - t.prompt_tokens_cached; };
  IntervalStatistics interval;
  interval.prompt_throughput = per_second(computed(totals_) - computed(interval_base_));
  interval.generation_throughput = per_second(totals_.generation_tokens - interval_base_.generation_tokens);
  interval.num_running = num_running();
  interval.num_waiting = num_waiting();
  interval.num_preemptions = totals_.preemptions;
  interval.kv_cache_usage = kv_cache_usage();
  interval.prefix_cache_hit_rate = prefix_cache_hit_rate();
  const bool did_nothing = live_.empty() && totals_.num_steps == interval_base_.num_steps;
  interval.is_idle = did_nothing && was_idle_;
  was_idle_ = did_nothing;
  interval_start_ = now;
  interval_base_ = totals_;
  return interval;
}

std::string format_steady_line(const IntervalStatistics& interval, std::string_view device_kind, int engine_index) {
  std::string line = fmt::format(
      "Engine {:03d}: Avg prompt throughput: {:.1f} tokens/s, Avg generation throughput: {:.1f} tokens/s, "
      "Running: {} reqs, Waiting: {} reqs",
      engine_index, interval.prompt_throughput, interval.generation_throughput, interval.num_running,
      interval.num_waiting);
  if (interval.num_preemptions > 0) line += fmt::format(", Preemptions: {}", interval.num_preemptions);
  return line + fmt::format(", {} KV cache usage: {:.1f}%, Prefix cache hit rate: {:.1f}%", device_kind,
                            interval.kv_cache_usage * 100, interval.prefix_cache_hit_rate * 100);
}

std::string format_blocks_line(int64_t num_blocks, int64_t block_size, Bytes block) {
  return fmt::format("KV blocks: {} of {} tokens, {} each", format_thousands(num_blocks), block_size,
                     format_bytes(block));
}

std::string format_capacity_line(const memory::KvCapacity& capacity, int64_t max_model_len,
                                 std::string_view device_kind) {
  return fmt::format("{} KV cache size: {} tokens, Maximum concurrency for {} tokens per request: {:.2f}x", device_kind,
                     format_thousands(capacity.size_tokens), format_thousands(max_model_len), capacity.max_concurrency);
}

}  // namespace ullage::engine
