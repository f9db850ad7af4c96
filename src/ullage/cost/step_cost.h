// What a step costs on a device, by the roofline model (Williams, Waterman, Patterson 2009): the bytes it must move,
// the operations it must do, and the slower of the two. Tier: modelled. No launch overheads, no communication.
#pragma once

#include <cstdint>
#include <span>

#include "ullage/base/result.h"
#include "ullage/hardware/device.h"
#include "ullage/model/dtype.h"
#include "ullage/model/model_shape.h"

namespace ullage::cost {

// One request's share of a step.
struct WorkItem {
  int64_t first_position = 0;
  int64_t num_tokens = 0;
  bool is_sampled = false;  // the output head runs for its last token
};

// The numbers of a model on a device that a step's cost is made of; computed once.
struct StepCostModel {
  double layer_weight_bytes = 0;        // read in every step: attention, feed-forward, norms
  double head_weight_bytes = 0;         // read in a step that samples: output head (the embedding, when tied)
  double embedding_row_bytes = 0;       // read per token
  double kv_bytes_per_token = 0;        // over all layers
  double layer_flops_per_token = 0;     // 2 * parameters of the matrices (Kaplan et al. 2020, table 1)
  double head_flops_per_sample = 0;     // 2 * vocab_size * hidden_size
  double attention_flops_per_pair = 0;  // per query and key position: 2 products of 2 * num_heads * head_dim, per layer
  double flops_per_second = 0;
  double bytes_per_second = 0;
};

enum class Bound : uint8_t { kMemory, kCompute };

struct StepCost {
  double weight_bytes = 0;
  double kv_read_bytes = 0;
  double kv_write_bytes = 0;
  double linear_flops = 0;
  double attention_flops = 0;
  double memory_seconds = 0;
  double compute_seconds = 0;
  double seconds = 0;  // the greater of the two
  Bound bound = Bound::kMemory;
};

// kUnsupported when the layers keep anything but full-attention KV. Quantised weights are read as stored and computed
// in bf16; F32 weights are computed in fp32.
Result<StepCostModel> make_step_cost_model(const model::ModelShape& shape, const hardware::Device& device,
                                           model::DType weight_dtype, model::DType kv_dtype);

// O(items). An empty step costs nothing.
StepCost step_cost(const StepCostModel& model, std::span<const WorkItem> items);

}  // namespace ullage::cost
