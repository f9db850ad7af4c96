// The decisions of a step: vLLM V1's Scheduler.schedule(), synchronous.
#include <algorithm>

#include "ullage/base/check.h"
#include "ullage/sched/admission.h"
#include "ullage/sched/scheduler_state.h"

namespace ullage::sched {

const StepPlan& Scheduler::plan(Nanos now, std::vector<Event>& events) {
  State& s = *state_;
  ULLAGE_CHECK_MSG(!s.is_outstanding, "commit the last plan first");
  s.is_outstanding = true;
  s.token_budget = s.options.max_num_batched_tokens;
  s.scheduled.clear();
  s.plan.preempted.clear();
  s.schedule_running(now, events);
  // Who was just preempted would be the first to come back; let the room settle for a step.
  if (s.plan.preempted.empty()) s.schedule_waiting(now, events);
  s.build_plan();
  s.emit_cache_events(now, events);
  return s.plan;
}

void Scheduler::State::schedule_running(Nanos now, std::vector<Event>& events) {
  for (size_t i = 0; i < running.size() && token_budget > 0; ++i) {
    const int32_t slot = running[i];
    RequestState& r = at(slot);
    int64_t num_new_tokens = r.num_tokens() - r.num_computed_tokens;
    if (options.long_prefill_token_threshold > 0)
      num_new_tokens = std::min(num_new_tokens, options.long_prefill_token_threshold);
    num_new_tokens = std::min(num_new_tokens, token_budget);
    if (!make_room(i, num_new_tokens, now, events)) return;
    // Victims before this request moved it to the left.
    while (running[i] != slot) --i;
    r.num_scheduled_tokens = num_new_tokens;
    token_budget -= num_new_tokens;
    scheduled.push_back(slot);
  }
}

// Allocates for running[index], preempting others, and at last itself, until it fits. False when it was preempted.
bool Scheduler::State::make_room(size_t index, int64_t num_new_tokens, Nanos now, std::vector<Event>& events) {
  const int32_t slot = running[index];
  const RequestState& r = at(slot);
  while (!cache.allocate(r.cache, r.tokens, {},
                         {.num_computed_tokens = r.num_computed_tokens, .num_new_tokens = num_new_tokens})) {
    const size_t victim = victim_index();
    const bool is_self = running[victim] == slot;
    // Admission makes sure that a request fits when it is alone.
    ULLAGE_CHECK_MSG(running.size() > 1, "a request that runs alone always fits");
    preempt(victim, now, events);
    if (is_self) return false;
  }
  return true;
}

size_t Scheduler::State::victim_index() const {
  if (!options.is_priority_policy) return running.size() - 1;
  const auto last = std::ranges::max_element(running, {}, [this](int32_t slot) { return at(slot).rank(); });
  return static_cast<size_t>(last - running.begin());
}

void Scheduler::State::preempt(size_t index, Nanos now, std::vector<Event>& events) {
  const int32_t slot = running[index];
  RequestState& r = at(slot);
  running.erase(running.begin() + static_cast<std::ptrdiff_t>(index));
  if (r.num_scheduled_tokens > 0) {
    // It was in this step already (priority policy): give its tokens back, and unsay that its blocks would be computed.
    token_budget += r.num_scheduled_tokens;
    r.num_scheduled_tokens = 0;
    scheduled.erase(std::ranges::find(scheduled, slot));
    cache.free_uncomputed(r.cache, r.num_computed_tokens);
  } else {
    cache.free(r.cache);
  }
  events.push_back({now, r.params.id, PreemptedEvent{r.num_computed_tokens}});
  r.num_computed_tokens = 0;
  r.status = RequestState::Status::kWaiting;
  waiting.push_front(slot, r.rank());
  plan.preempted.push_back(r.params.id);
}

void Scheduler::State::schedule_waiting(Nanos now, std::vector<Event>& events) {
  while (waiting.size() > 0 && token_budget > 0 && static_cast<int64_t>(running.size()) < options.max_num_seqs)
    if (!admit_first(now, events)) return;
}

// Moves the first waiting request to running, with the tokens that this step computes. False when it has to wait.
bool Scheduler::State::admit_first(Nanos now, std::vector<Event>& events) {
  const int32_t slot = waiting.front();
  RequestState& r = at(slot);
  if (!r.has_cache) {
    const int64_t max_tokens = max_cached_tokens(r.num_prompt_tokens, r.params.stop.max_tokens, options.max_model_len);
    r.cache = cache.add(r.params.cache_salt, r.params.adapter, max_tokens);
    r.has_cache = true;
    r.tokens.reserve(static_cast<size_t>(max_tokens + 1));
  }
  cache::PrefixHit hit = cache.find_prefix(r.cache, r.tokens);
  const auto try_allocate = [&] {
    int64_t num_new_tokens = r.num_tokens() - hit.num_tokens;
    if (options.long_prefill_token_threshold > 0)
      num_new_tokens = std::min(num_new_tokens, options.long_prefill_token_threshold);
    const bool is_over_any_budget = num_new_tokens > options.max_num_batched_tokens;
    if (!options.enable_chunked_prefill && num_new_tokens > token_budget && !is_over_any_budget) return int64_t{0};
    num_new_tokens = std::min(num_new_tokens, token_budget);
    const bool is_allocated = cache.allocate(r.cache, r.tokens, hit,
                                             {.num_new_tokens = num_new_tokens,
                                              .must_fit_whole = options.reserve_full_prompt,
                                              .num_reserved_blocks = running.empty() ? 0 : num_watermark_blocks});
    return is_allocated ? num_new_tokens : int64_t{0};
  };
  int64_t num_new_tokens = try_allocate();
  if (num_new_tokens == 0 && hit.num_partial_tokens > 0) {
    // The copy's source must stay for the step, which takes a block more than computing its tokens does.
    hit = cache::KvCache::drop_partial(hit);
    num_new_tokens = try_allocate();
  }
  if (num_new_tokens == 0) return false;

  waiting.erase(slot, r.rank());
  running.push_back(slot);
  scheduled.push_back(slot);
  token_budget -= num_new_tokens;
  r.status = RequestState::Status::kRunning;
  r.num_computed_tokens = hit.num_tokens;
  r.num_scheduled_tokens = num_new_tokens;
  events.push_back({now, r.params.id,
                    AdmittedEvent{hit.num_tokens, r.was_admitted, options.enable_prefix_caching ? r.num_tokens() : 0}});
  if (!r.was_admitted) r.num_cached_tokens = hit.num_tokens;
  r.was_admitted = true;
  return true;
}

void Scheduler::State::build_plan() {
  plan.step_index = step_index;
  plan.num_tokens = options.max_num_batched_tokens - token_budget;
  plan.requests.clear();
  plan.copies.clear();
  tables.resize(scheduled.size());
  for (size_t i = 0; i < scheduled.size(); ++i) {
    const RequestState& r = at(scheduled[i]);
    tables[i] = cache.table(r.cache);
    plan.requests.push_back({.id = r.params.id,
                             .first_position = r.num_computed_tokens,
                             .num_tokens = r.num_scheduled_tokens,
                             .is_sampled = r.num_computed_tokens + r.num_scheduled_tokens == r.num_tokens(),
                             .num_prompt_tokens = r.num_prompt_tokens,
                             .tokens = r.tokens,
                             .block_tables = {&tables[i], 1},
                             .sampling = &r.params.sampling,
                             .stop = &r.params.stop});
  }
  for (const cache::PartialCopy& copy : cache.copies())
    plan.copies.push_back({copy.source, copy.destination, copy.num_tokens});
}

}  // namespace ullage::sched
