// Every step's decisions, as one JSON line a step and a running hash: the main oracle for "the same decisions".
// It also records what came from outside (requests, cancels, finishes) with the step before which it came, so that a
// run can be replayed (recording.h, replay.h). No clock's time is among the decisions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ullage/base/hash.h"
#include "ullage/engine/engine.h"
#include "ullage/sched/event.h"
#include "ullage/sched/request.h"
#include "ullage/sched/step.h"

namespace ullage::engine {

// One owner thread: the engine's, which calls the record functions.
//
// The hash is a chain of XXH3-128 over little-endian 64-bit integers, not over the JSON text:
//   h(0) = 0; h(n+1) = hash128(h(n), record n)
// where a record is a step's decisions or a refusal. It costs nothing to speak of and needs no sink.
class DecisionLog {
 public:
  // Called with each JSON line, without its newline.
  using LineSink = std::function<void(std::string_view line)>;

  explicit DecisionLog(LineSink sink = {}) : sink_(std::move(sink)) {}

  // First line: {"type":"header","schema_version":1,"options":{...}}.
  void record_header(const EngineOptions& options);
  // Before step `step_index`, in order. Inputs: not hashed, as two runs that are compared have them in common.
  void record_arrival(int64_t step_index, const sched::RequestParams& params);
  void record_cancel(int64_t step_index, RequestId id);
  void record_finish(int64_t step_index, RequestId id, sched::FinishReason reason);
  // A decision: hashed.
  void record_refusal(int64_t step_index, RequestId id, ErrorCode code);
  // `events`: those of the step's plan and commit. Views may die after the call.
  void record_step(const sched::StepPlan& plan, const sched::StepResult& result, std::span<const sched::Event> events,
                   int64_t num_free_blocks);

  Hash128 hash() const { return hash_; }
  int64_t num_steps() const { return num_steps_; }

 private:
  void add(int64_t value) { record_.push_back(value); }
  void chain();

  LineSink sink_;
  Hash128 hash_;
  int64_t num_steps_ = 0;
  std::vector<int64_t> record_;  // of the step at hand; kept for its capacity
};

}  // namespace ullage::engine
