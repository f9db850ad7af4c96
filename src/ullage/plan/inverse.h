// Questions turned round: what would it take for N users, a time to first token, an inter-token latency, a context? And
// what someone with experience would remark on a plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/plan/evaluate.h"
#include "ullage/plan/scenario.h"

namespace ullage::plan {

// What must hold. 0 = not asked.
struct Goal {
  int64_t users = 0;                    // requests of the scenario's lengths that run at once, over all replicas
  double ttft_seconds = 0;              // at most, of one prompt on an idle engine
  double itl_seconds = 0;               // at most, with `users` (or the scenario's concurrency) decoding
  int64_t context_tokens = 0;           // of one request
  double output_tokens_per_second = 0;  // at least, sustained
};

enum class GoalKind : uint8_t { kUsers, kTtft, kItl, kContext, kThroughput };
const char* goal_name(GoalKind kind);  // "users", "TTFT", "ITL", "context", "throughput"

struct GoalState {
  GoalKind kind = GoalKind::kUsers;
  double wanted = 0;
  double found = 0;
  bool is_met = false;
  Bytes missing;  // of one rank's pool; users and context only
};

// A change of one lever, or of two, and what it gives.
struct Change {
  std::vector<std::string> flags;  // "--kv-cache-dtype fp8"
  Scenario scenario;
  bool meets_goal = false;
  double shortfall = 0;  // sum over the goals of how much is missing, relative; 0 = met
  int64_t users = 0;     // capacity.total_expected_requests
  int64_t largest_context = 0;
  double ttft_seconds = 0;
  double itl_seconds = 0;
};

struct InverseAnswer {
  std::vector<GoalState> goals;
  bool is_met = false;
  // Smallest ones that meet the goal when nothing else is changed; none = no value does.
  std::optional<model::Parallelism> devices;
  std::optional<double> gpu_memory_utilization;  // to 0.01
  std::optional<Bytes> kv_memory;                // of one rank, to a block
  std::optional<model::KvDType> kv_dtype;        // the widest that does
  std::optional<WeightPrecision> weights;        // the widest that does
  std::optional<int64_t> max_num_seqs;           // the least
  std::vector<Change> single_changes;            // best first
  std::optional<Change> best_pair;               // when no single change meets the goal
  std::string sentence;
};

// A few thousand evaluations.
Result<InverseAnswer> answer_goal(Planner& planner, const Scenario& scenario, const Goal& goal);

struct Warning {
  std::string code;      // "utilization-high", "pool-above-max-num-seqs", "tp-beyond-kv-heads": stable
  std::string sentence;  // what was seen, what it means, what to do
};
std::vector<Warning> warnings(const Scenario& scenario, const Evaluation& evaluation);

}  // namespace ullage::plan
