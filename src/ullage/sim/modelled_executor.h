// An executor without weights: a roofline clock and tokens from a source. With a real clock it paces like the device,
// with a virtual one it only advances time. Minimal: one device, no overheads beyond the roofline.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ullage/base/clock.h"
#include "ullage/base/result.h"
#include "ullage/cost/step_cost.h"
#include "ullage/engine/executor.h"
#include "ullage/hardware/device.h"
#include "ullage/model/model_shape.h"
#include "ullage/sim/token_source.h"

namespace ullage::sim {

struct ModelledOptions {
  cost::StepCostOptions cost = {};
  double speed = 1.0;            // > 0; the clock moves by modelled time / speed
  double eos_probability = 0.0;  // [0, 1]; that a token is the request's first EOS, where EOS may come
  std::string device_kind = {};  // empty = "<device's kind> (modelled)"
};

// Called by the engine's thread only. Neither clock nor token source is owned; they outlive it.
//
// Without an eos_probability no stop token is sampled on purpose, so requests run to max_tokens. min_tokens is
// honoured: where a stop token is forbidden, a source's stop token gives way to another token.
class ModelledExecutor final : public engine::Executor {
 public:
  static Result<std::unique_ptr<ModelledExecutor>> create(const model::ModelShape& shape,
                                                          const hardware::Device& device,
                                                          const ModelledOptions& options, const TokenSource& tokens,
                                                          Clock& clock);

  Result<sched::StepResult> execute(const sched::StepPlan& plan) override;
  const std::string& device_kind() const override { return device_kind_; }
  // Of the last step.
  const cost::StepCost& last_cost() const { return last_cost_; }

 private:
  ModelledExecutor(const cost::StepCostModel& model, const ModelledOptions& options, std::string device_kind,
                   const TokenSource& tokens, Clock& clock)
      : model_(model), options_(options), device_kind_(std::move(device_kind)), tokens_(tokens), clock_(clock) {}

  sched::SampledToken sample(const sched::ScheduledRequest& request) const;

  cost::StepCostModel model_;
  ModelledOptions options_;
  std::string device_kind_;
  const TokenSource& tokens_;
  Clock& clock_;
  std::vector<cost::WorkItem> items_;  // of the step at hand
  cost::StepCost last_cost_;
};

}  // namespace ullage::sim
