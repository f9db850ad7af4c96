// What a step costs on a device, by the roofline model (Williams, Waterman, Patterson 2009): the bytes it must move,
// the operations it must do, what it must send, and which of them takes longest. One function prices any step, for
// plans and for the modelled executor alike. Tier: modelled, or calibrated with an Efficiency that was fitted.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ullage/base/result.h"
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
  double bandwidth = 1.0;      // of the memory's bandwidth (model bandwidth utilisation)
  double matmul = 1.0;         // of the peak FLOP/s (model FLOP/s utilisation), matrix products
  double attention = 0.0;      // of the peak FLOP/s, attention; 0 = as matmul
  double link = 1.0;           // of the link's bandwidth
  double link_latency = 0.0;   // seconds of one all-reduce beside its bytes
  double step_overhead = 0.0;  // seconds of a step: scheduling, launches, sampling
};

struct StepCostOptions {
  model::KvDType kv_dtype = model::KvDType::kBF16;
  model::Parallelism parallelism = {};
  Efficiency efficiency = {};
  bool is_causal_prefill_masked = true;  // only the lower triangle of a prompt's scores is computed
};

// What the layers of one kind read of the cache.
struct KvTraffic {
  double bytes_per_token = 0;  // read for each token in reach, all such layers together
  double write_bytes = 0;      // written per token of the step
  double fixed_bytes = 0;      // states: read and written per request
  double flops_per_pair = 0;   // per query and key position in reach
  int64_t reach = 0;           // window or chunk or top-k; 0 = everything
  bool is_chunked = false;     // reach starts anew at multiples of itself
};

// Experts of alike layers: how many weights a step touches depends on how many tokens route.
struct ExpertTraffic {
  double bytes_per_expert = 0;  // all such layers together, one rank's part
  double num_experts = 0;       // on this rank
  double num_per_token = 0;     // picked of all ranks' experts
  double total_experts = 0;
};

// The numbers of one rank of a model on a device that a step's cost is made of; made once, a step is then priced in
// well under a microsecond. Plain data; cost/ may add to it.
struct StepCostModel {
  double layer_weight_bytes = 0;       // read in every step: everything but experts, output head, embedding
  double head_weight_bytes = 0;        // read in a step that samples: output head (the embedding, when tied)
  double embedding_row_bytes = 0;      // read per token
  double layer_seconds_per_token = 0;  // of matrix products at peak: sum over formats of FLOPs / FLOP/s
  double layer_flops_per_token = 0;    // 2 * parameters of the matrices a token meets (Kaplan et al. 2020, table 1)
  double head_seconds_per_sample = 0;
  double head_flops_per_sample = 0;  // 2 * vocab_size * hidden_size
  double attention_flops_per_second = 0;
  double bytes_per_second = 0;
  double reduce_bytes_per_token = 0;  // sent by all-reduces and all-to-alls, per token of the step
  double num_reduces = 0;             // in a step
  double link_bytes_per_second = 0;
  Efficiency efficiency = {};
  std::vector<KvTraffic> kv;
  std::vector<ExpertTraffic> experts;
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
  double seconds = 0;  // max(memory, compute) + communication + overhead
  Bound bound = Bound::kMemory;
};

// kUnsupported names what cannot be priced.
Result<StepCostModel> make_step_cost_model(const model::ModelShape& shape, const hardware::Device& device,
                                           const StepCostOptions& options);

// O(items * kinds of layers). An empty step costs nothing. The greatest of pipeline stages' costs is taken for all.
StepCost step_cost(const StepCostModel& model, std::span<const WorkItem> items);

}  // namespace ullage::cost
