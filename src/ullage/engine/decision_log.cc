#include "ullage/engine/decision_log.h"

#include <bit>
#include <variant>

#include "ullage/base/json.h"
#include "ullage/engine/recording_json.h"

namespace ullage::engine {
namespace {

// Marks the kind of a hashed record, so that two kinds never have the same integers.
constexpr int64_t kRefusalRecord = 1;
constexpr int64_t kStepRecord = 2;

static_assert(std::endian::native == std::endian::little, "the hash is defined over little-endian integers");

}  // namespace

void DecisionLog::chain() {
  record_.push_back(static_cast<int64_t>(hash_.high));
  record_.push_back(static_cast<int64_t>(hash_.low));
  hash_ = hash128(std::as_bytes(std::span<const int64_t>(record_)));
  record_.clear();
}

void DecisionLog::record_header(const EngineOptions& options) {
  if (sink_) sink_(dump_json(header_to_json(options)));
}

void DecisionLog::record_arrival(int64_t step_index, const sched::RequestParams& params) {
  if (sink_) sink_(dump_json(arrival_to_json(step_index, params)));
}

void DecisionLog::record_cancel(int64_t step_index, RequestId id) {
  if (sink_) sink_(dump_json(Json{{"type", "cancel"}, {"step", step_index}, {"id", id.value}}));
}

void DecisionLog::record_finish(int64_t step_index, RequestId id, sched::FinishReason reason) {
  if (sink_) {
    sink_(dump_json(Json{{"type", "finish"}, {"step", step_index}, {"id", id.value}, {"reason", reason_name(reason)}}));
  }
}

void DecisionLog::record_refusal(int64_t step_index, RequestId id, ErrorCode code) {
  add(kRefusalRecord);
  add(step_index);
  add(id.value);
  add(static_cast<int64_t>(code));
  chain();
  if (sink_) {
    sink_(dump_json(Json{{"type", "refuse"},
                         {"step", step_index},
                         {"id", id.value},
                         {"code", to_string(code)},
                         {"hash", to_hex(hash_)}}));
  }
}

void DecisionLog::record_step(const sched::StepPlan& plan, const sched::StepResult& result,
                              std::span<const sched::Event> events, int64_t num_free_blocks) {
  Json scheduled = Json::array(), preempted = Json::array(), admitted = Json::array(), sampled = Json::array(),
       finished = Json::array();
  const bool has_sink = static_cast<bool>(sink_);
  add(kStepRecord);
  add(plan.step_index);
  add(num_free_blocks);
  // Each list is hashed with its length, so that nothing can move from one list to the next unseen.
  add(static_cast<int64_t>(plan.requests.size()));
  for (const sched::ScheduledRequest& request : plan.requests) {
    add(request.id.value);
    add(request.first_position);
    add(request.num_tokens);
    add(request.is_sampled);
    if (has_sink) scheduled.push_back(Json::array({request.id.value, request.first_position, request.num_tokens}));
  }
  add(static_cast<int64_t>(plan.preempted.size()));
  for (const RequestId id : plan.preempted) {
    add(id.value);
    if (has_sink) preempted.push_back(id.value);
  }
  add(static_cast<int64_t>(result.tokens.size()));
  for (const sched::SampledToken& token : result.tokens) {
    add(token.id.value);
    add(token.token);
    if (has_sink) sampled.push_back(Json::array({token.id.value, token.token}));
  }
  for (const sched::Event& event : events) {
    if (const auto* body = std::get_if<sched::AdmittedEvent>(&event.body)) {
      add(event.request.value);
      add(body->num_cached_tokens);
      add(body->is_resumed);
      if (has_sink) admitted.push_back(Json::array({event.request.value, body->num_cached_tokens}));
    } else if (const auto* end = std::get_if<sched::FinishedEvent>(&event.body)) {
      add(event.request.value);
      add(-1 - static_cast<int64_t>(end->reason));
      add(end->num_output_tokens);
      if (has_sink) finished.push_back(Json::array({event.request.value, reason_name(end->reason)}));
    }
  }
  chain();
  ++num_steps_;
  if (has_sink) {
    sink_(dump_json(Json{{"type", "step"},
                         {"step", plan.step_index},
                         {"scheduled", std::move(scheduled)},
                         {"preempted", std::move(preempted)},
                         {"admitted", std::move(admitted)},
                         {"sampled", std::move(sampled)},
                         {"finished", std::move(finished)},
                         {"free_blocks", num_free_blocks},
                         {"hash", to_hex(hash_)}}));
  }
}

}  // namespace ullage::engine
