// A scenario's answers: what fits, how fast it will be, what stops it. Arithmetic alone: the same scenario gives the
// same bits everywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/cost/step_cost.h"
#include "ullage/memory/budget.h"
#include "ullage/memory/kv_layout.h"
#include "ullage/plan/scenario.h"

namespace ullage::plan {

using memory::Tier;

struct Term {
  Bytes bytes;
  Tier tier = Tier::kExact;
  Bytes error;  // calibrated: nine in ten lie within +- this
};

enum class Fit : uint8_t {
  kFits,
  kWeightsTooLarge,  // no memory is left for the cache
  kRequestTooLarge,  // one request of the mean length is larger than the pool
};

// What keeps the batch from growing.
enum class Limit : uint8_t {
  kArrivals,     // clients send no more
  kMaxNumSeqs,   // the engine's setting
  kMemory,       // the pool
  kNothingFits,  // not one request runs
};
const char* limit_name(Limit limit);        // "arrivals", "max_num_seqs", "memory", "nothing fits"
const char* bound_name(cost::Bound bound);  // "bandwidth", "compute", "communication", "overhead"
const char* tier_name(Tier tier);           // "exact", "modelled", "calibrated", "given"

// Of one rank, the one with the least left.
struct BudgetNumbers {
  Bytes capacity;
  Bytes requested;
  Term weights;
  Term adapters;
  Term activations;
  Term graphs;
  Term runtime;
  bool are_graphs_subtracted = true;
  Term kv_pool;         // below 0: by how much the rest is too large
  Bytes total_kv_pool;  // over all ranks that hold different keys and values or weights: kv_pool x devices
};

// Of one data-parallel replica unless it says total. Tier: that of the pool; exact when the pool is given.
struct Capacity {
  int64_t num_blocks = 0;  // the reserved one included
  int64_t block_size = 0;
  int64_t bytes_per_block = 0;  // of one rank
  int64_t num_groups = 0;

  // As the engine prints it, at max_model_len.
  double printed_concurrency = 0;
  int64_t printed_tokens = 0;
  // What can be admitted at max_model_len: without the reserved block, whole requests.
  int64_t usable_requests = 0;
  int64_t usable_tokens = 0;
  // At the scenario's own lengths: whole requests of the mean, and of the p95, that can run to their end together.
  int64_t expected_requests = 0;
  int64_t expected_requests_p95 = 0;
  // Requests at the middle of their output: what a steady state holds on average (prompt + output / 2).
  int64_t steady_requests = 0;
  int64_t total_expected_requests = 0;  // over replicas

  // Other ways to keep a cache, for comparison: max_model_len reserved for each request (before paging), and prompt +
  // output reserved in one piece.
  int64_t contiguous_max_len_requests = 0;
  int64_t contiguous_requests = 0;

  // Bytes of one request on one rank: fixed + per token, windows capped.
  int64_t fixed_bytes = 0;
  int64_t bytes_per_token = 0;
  int64_t request_bytes = 0;         // of the mean length, layer-exact
  int64_t request_block_bytes = 0;   // as blocks, rounding and padding included
  int64_t shared_prefix_blocks = 0;  // kept once

  int64_t largest_context = 0;  // tokens of one request alone, not above the model's positions
  int64_t largest_batch = 0;    // min(expected_requests, max_num_seqs)
};

// One step's price and its parts. Of one rank, in bytes, FLOPs, seconds.
struct StepAnswer {
  cost::StepCost cost;
  cost::Bound bound = cost::Bound::kMemory;
  double margin = 0;  // how many times the binding part is longer than the next
  double flops_per_byte = 0;
  double weight_share = 0;  // of the bytes
  double kv_share = 0;
  double communication_share = 0;  // of the time
  double tensor_duty = 0;          // compute at peak / time: what DCGM's tensor-active gauge would show
  double dram_duty = 0;            // bytes at peak bandwidth / time: DCGM's DRAM-active
  double bandwidth_use = 0;        // model bandwidth utilisation: weights and KV / (peak bandwidth x time)
};

// Tier: modelled, or calibrated when the efficiency is.
struct Timing {
  Tier tier = Tier::kModelled;
  double error = 0;         // of ITL: relative, median, when calibrated
  double ttft_error = 0;    // of TTFT
  double ttft_seconds = 0;  // of one prompt on an idle engine, what is cached left out
  double ttft_uncached_seconds = 0;
  double ttft_loaded_seconds = 0;       // when it shares its steps with the running decodes
  double itl_seconds = 0;               // a step of all running decodes alone, per accepted token
  double mixed_itl_seconds = 0;         // a step that also carries a full chunk of a prompt: the worst gap
  double step_seconds = 0;              // of decodes; with speculation more than one token comes of it
  double tokens_per_step = 1;           // accepted, a request
  double decode_tokens_per_second = 0;  // over all replicas, decoding alone: running / itl
  double output_tokens_per_second = 0;  // sustained, prompts included
  double input_tokens_per_second = 0;
  double requests_per_second = 0;              // sustained ceiling
  double request_seconds = 0;                  // from admission to its end in the steady state
  double static_output_tokens_per_second = 0;  // with static batching: the batch waits for its longest
  StepAnswer prefill;                          // of the prompt's (last) chunk
  StepAnswer decode;
};

struct Crossovers {
  double ridge_flops_per_byte = 0;  // of the device: peak FLOP/s / bandwidth
  int64_t kv_outweighs_weights_tokens =
      0;                            // context of each running request at which KV bytes reach the weights'; 0 = never
  int64_t compute_bound_batch = 0;  // smallest batch whose decode step is compute-bound; 0 = none up to 2^20
  int64_t bandwidth_bound_prompt = 0;  // prompts shorter than this are bandwidth-bound
  // Prefixes of this many tokens and more load from the host's memory faster than they compute; 0 = none do, or no such
  // link is known. Of the scenario's own prompt: the seconds of both.
  int64_t reload_break_even_tokens = 0;
  double reload_seconds = 0;
  double recompute_seconds = 0;
  int64_t free_prefill_tokens = 0;  // prompt tokens that ride on a decode step without making it longer
};

// An engine's rate is per device group; the money of all devices.
struct Money {
  double per_million_input = 0;
  double per_million_output = 0;
  double output_over_input = 0;
  double per_user_hour = 0;  // devices' price / running
};

struct Load {
  double needed_slots = 0;    // Little's law: arrivals x duration
  int64_t ceiling_slots = 0;  // that run at once: total
  int64_t idle_slots = 0;     // for batch work
  double max_qps = 0;         // where the queue starts: ceiling / duration
  double load = 0;            // needed / ceiling
  bool fits = true;
};

struct Evaluation {
  Settings settings;
  Fit fit = Fit::kFits;
  Bytes short_by;  // of one rank, when it does not fit
  BudgetNumbers budget;
  Capacity capacity;
  Limit limit = Limit::kArrivals;
  int64_t running = 0;         // over all replicas
  int64_t waiting = 0;         // of the concurrency
  double experts_touched = 0;  // share of a layer's experts that a decode step reads; 0 = no experts
  Timing timing;
  std::string time_unknown;    // why there is no timing: what cannot be priced; "" = there is
  std::optional<Money> money;  // with a price
  std::optional<Load> load;    // with qps
};

class Stages;  // what scenarios share: layouts, cost models, budgets (evaluate.cc)

// Evaluates scenarios, and remembers what they share (the layout of a model, the cost model of a device, the budget of
// an engine's settings), so that a sweep costs microseconds a point. One thread. Answers do not depend on what was
// asked before.
class Planner {
 public:
  Planner();
  ~Planner();
  Planner(Planner&&) noexcept;
  Planner& operator=(Planner&&) noexcept;

  // A few microseconds when model, device, engine and settings were seen before, tens of them otherwise. Errors are
  // those of check_scenario, of layouts that are not modelled and of budgets that make no sense. What does not fit is
  // an answer.
  Result<Evaluation> evaluate(const Scenario& scenario);

  // What the numbers are made from, for explanations. The views hold until the next call on this planner.
  struct Parts {
    const model::ModelShape* shape = nullptr;  // with the scenario's overrides
    const memory::KvLayout* layout = nullptr;
    const memory::MemoryBudget* budget = nullptr;
    const cost::StepCostModel* cost_model = nullptr;  // null when steps cannot be priced
  };
  Result<Parts> parts(const Scenario& scenario);
  Result<Crossovers> crossovers(const Scenario& scenario);
  // Any step of one replica: mixed chunks and decodes.
  Result<StepAnswer> step(const Scenario& scenario, std::span<const cost::WorkItem> items);

 private:
  std::unique_ptr<Stages> stages_;
};

Result<Evaluation> evaluate(const Scenario& scenario);

// "13 users fit; the 14th waits for memory." The first sentence of every plan.
std::string verdict(const Scenario& scenario, const Evaluation& evaluation);

}  // namespace ullage::plan
