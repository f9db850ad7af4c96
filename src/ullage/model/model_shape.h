// What a model is: a list of layers, each with its token mixer and feed-forward. Plain data; readers of config.json and
// GGUF headers make one (model/config.h, model/gguf.h), and plan, engine and executor all stand on it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ullage/model/dtype.h"
#include "ullage/model/kv_spec.h"

namespace ullage::model {

// Which pairs of a head's elements a rotation turns.
enum class RopePairing : uint8_t {
  kHalves,    // (i, i + rotary_dim / 2): Hugging Face checkpoints, GGUF "NEOX" (Qwen)
  kAdjacent,  // (2i, 2i + 1): GGUF "NORM" (Llama; its converter permutes Q and K rows to suit)
};

enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn };

// Rotary position embedding. Su et al. 2021; the scalings as Hugging Face transformers' modeling_rope_utils defines
// them.
struct Rope {
  double theta = 10000.0;
  int64_t rotary_dim = 0;  // elements of a head that turn; head_dim unless partial
  RopePairing pairing = RopePairing::kHalves;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  int64_t original_max_positions = 0;
  double low_freq_factor = 1.0;   // llama3
  double high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0;        // yarn
  double beta_slow = 1.0;         // yarn
  double attention_factor = 0.0;  // yarn; 0 = the paper's 0.1 ln(factor) + 1
  double mscale = 0.0;            // yarn, DeepSeek; 0 = absent
  double mscale_all_dim = 0.0;    // yarn, DeepSeek; 0 = absent
  bool yarn_truncate = true;      // yarn: round the correction range to whole dimensions
};

struct Attention {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  Rope rope;
  bool has_qkv_bias = false;
  bool has_output_bias = false;
  bool has_qk_norm = false;    // RMS norm of each head of Q and K before the rotation (Qwen3)
  int64_t sliding_window = 0;  // 0 = full
  double scale = 0.0;          // of the dot products; 0 = 1/sqrt(head_dim)
};

struct DenseFfn {  // gated: down(silu(gate(x)) * up(x))
  int64_t intermediate_size = 0;
  bool has_bias = false;
};

struct LayerShape {
  std::variant<Attention> mixer;
  std::variant<DenseFfn> ffn;
};

struct ModelShape {
  std::string architecture;  // "llama", "qwen2", "qwen3": GGUF's names
  std::string name;          // as the file says, may be empty
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t max_position_embeddings = 0;
  double norm_eps = 1e-5;
  bool has_tied_embeddings = false;
  DType weight_dtype = DType::kBF16;  // the most common dtype of the matrices
  std::vector<LayerShape> layers;
};

// What a layer keeps in the cache.
KvSpec kv_spec(const LayerShape& layer);

// Parameter counts by role; embeddings counted once when tied.
struct ParameterCounts {
  int64_t embedding = 0;
  int64_t attention = 0;
  int64_t ffn = 0;
  int64_t norms = 0;
  int64_t output_head = 0;  // 0 when tied
  int64_t total() const { return embedding + attention + ffn + norms + output_head; }
};
ParameterCounts count_parameters(const ModelShape& shape);

}  // namespace ullage::model
