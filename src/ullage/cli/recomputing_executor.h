// `ullage generate --no-kv-cache`: what serving would cost if nothing were kept.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "ullage/engine/executor.h"

namespace ullage::cli {

// Passes each step on with every request's tokens from position 0, so that the past is computed again, and answers the
// same. Scheduler and pool run unchanged. REQUIRES: the inner executor's workspace holds max_model_len tokens; no
// prefix caching (another request's blocks would be written again).
class RecomputingExecutor final : public engine::Executor {
 public:
  explicit RecomputingExecutor(std::unique_ptr<engine::Executor> inner) : inner_(std::move(inner)) {}

  Result<sched::StepResult> execute(const sched::StepPlan& plan) override {
    sched::StepPlan whole = plan;
    for (sched::ScheduledRequest& request : whole.requests) {
      whole.num_tokens += request.first_position;
      request.num_tokens += request.first_position;
      request.first_position = 0;
    }
    return inner_->execute(whole);
  }
  const std::string& device_kind() const override { return inner_->device_kind(); }

 private:
  std::unique_ptr<engine::Executor> inner_;
};

}  // namespace ullage::cli
