#include "ullage/engine/replay.h"

#include <utility>

#include <fmt/format.h>

namespace ullage::engine {

Result<sched::StepResult> ScriptedTokens::execute(const sched::StepPlan& plan) {
  ULLAGE_TRY(sched::StepResult result, inner_.execute(plan));
  size_t next = 0;
  for (const sched::ScheduledRequest& request : plan.requests) {
    if (!request.is_sampled || next == result.tokens.size()) continue;
    const int64_t output_index = request.first_position + request.num_tokens - request.num_prompt_tokens;
    const auto script = tokens_.find(request.id);
    if (script == tokens_.end() || output_index < 0 || output_index >= static_cast<int64_t>(script->second.size())) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("the recording has no output token {} of request {}: the replay has left it in step {}",
                               output_index, request.id.value, plan.step_index),
                   "replay"};
    }
    result.tokens[next++].token = script->second[static_cast<size_t>(output_index)];
  }
  return result;
}

Result<int64_t> feed(std::span<const ArrivalRecord> arrivals, int64_t num_steps, Engine& engine) {
  int64_t step = 0;
  size_t next = 0;
  for (;;) {
    for (; next < arrivals.size() && arrivals[next].step_index <= step; ++next) {
      const ArrivalRecord& record = arrivals[next];
      switch (record.kind) {
        case ArrivalRecord::Kind::kRequest:
          // A refusal is an answer, and is in the log.
          (void)engine.add_request(record.params);
          break;
        case ArrivalRecord::Kind::kCancel:
          engine.cancel(record.id);
          break;
        case ArrivalRecord::Kind::kFinish:
          engine.finish(record.id, record.reason);
          break;
      }
    }
    if (step == num_steps) return step;
    ULLAGE_TRY(const bool has_run, engine.step());
    if (!has_run) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("nothing is left to do before step {}, the recording has {} steps", step, num_steps),
                   "replay"};
    }
    ++step;
  }
}

Result<ReplayResult> replay(const Recording& recording, Executor& inner, Clock& clock, DecisionLog::LineSink sink) {
  ScriptedTokens executor(inner, recording.tokens);
  DecisionLog log(std::move(sink));
  Engine engine(recording.options, executor, clock);
  engine.set_decision_log(&log);
  ULLAGE_TRY_VOID(feed(recording.arrivals, recording.num_steps, engine));
  return ReplayResult{log.hash(), log.num_steps()};
}

}  // namespace ullage::engine
