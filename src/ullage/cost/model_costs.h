// A model's layers collapsed into kinds: what a step's cost is made from before device, dtypes and ranks are known.
// Made once per model, so that a cost model for each device and division costs microseconds.
#pragma once

#include <cstdint>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/model/model_shape.h"

namespace ullage::cost {

// What one mixer does beside its matrices.
struct MixerWork {
  enum class Kind : uint8_t {
    kHeads,    // keys and values of heads
    kLatent,   // MLA
    kIndexer,  // scores every past token with few narrow heads
    kState,    // linear attention, state space
    kCross,    // keys and values of an encoder's output
  };
  Kind kind = Kind::kHeads;
  int64_t num_heads = 0;  // of queries; kState: that ranks divide
  int64_t num_kv_heads = 0;
  int64_t key_dim = 0;      // kLatent: of the latent; kIndexer: head_dim
  int64_t value_dim = 0;    // kLatent: of an expanded value head
  int64_t rope_dim = 0;     // kLatent
  int64_t nope_dim = 0;     // kLatent: of an expanded key head without its rotated part
  int64_t reach = 0;        // window, chunk, top-k; 0 = everything
  int64_t encoder_len = 0;  // kCross
  double state_bytes = 0;   // kState: of a head's state
  double conv_bytes = 0;    // kState: of the convolution's past inputs, all heads
  double state_flops = 0;   // kState: per token and head
  bool is_chunked = false;
  bool is_sparse = false;
  bool has_own_kv = true;  // false: reads another layer's
  friend bool operator==(const MixerWork&, const MixerWork&) = default;
};

struct LayerKind {
  int64_t num_layers = 0;
  std::vector<model::WeightMatrix> matrices;  // without layer; a name only where ranks cut it by its name
  std::vector<MixerWork> mixers;
  int64_t num_reduces = 0;  // sums over ranks under tensor parallelism
  int64_t num_experts = 0;  // of a layer; 0 = no experts
  int64_t num_experts_per_token = 0;
};

struct ModelCosts {
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;
  bool is_f32 = false;  // attention computes in fp32
  std::vector<LayerKind> kinds;
  std::vector<uint16_t> kind_of_layer;  // [num_layers]
  model::WeightMatrix embedding;
  model::WeightMatrix head;  // the embedding, when tied
  bool has_own_head = false;
  std::vector<model::WeightMatrix> once;  // of the last stage: the final norm
};

// kUnsupported names what cannot be priced.
Result<ModelCosts> make_model_costs(const model::ModelShape& shape);

}  // namespace ullage::cost
