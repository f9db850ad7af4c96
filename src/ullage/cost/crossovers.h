// What follows from a step's cost: shares, duties, and the points where another part begins to bind. Pure functions of
// a StepCostModel; all of them price steps with step_cost.
#pragma once

#include <cstdint>
#include <span>

#include "ullage/cost/step_cost.h"

namespace ullage::cost {

// What binds, and how many times longer it takes than the next (1 or more; 0 for an empty step).
struct Binding {
  Bound bound = Bound::kMemory;
  Bound next = Bound::kCompute;
  double margin = 0;
};
Binding binding(const StepCost& cost);

double flops_per_byte(const StepCost& cost);  // arithmetic intensity; 0 for an empty step
double weight_share(const StepCost& cost);    // of the bytes moved
double kv_share(const StepCost& cost);        // of the bytes moved
// What DCGM's DRAM_ACTIVE and TENSOR_ACTIVE gauges would show over such steps: bytes and FLOPs at peak over the time.
double dram_duty(const StepCost& cost);
double tensor_duty(const StepCost& cost);
// Model bandwidth utilisation: bytes / (peak bandwidth x time). Of a measured time, for comparison: mbu_at().
double mbu_at(const StepCost& cost, double measured_seconds);

// The device's ridge for its matrices' main format: FLOP a byte above which a kernel is compute-bound.
double ridge_flops_per_byte(const StepCostModel& model);
// The same with the efficiencies that are reached.
double reached_ridge_flops_per_byte(const StepCostModel& model);

// Decoding a batch of alike requests, each with `context` tokens, the new one included.
StepCost decode_cost(const StepCostModel& model, int64_t batch, int64_t context);
// A whole prompt in one step.
StepCost prefill_cost(const StepCostModel& model, int64_t prompt_tokens);

// Context of each of `batch` requests at which a decode step moves as many bytes of keys and values as of weights; a
// fraction of a token where it falls between two. 0 = never (no cache that grows so far).
double kv_outweighs_weights_tokens(const StepCostModel& model, int64_t batch);
// The smallest batch whose decode step at `context` takes longer to compute than to read; 0 = none up to 2^20.
int64_t compute_bound_batch(const StepCostModel& model, int64_t context);
// The shortest prompt that takes longer to compute than to read; shorter ones are bandwidth-bound. 0 = none up to 2^24.
int64_t compute_bound_prompt(const StepCostModel& model);
// Prompt tokens whose FLOPs fit in the time that the step of `decodes` spends reading: they ride free. With the decodes
// themselves they are what max_num_batched_tokens should be. `first_position` is where the chunk starts.
int64_t free_prefill_tokens(const StepCostModel& model, std::span<const WorkItem> decodes, int64_t first_position = 0,
                            bool ignores_attention = false);

// A prefix that was evicted: load it back over a link, or compute it again.
struct Reload {
  double reload_seconds = 0;
  double recompute_seconds = 0;
  double bytes = 0;  // of one rank
};
Reload reload(const StepCostModel& model, int64_t prefix_tokens, double link_bytes_per_second, double link_latency);
// The shortest prefix that loads faster than it computes; 0 = none up to `limit`.
int64_t reload_break_even_tokens(const StepCostModel& model, double link_bytes_per_second, double link_latency,
                                 int64_t limit = int64_t{1} << 24);

// Bytes that one request of `tokens` tokens has in the cache on one rank: windows capped, states included.
double request_cache_bytes(const StepCostModel& model, int64_t tokens);

}  // namespace ullage::cost
