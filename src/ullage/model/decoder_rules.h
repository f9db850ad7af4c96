// Families of decoders that differ in little: what each one's configuration class leaves unsaid, and which keys it
// reads.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ullage/model/config_reader.h"

namespace ullage::model {

// The value of a key, or of the class when the key is absent. Without a key: always that value.
struct FlagRule {
  const char* key = nullptr;
  bool value = false;
};

enum class Windows : uint8_t {
  kNone,     // full attention everywhere
  kAll,      // sliding_window counts on every layer (Mistral, Phi-3)
  kQwen,     // from layer max_window_layers on, or as layer_types says, and only if use_sliding_window
  kPattern,  // as layer_types says, else every full_every-th layer is full and the others slide
};

struct MoeRules {
  const char* num_experts = nullptr;  // key; nullptr = dense
  int64_t default_num_experts = 0;
  const char* num_per_token = "num_experts_per_tok";
  int64_t default_num_per_token = 0;
  const char* width = "moe_intermediate_size";
  int64_t default_width = 0;
  const char* shared_width = nullptr;  // key of the shared experts' width together
  const char* num_shared = nullptr;    // key of their number, each as wide as a routed one
  int64_t default_shared = 0;          // of whichever of the two there is
  int64_t first_dense = 0;             // layers before the first with experts, when no key says
  bool has_shared_gate = false;
  bool has_router_bias = false;
  bool has_bias = false;
};

struct DecoderRules {
  const char* model_type = "";
  const char* architecture = "";  // GGUF's name, or model_type
  ClassDefaults defaults;
  FlagRule qkv_bias = {};
  FlagRule output_bias = {};
  FlagRule ffn_bias = {};
  FlagRule head_bias = {};
  FlagRule qk_norm = {};
  bool qk_norm_spans_heads = false;
  bool has_sinks = false;
  Windows windows = Windows::kNone;
  int64_t default_window = 0;  // when sliding_window is absent; 0 = none
  int64_t full_every = 0;
  double default_theta = 10000.0;
  double local_theta = 0.0;  // over 0: sliding layers rotate with a base of their own (Gemma 3)
  bool is_gated = true;
  NormStyle norm = {};
  FlagRule is_parallel = {};  // mixer and feed-forward side by side behind one norm
  MoeRules moe = {};
};

std::span<const DecoderRules> dense_decoder_rules();
std::span<const DecoderRules> sparse_decoder_rules();
// nullptr when there is none.
const DecoderRules* find_decoder_rules(std::string_view model_type);

}  // namespace ullage::model
