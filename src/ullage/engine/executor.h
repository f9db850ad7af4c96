// What computes a step: the CPU (cpu/), or a modelled device (sim/).
#pragma once

#include <string>

#include "ullage/base/result.h"
#include "ullage/sched/step.h"

namespace ullage::engine {

// Owned by whoever built it; called by the engine's thread only.
class Executor {
 public:
  virtual ~Executor() = default;
  // Computes the plan's tokens, writes their keys and values into the given blocks, and samples where asked.
  // Greedy results depend on a request's own tokens alone: not on batch mates, chunking, prefix hits or preemption.
  // An Error fails the engine (it finishes every request with that Error and stops).
  virtual Result<sched::StepResult> execute(const sched::StepPlan& plan) = 0;
  // "CPU", "H100 (modelled)": what boot lines and logs call the device.
  virtual const std::string& device_kind() const = 0;
};

}  // namespace ullage::engine
