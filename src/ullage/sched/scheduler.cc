#include "ullage/sched/scheduler.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/check.h"
#include "ullage/sched/admission.h"
#include "ullage/sched/scheduler_state.h"

namespace ullage::sched {

Scheduler::State::State(const SchedulerOptions& o)
    : options(o),
      num_watermark_blocks(static_cast<int64_t>(o.watermark * static_cast<double>(o.num_blocks))),
      cache({.num_blocks = o.num_blocks,
             .block_size = o.block_size,
             .num_groups = 1,
             .enable_prefix_caching = o.enable_prefix_caching,
             .enable_partial_hits = o.enable_partial_prefix_hits,
             .key_function = o.key_function}),
      waiting(o.is_priority_policy) {
  ULLAGE_CHECK_MSG(validate(o).has_value(), "validate(options) first");
}

Scheduler::Scheduler(const SchedulerOptions& options) : state_(std::make_unique<State>(options)) {}
Scheduler::~Scheduler() = default;

int32_t Scheduler::State::take_slot() {
  if (free_slots.empty()) {
    free_slots.push_back(static_cast<int32_t>(requests.size()));
    requests.emplace_back();
  }
  const int32_t slot = free_slots.back();
  free_slots.pop_back();
  return slot;
}

void Scheduler::State::end(int32_t slot) {
  RequestState& r = at(slot);
  if (r.has_cache) cache.remove(r.cache);
  slots.erase(r.params.id);
  r = RequestState{};
  free_slots.push_back(slot);
}

void Scheduler::State::emit_cache_events(Nanos now, std::vector<Event>& events) {
  for (const cache::CacheEvent& e : cache.events()) {
    if (e.kind == cache::CacheEvent::Kind::kStored) {
      events.push_back({now, RequestId{}, BlockStoredEvent{e.block, e.key, e.parent_key}});
    } else {
      events.push_back({now, RequestId{}, BlockEvictedEvent{e.block, e.key}});
    }
  }
  cache.events().clear();
}

Result<void> Scheduler::add(RequestParams params, Nanos now, std::vector<Event>& events) {
  State& s = *state_;
  const RequestId id = params.id;
  const auto check = [&]() -> Result<void> {
    if (s.slots.contains(id))
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("request {} is live already; every request needs an id of its own", id.value), "id"};
    ULLAGE_TRY_VOID(check_request(params, s.options));
    if (s.waiting.size() >= s.options.max_queue_len)
      return Error{ErrorCode::kUnavailable,
                   fmt::format("{} requests are waiting, and the queue holds {} (max_queue_len); try again later",
                               s.waiting.size(), s.options.max_queue_len),
                   "queue"};
    return {};
  };
  if (auto checked = check(); !checked) {
    events.push_back({now, id, RejectedEvent{checked.error()}});
    return checked;
  }
  const int32_t slot = s.take_slot();
  RequestState& r = s.at(slot);
  r.status = RequestState::Status::kWaiting;
  r.tokens = std::move(params.prompt);
  r.num_prompt_tokens = r.num_tokens();
  r.params = std::move(params);
  s.slots.emplace(id, slot);
  s.waiting.push_back(slot, r.rank());
  events.push_back({now, id, ArrivedEvent{r.num_prompt_tokens}});
  return {};
}

bool Scheduler::State::end_early(RequestId id, FinishReason reason, Nanos now, std::vector<Event>& events) {
  ULLAGE_CHECK_MSG(!is_outstanding, "a request is ended between commit and plan");
  const auto found = slots.find(id);
  if (found == slots.end()) return false;
  const int32_t slot = found->second;
  const RequestState& r = at(slot);
  if (reason == FinishReason::kCancelled) {
    events.push_back({now, id, CancelledEvent{r.num_output_tokens()}});
  } else {
    events.push_back(
        {now, id, FinishedEvent{reason, -1, r.num_prompt_tokens, r.num_output_tokens(), r.num_cached_tokens}});
  }
  if (r.status == RequestState::Status::kWaiting) {
    waiting.erase(slot, r.rank());
  } else {
    running.erase(std::ranges::find(running, slot));
  }
  end(slot);
  return true;
}

bool Scheduler::cancel(RequestId id, Nanos now, std::vector<Event>& events) {
  return state_->end_early(id, FinishReason::kCancelled, now, events);
}

bool Scheduler::finish(RequestId id, FinishReason reason, Nanos now, std::vector<Event>& events) {
  return state_->end_early(id, reason, now, events);
}

void Scheduler::cancel_all(Nanos now, std::vector<Event>& events) {
  State& s = *state_;
  s.is_outstanding = false;
  s.scheduled.clear();
  s.plan.requests.clear();
  s.plan.copies.clear();
  s.cache.end_step();
  while (!s.slots.empty()) s.end_early(s.slots.begin()->first, FinishReason::kCancelled, now, events);
  // The dropped step's blocks were indexed and never computed.
  ULLAGE_CHECK(s.cache.reset_prefix_cache());
  s.emit_cache_events(now, events);
}

bool Scheduler::reset_prefix_cache(Nanos now, std::vector<Event>& events) {
  const bool is_reset = state_->cache.reset_prefix_cache();
  state_->emit_cache_events(now, events);
  return is_reset;
}

bool Scheduler::is_plan_outstanding() const { return state_->is_outstanding; }
bool Scheduler::is_live(RequestId id) const { return state_->slots.contains(id); }
int64_t Scheduler::num_running() const { return static_cast<int64_t>(state_->running.size()); }
int64_t Scheduler::num_waiting() const { return state_->waiting.size(); }
int64_t Scheduler::num_free_blocks() const { return state_->cache.num_free_blocks(); }
int64_t Scheduler::num_usable_blocks() const { return state_->cache.num_usable_blocks(); }
int64_t Scheduler::num_common_prefix_blocks(RequestId id) const {
  const auto found = state_->slots.find(id);
  if (found == state_->slots.end()) return 0;
  const RequestState& r = state_->at(found->second);
  return r.has_cache ? state_->cache.num_common_prefix_blocks(r.cache) : 0;
}

const SchedulerOptions& Scheduler::options() const { return state_->options; }
const cache::KvCache& Scheduler::kv_cache() const { return state_->cache; }

void Scheduler::running_ids(std::vector<RequestId>& ids) const {
  for (const int32_t slot : state_->running) ids.push_back(state_->at(slot).params.id);
}

void Scheduler::waiting_ids(std::vector<RequestId>& ids) const {
  std::vector<int32_t> slots;
  state_->waiting.slots(slots);
  for (const int32_t slot : slots) ids.push_back(state_->at(slot).params.id);
}

void Scheduler::check_invariants() const {
  const State& s = *state_;
  s.cache.check_invariants();
  ULLAGE_CHECK(num_running() <= s.options.max_num_seqs);
  ULLAGE_CHECK(num_running() + num_waiting() == static_cast<int64_t>(s.slots.size()));
  int64_t num_scheduled_tokens = 0;
  for (const auto& [id, slot] : s.slots) {
    const RequestState& r = s.at(slot);
    ULLAGE_CHECK(r.params.id == id && r.num_computed_tokens < r.num_tokens() &&
                 r.num_tokens() < s.options.max_model_len);
    ULLAGE_CHECK(r.num_scheduled_tokens == 0 || s.is_outstanding);
    num_scheduled_tokens += r.num_scheduled_tokens;
    const int64_t num_blocks = r.has_cache ? static_cast<int64_t>(s.cache.table(r.cache).size()) : 0;
    if (r.status == RequestState::Status::kWaiting) {
      ULLAGE_CHECK_MSG(num_blocks == 0 && r.num_computed_tokens == 0, "a waiting request holds no blocks");
    } else {
      ULLAGE_CHECK(num_blocks == ceil_div(r.num_computed_tokens + r.num_scheduled_tokens, s.options.block_size));
    }
  }
  ULLAGE_CHECK(num_scheduled_tokens <= s.options.max_num_batched_tokens);
  if (s.slots.empty()) ULLAGE_CHECK_MSG(num_free_blocks() == num_usable_blocks(), "no request, no block in use");
}

}  // namespace ullage::sched
