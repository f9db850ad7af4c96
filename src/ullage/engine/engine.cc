#include "ullage/engine/engine.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/check.h"
#include "ullage/engine/decision_log.h"
#include "ullage/sched/scheduler.h"

namespace ullage::engine {
namespace {

sched::SchedulerOptions scheduler_options(const EngineOptions& options) {
  sched::SchedulerOptions out;
  out.num_blocks = options.num_blocks;
  out.block_size = options.block_size;
  out.max_model_len = options.max_model_len;
  out.max_num_seqs = options.max_num_seqs;
  out.max_num_batched_tokens = options.max_num_batched_tokens;
  out.max_queue_len = options.max_queue_len;
  out.enable_prefix_caching = options.enable_prefix_caching;
  out.enable_partial_prefix_hits = options.enable_partial_prefix_hits;
  out.enable_chunked_prefill = options.enable_chunked_prefill;
  out.is_priority_policy = options.is_priority_policy;
  return out;
}

// An executor's answer that does not fit its plan is the executor's fault, and must not corrupt the scheduler.
Result<void> check_result(const sched::StepPlan& plan, const sched::StepResult& result) {
  size_t num_sampled = 0;
  for (const sched::ScheduledRequest& request : plan.requests) {
    if (!request.is_sampled) continue;
    if (num_sampled >= result.tokens.size() || result.tokens[num_sampled].id != request.id) {
      return Error{ErrorCode::kInternal,
                   fmt::format("step {}: the executor gave no token for request {} in its place", plan.step_index,
                               request.id.value),
                   "executor"};
    }
    ++num_sampled;
  }
  if (num_sampled == result.tokens.size()) return {};
  return Error{ErrorCode::kInternal,
               fmt::format("step {}: the executor gave {} tokens where {} were asked for", plan.step_index,
                           result.tokens.size(), num_sampled),
               "executor"};
}

}  // namespace

Result<void> validate(const EngineOptions& options) { return sched::validate(scheduler_options(options)); }

struct Engine::State {
  State(const EngineOptions& engine_options, Executor& the_executor, Clock& the_clock)
      : options(engine_options),
        executor(the_executor),
        clock(the_clock),
        scheduler(scheduler_options(engine_options)) {}

  void deliver() {
    if (events.empty()) return;
    for (EventSink* sink : sinks) sink->on_events(events);
    events.clear();
  }
  // After a refusal by the scheduler, or before it was asked.
  void log_refusal(RequestId id, ErrorCode code) {
    if (log != nullptr) log->record_refusal(next_step, id, code);
  }
  Error fail(Error error) {
    scheduler.cancel_all(clock.now(), events);
    deliver();
    failure = std::move(error);
    return *failure;
  }

  EngineOptions options;
  Executor& executor;
  Clock& clock;
  sched::Scheduler scheduler;
  DecisionLog* log = nullptr;
  std::vector<EventSink*> sinks;
  std::vector<sched::Event> events;  // of the call at hand
  int64_t next_step = 0;
  std::optional<Error> failure;
};

Engine::Engine(const EngineOptions& options, Executor& executor, Clock& clock) {
  const Result<void> valid = validate(options);
  ULLAGE_CHECK_MSG(valid.has_value(), valid ? "" : valid.error().to_string());
  state_ = std::make_unique<State>(options, executor, clock);
}

Engine::~Engine() = default;

void Engine::add_sink(EventSink& sink) { state_->sinks.push_back(&sink); }

void Engine::set_decision_log(DecisionLog* log) {
  state_->log = log;
  if (log != nullptr) log->record_header(state_->options);
}

Result<void> Engine::add_request(sched::RequestParams params) {
  State& s = *state_;
  const Nanos now = s.clock.now();
  if (params.arrival <= 0) params.arrival = now;
  // The request arrived when its client was heard, not when the engine had time for it.
  const Nanos arrival = std::min(params.arrival, now);
  const RequestId id = params.id;
  if (s.log != nullptr) s.log->record_arrival(s.next_step, params);
  if (s.failure) {
    Error error{ErrorCode::kUnavailable, "the engine has failed: " + s.failure->to_string(), "engine"};
    s.events.push_back(sched::Event{arrival, id, sched::RejectedEvent{error}});
    s.log_refusal(id, error.code);
    s.deliver();
    return error;
  }
  Result<void> added = s.scheduler.add(std::move(params), arrival, s.events);
  if (!added) s.log_refusal(id, added.error().code);
  s.deliver();
  return added;
}

bool Engine::cancel(RequestId id) {
  State& s = *state_;
  if (!s.scheduler.cancel(id, s.clock.now(), s.events)) return false;
  if (s.log != nullptr) s.log->record_cancel(s.next_step, id);
  s.deliver();
  return true;
}

bool Engine::finish(RequestId id, sched::FinishReason reason) {
  State& s = *state_;
  if (!s.scheduler.finish(id, reason, s.clock.now(), s.events)) return false;
  if (s.log != nullptr) s.log->record_finish(s.next_step, id, reason);
  s.deliver();
  return true;
}

void Engine::cancel_all() {
  std::vector<RequestId> ids;
  state_->scheduler.running_ids(ids);
  state_->scheduler.waiting_ids(ids);
  for (const RequestId id : ids) cancel(id);
}

Result<bool> Engine::step() {
  State& s = *state_;
  if (s.failure) return *s.failure;
  if (!s.scheduler.has_work()) return false;
  const sched::StepPlan& plan = s.scheduler.plan(s.clock.now(), s.events);
  Result<sched::StepResult> result = sched::StepResult{};
  // A step that only preempted has nothing to compute.
  if (!plan.requests.empty()) result = s.executor.execute(plan);
  if (!result) return s.fail(std::move(result).error());
  if (Result<void> fits = check_result(plan, *result); !fits) return s.fail(std::move(fits).error());
  if (s.log != nullptr) {
    // The plan's views end with the commit, which says what finished: copy what the log needs of it.
    const sched::StepPlan decided = plan;
    s.scheduler.commit(*result, s.clock.now(), s.events);
    s.log->record_step(decided, *result, s.events, s.scheduler.num_free_blocks());
  } else {
    s.scheduler.commit(*result, s.clock.now(), s.events);
  }
  ++s.next_step;
  if (s.options.is_paranoid) s.scheduler.check_invariants();
  s.deliver();
  return true;
}

bool Engine::has_work() const { return !state_->failure && state_->scheduler.has_work(); }
int64_t Engine::num_running() const { return state_->scheduler.num_running(); }
int64_t Engine::num_waiting() const { return state_->scheduler.num_waiting(); }
int64_t Engine::num_free_blocks() const { return state_->scheduler.num_free_blocks(); }
int64_t Engine::num_usable_blocks() const { return state_->scheduler.num_usable_blocks(); }

bool Engine::reset_prefix_cache() {
  State& s = *state_;
  const bool is_reset = s.scheduler.reset_prefix_cache(s.clock.now(), s.events);
  s.deliver();
  return is_reset;
}

}  // namespace ullage::engine
