// What a step costs on a device, by the roofline model (Williams, Waterman, Patterson 2009): the bytes it must move,
// the operations it must do, what it must send, and which of them takes longest. One function prices any step, for
// plans and for the modelled executor alike. Tier: modelled, or calibrated with an Efficiency that was fitted
// (cost/efficiency.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/cost/model_costs.h"
#include "ullage/hardware/device.h"
#include "ullage/model/kv_dtype.h"
#include "ullage/model/model_shape.h"
#include "ullage/model/parallelism.h"

namespace ullage::cost {

// One request's share of a step, or that of `count` alike requests.
struct WorkItem {
  int64_t first_position = 0;
  int64_t num_tokens = 0;
  bool is_sampled = false;  // the output head runs for its last token
  int64_t count = 1;
};

// The share of a device's peaks that is reached, and what a step takes beside. All 1 and 0: the roofline itself.
struct Efficiency {
  double bandwidth = 1.0;         // of the memory's bandwidth (model bandwidth utilisation)
  double matmul = 1.0;            // of the peak FLOP/s (model FLOP/s utilisation), matrix products
  double attention = 0.0;         // of the peak FLOP/s, attention; 0 = as matmul
  double kv_bandwidth = 0.0;      // of the memory's bandwidth, reading keys and values; 0 = as bandwidth
  double expert_bandwidth = 0.0;  // of the memory's bandwidth, reading routed experts; 0 = as bandwidth
  double expert_matmul = 0.0;     // of the peak FLOP/s, routed experts; 0 = as matmul
  double link = 1.0;              // of the link's bandwidth
  double link_latency = 0.0;      // seconds of one all-reduce beside its bytes
  double layer_overhead = 0.0;    // seconds of a layer: kernels that start one after another
  double step_overhead = 0.0;     // seconds of a step: scheduling, launches, sampling
  // Kernels run one after another, so each kind (matrices of one format, experts, attention of one kind, output head)
  // takes the longer of its bytes and its FLOPs, and these add up. false: bytes of one overlap with FLOPs of another,
  // the roofline of the whole step.
  bool has_serial_kernels = false;
  friend bool operator==(const Efficiency&, const Efficiency&) = default;
};

// With every 0 that stands for another field's value replaced by it.
Efficiency resolved(Efficiency efficiency);

struct StepCostOptions {
  model::KvDType kv_dtype = model::KvDType::kBF16;
  model::Parallelism parallelism = {};
  Efficiency efficiency = {};
  bool is_causal_prefill_masked = true;  // only the lower triangle of a prompt's scores is computed
  // The textbook's accounting: every step reads every parameter and multiplies each token with it, at the FLOP/s of
  // bf16, embedding and output head included. (2 * parameters * tokens.)
  bool counts_all_parameters = false;
};

// Matrices that multiply in one format, on one rank.
struct LinearTraffic {
  double weight_bytes = 0;      // read in every step
  double flops_per_token = 0;   // 2 * parameters of the matrices a token meets (Kaplan et al. 2020, table 1)
  double flops_per_second = 0;  // peak of the format
};

// What the layers of one kind do with the cache, all together, on one rank.
struct KvTraffic {
  double bytes_per_token = 0;         // read for each token in reach
  double write_bytes = 0;             // written per token of the step
  double fixed_read_bytes = 0;        // per request: states, an encoder's keys and values
  double fixed_write_bytes = 0;       // per request: states
  double flops_per_pair = 0;          // per query and key position in reach
  double prefill_flops_per_pair = 0;  // when a request has several tokens in the step (MLA expands the latent then)
  double prefill_flops_per_past = 0;  // and per token of its past (MLA's expansion)
  double flops_per_token = 0;         // whatever the past (states, an encoder's output)
  double flops_per_second = 0;        // peak of the format it computes in
  int64_t reach = 0;                  // window or chunk or top-k; 0 = everything
  bool is_chunked = false;            // reach starts anew at multiples of itself
  bool is_sparse = false;             // reach is the best `reach` tokens of all, each query's own
};

// Experts of alike layers: how many weights a step touches depends on how many tokens route.
struct ExpertTraffic {
  double bytes_per_expert = 0;  // all such layers together, one rank's part
  double num_experts = 0;       // on this rank
  double num_per_token = 0;     // picked of all ranks' experts
  double total_experts = 0;     // of one layer, over all ranks
  double flops_per_pick = 0;    // of one token in one expert, all such layers, one rank's part
  double flops_per_second = 0;  // peak of the format
};

// The numbers of one rank of a model on a device that a step's cost is made of; made once, a step is then priced in
// well under a microsecond. Plain data.
struct StepCostModel {
  double layer_weight_bytes = 0;       // read in every step: everything but experts, output head, embedding
  double head_weight_bytes = 0;        // read in a step that samples: output head (the embedding, when tied)
  double embedding_row_bytes = 0;      // read per token
  double layer_flops_per_token = 0;    // all of `linear`
  double layer_seconds_per_token = 0;  // of those at the formats' peaks
  double head_flops_per_sample = 0;    // 2 * vocab_size * hidden_size, one rank's part
  double head_flops_per_second = 0;    // peak of the head's format
  double attention_flops_per_second = 0;
  double bytes_per_second = 0;        // the memory's peak
  double num_layers = 0;              // of the stage
  double reduce_bytes_per_token = 0;  // sent by all-reduces and all-to-alls, per token of the step
  double num_reduces = 0;             // in a step
  double hop_bytes_per_token = 0;     // to the next pipeline stage
  double num_stages = 1;
  double num_replicas = 1;  // of data parallelism, whose tokens meet in the experts
  double link_bytes_per_second = 0;
  bool is_causal_prefill_masked = true;
  Efficiency efficiency = {};  // resolved()
  std::vector<LinearTraffic> linear = {};
  std::vector<KvTraffic> kv = {};
  std::vector<ExpertTraffic> experts = {};
};

enum class Bound : uint8_t { kMemory, kCompute, kCommunication, kOverhead };

struct StepCost {
  // One rank.
  double weight_bytes = 0;
  double kv_read_bytes = 0;
  double kv_write_bytes = 0;
  double linear_flops = 0;
  double attention_flops = 0;
  double communication_bytes = 0;
  double memory_seconds = 0;
  double compute_seconds = 0;
  double communication_seconds = 0;
  double overhead_seconds = 0;
  double peak_memory_seconds = 0;   // the same bytes at the memory's peak
  double peak_compute_seconds = 0;  // the same FLOPs at the formats' peaks
  // max(memory, compute) + communication + overhead; with serial kernels the sum of each kind's max. Of the slowest
  // pipeline stage: how often a step can start.
  double seconds = 0;
  double latency_seconds = 0;    // until its tokens are out: all stages and hops; = seconds without pipeline
  Bound bound = Bound::kMemory;  // the longest of the four
};

// kInvalidArgument when the device lacks the figures that are needed, or ranks and the model do not go together.
Result<StepCostModel> make_step_cost_model(const ModelCosts& costs, const hardware::Device& device,
                                           const StepCostOptions& options);
Result<StepCostModel> make_step_cost_model(const model::ModelShape& shape, const hardware::Device& device,
                                           const StepCostOptions& options);

// O(items * kinds of layers). An empty step costs nothing. The greatest of pipeline stages' costs is taken for all.
// REQUIRES: first_position, num_tokens and count are not negative.
StepCost step_cost(const StepCostModel& model, std::span<const WorkItem> items);

// Distinct experts that `num_tokens` tokens meet when each picks `num_per_token` of `num_experts` evenly:
// E (1 - (1 - k/E)^n).
double expected_experts(double num_experts, double num_per_token, int64_t num_tokens);

}  // namespace ullage::cost
