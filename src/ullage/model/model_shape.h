// What a model is: a list of layers, each with its token mixer and feed-forward. Plain data; readers of config.json and
// GGUF headers make one (model/config.h, model/gguf.h), and plan, engine and executor all stand on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/model/dtype.h"
#include "ullage/model/kv_spec.h"
#include "ullage/model/quantization.h"
#include "ullage/model/weight_matrix.h"

namespace ullage::model {

// Which pairs of a head's elements a rotation turns.
enum class RopePairing : uint8_t {
  kHalves,    // (i, i + rotary_dim / 2): Hugging Face checkpoints, GGUF "NEOX" (Qwen)
  kAdjacent,  // (2i, 2i + 1): GGUF "NORM" (Llama; its converter permutes Q and K rows to suit)
};

enum class RopeScaling : uint8_t {
  kNone,
  kLinear,
  kLlama3,
  kYarn,
  kOther,  // one that cpu/ does not run (longrope, dynamic, mrope): it changes no size
};

// Rotary position embedding. Su et al. 2021; the scalings as Hugging Face transformers' modeling_rope_utils defines
// them.
struct Rope {
  double theta = 10000.0;
  int64_t rotary_dim = 0;  // elements of a head that turn; head_dim unless partial; 0 = none (NoPE, ALiBi, learned)
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

// Softmax attention over keys and values of heads: MHA, GQA, MQA; full, over a window, or within chunks.
struct Attention {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;   // of queries and keys
  int64_t value_dim = 0;  // of values; 0 = head_dim
  Rope rope;
  bool has_qkv_bias = false;
  bool has_key_bias = true;  // false with has_qkv_bias: of Q and V only (Whisper)
  bool has_output_bias = false;
  bool has_qk_norm = false;          // RMS norm of each head of Q and K before the rotation (Qwen3)
  bool qk_norm_spans_heads = false;  // with has_qk_norm: weights for every head's elements (OLMo 2, MiniMax M2)
  bool has_output_gate = false;      // Q is projected twice as wide, half of it gates the output (Qwen3-Next)
  int64_t gate_dim = 0;              // outputs of a projection that gates the heads (Step 3.5: num_heads); 0 = none
  bool has_value_projection = true;  // false: values are the keys before their rotation (Gemma 4's global layers)
  bool has_sinks = false;            // one learned logit a head (gpt-oss)
  int64_t sliding_window = 0;        // 0 = full
  int64_t chunk = 0;                 // chunked local attention (Llama 4); 0 = none. Not both
  int64_t kv_source_layer = -1;      // reads this layer's keys and values and has no own (Gemma 3n); -1 = own
  double scale = 0.0;                // of the dot products; 0 = 1/sqrt(head_dim)
  int64_t max_encoder_len = 0;       // of cross-attention: tokens of the encoder's output at most
};

// Picks the tokens that sparse attention reads; keeps a key of its own per token (DeepSeek V3.2's lightning indexer).
struct SparseIndexer {
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  int64_t top_k = 0;       // tokens read at most
  bool is_shared = false;  // takes the tokens that an earlier layer's picked, and keeps nothing (GLM-5.2)
  friend bool operator==(const SparseIndexer&, const SparseIndexer&) = default;
};

// Multi-head latent attention: DeepSeek-AI 2024 (V2), section 2.1. The cache holds kv_lora_rank + qk_rope_head_dim
// elements a token.
struct LatentAttention {
  int64_t num_heads = 0;
  int64_t q_lora_rank = 0;  // 0 = queries are projected directly
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t v_head_dim = 0;
  std::optional<SparseIndexer> indexer;
};

// Linear attention with a state of [num_value_heads, key_head_dim, value_head_dim]: gated delta rule (Qwen3-Next,
// Qwen3.5), Kimi Delta Attention, lightning attention (MiniMax-Text-01). A short convolution of `conv_kernel` runs over
// Q, K and V, except for lightning's (0). kShortConvolution (LFM2) is that alone, over value_head_dim channels.
struct LinearAttention {
  enum class Kind : uint8_t { kGatedDelta, kKimiDelta, kLightning, kShortConvolution };
  Kind kind = Kind::kGatedDelta;
  int64_t num_key_heads = 0;
  int64_t num_value_heads = 0;
  int64_t key_head_dim = 0;
  int64_t value_head_dim = 0;
  int64_t conv_kernel = 0;
  DType state_dtype = DType::kF32;
};

// Selective state space: Mamba 1 (Gu, Dao 2023; num_heads = 0) and Mamba 2 (Dao, Gu 2024).
struct StateSpace {
  int64_t inner_size = 0;
  int64_t num_heads = 0;   // Mamba 2; 0 = Mamba 1
  int64_t head_dim = 0;    // Mamba 2
  int64_t num_groups = 1;  // Mamba 2: of B and C
  int64_t state_size = 0;
  int64_t conv_kernel = 0;
  int64_t time_step_rank = 0;  // Mamba 1
  bool has_conv_bias = true;
  bool has_gate_norm = true;  // Mamba 2: an RMS norm of the gated output
  bool has_projection_bias = false;
  DType state_dtype = DType::kF32;
};

struct NoMixer {};  // a layer of feed-forward alone (Nemotron-H)

struct DenseFfn {  // gated: down(act(gate(x)) * up(x)); otherwise down(act(up(x)))
  int64_t intermediate_size = 0;
  bool has_bias = false;
  bool is_gated = true;
};

// Mixture of experts: a router picks num_experts_per_token of num_experts for each token; shared experts see every one.
struct MoeFfn {
  int64_t num_experts = 0;
  int64_t num_experts_per_token = 0;
  int64_t intermediate_size = 0;         // of one expert
  int64_t shared_intermediate_size = 0;  // of all shared experts together; 0 = none
  int64_t dense_intermediate_size = 0;   // of a dense feed-forward beside the experts (Gemma 4); 0 = none
  int64_t latent_size = 0;  // experts work in this width, projected there and back (Nemotron 3); 0 = hidden
  bool has_shared_expert_gate = false;
  bool has_bias = false;         // of the experts' matrices
  bool has_shared_bias = false;  // of the shared experts'
  bool has_router_bias = false;  // bias, or correction bias
  bool is_gated = true;
};

struct NoFfn {};  // a layer of mixer alone (Mamba, Nemotron-H)

struct LayerShape {
  std::variant<Attention, LatentAttention, LinearAttention, StateSpace, NoMixer> mixer;
  std::variant<DenseFfn, MoeFfn, NoFfn> ffn;
  std::optional<StateSpace> parallel_state_space = std::nullopt;  // beside the attention (Falcon-H1)
  std::optional<Attention> cross_attention = std::nullopt;        // over the encoder's output (Whisper, T5)
};

// The norms of a layer's blocks, and of the model's end. A block is a layer's mixer or its feed-forward.
struct NormStyle {
  int64_t num_per_block = 1;  // 2 = before and after it (Gemma 2)
  bool is_shared = false;     // mixer and feed-forward run side by side behind one norm (Falcon-7B, Cohere)
  bool has_weight = true;     // false: nothing learned (OLMo 1)
  bool has_bias = false;      // LayerNorm with a bias (GPT-2)
  bool has_final = true;      // one behind the last layer
};

struct ModelShape {
  std::string architecture;  // "llama", "qwen2", "qwen3": GGUF's names; config.json's model_type where GGUF has none
  std::string name;          // as the file says, may be empty
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t max_position_embeddings = 0;
  double norm_eps = 1e-5;
  bool has_tied_embeddings = false;
  bool has_output_head_bias = false;
  NormStyle norm;
  DType weight_dtype = DType::kBF16;  // the most common dtype of the matrices that are not quantised
  std::vector<LayerShape> layers;

  // Layers that draft tokens (MTP, EAGLE heads); loaded only with speculative decoding.
  std::vector<LayerShape> draft_layers;
  int64_t max_encoder_len = 0;  // tokens of the encoder's output at most; 0 = no encoder
  Quantization quantization;    // of the checkpoint (model/quantization.h)
  // Matrices outside the language model's layers: vision and audio towers, projectors, an encoder, per-layer
  // embeddings. Their `layer` is -1.
  std::vector<WeightMatrix> other_weights;

  // Why cpu/ cannot run the model, where only its file tells (an activation, a rotation); see model/servable.h.
  std::optional<Error> unservable;
};

// What a layer keeps in the cache: its specs in a fixed order (attention or state first, then the indexer's, a parallel
// state's, cross-attention's); {NoKv} when nothing.
std::vector<KvSpec> kv_specs(const LayerShape& layer);
// Of a layer that keeps one thing. REQUIRES: kv_specs(layer).size() == 1.
KvSpec kv_spec(const LayerShape& layer);

// Every matrix and vector of the model, in order: embedding, layers, draft layers, other weights, output head. The one
// list that parameter counts, weight bytes, their division over ranks, and a step's FLOPs and bytes are made from. Tied
// embeddings appear once. Alike experts are one entry with `count`.
std::vector<WeightMatrix> weight_matrices(const ModelShape& shape);

// Parameter counts by role; embeddings counted once when tied; draft layers and other weights apart.
struct ParameterCounts {
  int64_t embedding = 0;
  int64_t attention = 0;
  int64_t ffn = 0;
  int64_t norms = 0;
  int64_t output_head = 0;  // 0 when tied
  int64_t draft = 0;        // not in total()
  int64_t other = 0;        // towers and the like
  int64_t total() const { return embedding + attention + ffn + norms + output_head + other; }
};
ParameterCounts count_parameters(const ModelShape& shape);

}  // namespace ullage::model
