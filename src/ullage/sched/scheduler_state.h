// What a Scheduler holds. Internal to sched/: scheduler.cc takes requests in and out, step_planner.cc decides a step,
// step_commit.cc takes its results.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "ullage/cache/kv_cache.h"
#include "ullage/sched/request_queue.h"
#include "ullage/sched/scheduler.h"

namespace ullage::sched {

struct RequestState {
  enum class Status : uint8_t { kNone, kWaiting, kRunning };
  Status status = Status::kNone;
  RequestParams params;         // its prompt has moved into tokens
  std::vector<TokenId> tokens;  // prompt, then output
  int64_t num_prompt_tokens = 0;
  int64_t num_computed_tokens = 0;   // before the outstanding step
  int64_t num_scheduled_tokens = 0;  // in the outstanding step; 0 = not in it
  int64_t num_cached_tokens = 0;     // of the prompt, at first admission
  bool was_admitted = false;
  bool has_cache = false;  // `cache` is valid: from the first look at its prefix on
  cache::CacheHandle cache;

  int64_t num_tokens() const { return static_cast<int64_t>(tokens.size()); }
  int64_t num_output_tokens() const { return num_tokens() - num_prompt_tokens; }
  Rank rank() const { return {params.priority, params.arrival, params.id}; }
};

// Whether a request's newest token ends it.
struct StopAnswer {
  bool is_finished = false;
  FinishReason reason = FinishReason::kStop;
  TokenId stop_token = -1;  // -1 = ended by length
};
// `num_output_tokens` and `num_tokens` count the newest token.
StopAnswer stop_answer(const StopParams& stop, TokenId token, int64_t num_output_tokens, int64_t num_tokens,
                       int64_t max_model_len);

struct Scheduler::State {
  explicit State(const SchedulerOptions& options);

  RequestState& at(int32_t slot) { return requests[static_cast<size_t>(slot)]; }
  const RequestState& at(int32_t slot) const { return requests[static_cast<size_t>(slot)]; }

  // scheduler.cc
  int32_t take_slot();
  void end(int32_t slot);  // frees blocks and slot; the caller takes it out of running or waiting
  bool end_early(RequestId id, FinishReason reason, Nanos now, std::vector<Event>& events);
  void emit_cache_events(Nanos now, std::vector<Event>& events);

  // step_planner.cc, in the order in which plan() calls them
  void schedule_running(Nanos now, std::vector<Event>& events);
  bool make_room(size_t index, int64_t num_new_tokens, Nanos now, std::vector<Event>& events);
  size_t victim_index() const;
  void preempt(size_t index, Nanos now, std::vector<Event>& events);
  void schedule_waiting(Nanos now, std::vector<Event>& events);
  bool admit_first(Nanos now, std::vector<Event>& events);
  void build_plan();

  // step_commit.cc
  void commit_request(int32_t slot, const ScheduledRequest& share, const SampledToken* sampled, Nanos now,
                      std::vector<Event>& events, StepEvent& step);

  SchedulerOptions options;
  int64_t num_watermark_blocks = 0;
  cache::KvCache cache;
  std::deque<RequestState> requests;  // by slot; a deque, so that plans may point into it
  std::vector<int32_t> free_slots;
  std::map<RequestId, int32_t> slots;  // of live requests
  RequestQueue waiting;
  std::vector<int32_t> running;  // slots, in order of admission

  // The outstanding step.
  bool is_outstanding = false;
  int64_t step_index = 0;
  int64_t token_budget = 0;        // left
  std::vector<int32_t> scheduled;  // slots, in order
  StepPlan plan;
  std::vector<BlockTable> tables;  // [scheduled.size(), num_groups]
};

}  // namespace ullage::sched
