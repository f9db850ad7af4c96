// The model families that Ullage runs, and what each leaves unsaid in its files.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ullage/base/result.h"

namespace ullage::model {

// Defaults are those of the family's configuration class in Hugging Face transformers.
struct Family {
  const char* model_type;    // config.json
  const char* architecture;  // GGUF's general.architecture, and ModelShape::architecture
  int64_t num_kv_heads;      // when the key is absent; 0 = num_attention_heads
  int64_t head_dim;          // when absent; 0 = hidden_size / num_attention_heads
  int64_t max_position_embeddings;
  bool always_qkv_bias;  // whatever attention_bias says
  bool reads_attention_bias;
  bool reads_mlp_bias;
  bool has_qk_norm;
  bool sliding_by_default;      // sliding_window counts on every layer, and is 4096 when absent (Mistral)
  bool has_use_sliding_window;  // sliding_window counts from layer max_window_layers on, and only if use_sliding_window
};

std::span<const Family> families();
// nullptr when there is none.
const Family* find_family(std::string_view model_type);
// kUnsupported: names what was found and lists what is supported.
Error unsupported_architecture(std::string_view found, std::string_view where);

}  // namespace ullage::model
