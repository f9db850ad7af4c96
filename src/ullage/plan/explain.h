// Why two scenarios differ: a waterfall of named terms, in a fixed order of changes, that sums exactly to the
// difference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/plan/evaluate.h"
#include "ullage/plan/scenario.h"

namespace ullage::plan {

// One lever that differs, or one term of the budget where several move (engine profiles).
struct WaterfallTerm {
  std::string name;    // "KV dtype", "graphs"
  std::string change;  // "bf16 -> fp8_e4m3", "1.1 GiB -> 0"
  // What the change does, those before it made already.
  int64_t tokens = 0;  // usable_tokens, over replicas
  int64_t users = 0;   // total_expected_requests
  double itl_seconds = 0;
  double ttft_seconds = 0;
  double output_tokens_per_second = 0;
};

struct Explanation {
  Evaluation before;
  Evaluation after;
  std::vector<WaterfallTerm> terms;  // sum to after - before
  std::string sentence;              // "B holds 43,120 tokens more (+98 %), almost all of it from the KV dtype"
};

// Levers are changed one after another: model, weights, devices, engine, settings of memory, KV, requests.
Result<Explanation> explain(Planner& planner, const Scenario& before, const Scenario& after);

}  // namespace ullage::plan
