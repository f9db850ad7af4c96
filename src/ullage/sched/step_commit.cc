// What a step's results change: vLLM V1's Scheduler.update_from_output().
#include <algorithm>

#include "ullage/base/check.h"
#include "ullage/sched/scheduler_state.h"

namespace ullage::sched {

void Scheduler::commit(const StepResult& result, Nanos now, std::vector<Event>& events) {
  State& s = *state_;
  ULLAGE_CHECK_MSG(s.is_outstanding, "there is no plan to commit");
  s.is_outstanding = false;
  s.cache.end_step();
  StepEvent step;
  size_t num_sampled = 0;
  for (size_t i = 0; i < s.scheduled.size(); ++i) {
    const ScheduledRequest& scheduled = s.plan.requests[i];
    const SampledToken* sampled = nullptr;
    if (scheduled.is_sampled) {
      ULLAGE_CHECK_MSG(num_sampled < result.tokens.size(), "the executor sampled too few tokens");
      sampled = &result.tokens[num_sampled++];
      ULLAGE_CHECK_MSG(sampled->id == scheduled.id, "sampled tokens come in the plan's order");
    }
    s.commit_request(s.scheduled[i], scheduled, sampled, now, events, step);
  }
  ULLAGE_CHECK_MSG(num_sampled == result.tokens.size(), "the executor sampled too many tokens");
  std::erase_if(s.running, [&](int32_t slot) { return s.at(slot).status != RequestState::Status::kRunning; });
  s.scheduled.clear();
  s.plan.requests.clear();
  s.plan.copies.clear();

  step.step_index = s.step_index++;
  step.num_tokens = s.plan.num_tokens;
  step.num_running = num_running();
  step.num_waiting = num_waiting();
  step.num_blocks_total = num_usable_blocks();
  step.num_blocks_used = num_usable_blocks() - num_free_blocks();
  step.duration = result.duration;
  events.push_back({now, RequestId{}, step});
}

void Scheduler::State::commit_request(int32_t slot, const ScheduledRequest& share, const SampledToken* sampled,
                                      Nanos now, std::vector<Event>& events, StepEvent& step) {
  RequestState& r = at(slot);
  const RequestId id = share.id;
  const bool is_decode = share.num_tokens == 1 && share.is_sampled && share.first_position >= r.num_prompt_tokens;
  if (!is_decode) step.num_prompt_tokens += share.num_tokens;
  events.push_back({now, id, ChunkComputedEvent{share.first_position, share.num_tokens, !is_decode}});
  r.num_computed_tokens += share.num_tokens;
  r.num_scheduled_tokens = 0;
  if (sampled == nullptr) return;
  events.push_back({now, id, TokenEvent{*sampled, r.num_output_tokens()}});
  r.tokens.push_back(sampled->token);
  const StopAnswer stop =
      stop_answer(r.params.stop, sampled->token, r.num_output_tokens(), r.num_tokens(), options.max_model_len);
  if (!stop.is_finished) return;
  events.push_back(
      {now, id,
       FinishedEvent{stop.reason, stop.stop_token, r.num_prompt_tokens, r.num_output_tokens(), r.num_cached_tokens}});
  end(slot);
}

StopAnswer stop_answer(const StopParams& stop, TokenId token, int64_t num_output_tokens, int64_t num_tokens,
                       int64_t max_model_len) {
  const auto holds = [token](const std::vector<TokenId>& ids) { return std::ranges::find(ids, token) != ids.end(); };
  if (num_output_tokens >= stop.min_tokens &&
      ((!stop.ignore_eos && holds(stop.eos_token_ids)) || holds(stop.stop_token_ids)))
    return {true, FinishReason::kStop, token};
  if (num_output_tokens >= stop.max_tokens || num_tokens >= max_model_len) return {true, FinishReason::kLength, -1};
  return {};
}

}  // namespace ullage::sched
