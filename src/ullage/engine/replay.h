// Runs a recording again, on any executor: what came from outside comes before the same step, and the sampled tokens
// are the recorded ones. The decision log must come out the same (invariant 6).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ullage/base/clock.h"
#include "ullage/base/hash.h"
#include "ullage/base/result.h"
#include "ullage/engine/decision_log.h"
#include "ullage/engine/engine.h"
#include "ullage/engine/executor.h"
#include "ullage/engine/recording.h"

namespace ullage::engine {

// Runs the inner executor, then puts recorded tokens in place of those it sampled. A token that was not recorded is an
// Error: the replay has left the recording. Owned by whoever built it; neither the executor nor the tokens are owned.
class ScriptedTokens final : public Executor {
 public:
  ScriptedTokens(Executor& inner, const std::map<RequestId, std::vector<TokenId>>& tokens)
      : inner_(inner), tokens_(tokens) {}
  Result<sched::StepResult> execute(const sched::StepPlan& plan) override;
  const std::string& device_kind() const override { return inner_.device_kind(); }

 private:
  Executor& inner_;
  const std::map<RequestId, std::vector<TokenId>>& tokens_;
};

struct ReplayResult {
  Hash128 hash;
  int64_t num_steps = 0;
};

// Feeds the recorded arrivals to a fresh engine (no step run yet) at their steps, and runs it until the recording's
// last step and record. REQUIRES: the engine's executor is a ScriptedTokens of the recording's tokens.
Result<int64_t> feed(std::span<const ArrivalRecord> arrivals, int64_t num_steps, Engine& engine);

// The whole: a fresh engine of the recorded options over `inner`. The log, if given, receives the replay's lines.
Result<ReplayResult> replay(const Recording& recording, Executor& inner, Clock& clock, DecisionLog::LineSink sink = {});

}  // namespace ullage::engine
