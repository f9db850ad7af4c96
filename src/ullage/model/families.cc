#include "ullage/model/families.h"

#include <fmt/format.h>

#include "ullage/base/quote.h"

namespace ullage::model {
namespace {

constexpr Family kFamilies[] = {
    {.model_type = "llama",
     .architecture = "llama",
     .num_kv_heads = 0,
     .head_dim = 0,
     .max_position_embeddings = 2048,
     .always_qkv_bias = false,
     .reads_attention_bias = true,
     .reads_mlp_bias = true,
     .has_qk_norm = false,
     .sliding_by_default = false,
     .has_use_sliding_window = false},
    {.model_type = "mistral",
     .architecture = "llama",
     .num_kv_heads = 8,
     .head_dim = 0,
     .max_position_embeddings = 131072,
     .always_qkv_bias = false,
     .reads_attention_bias = false,
     .reads_mlp_bias = false,
     .has_qk_norm = false,
     .sliding_by_default = true,
     .has_use_sliding_window = false},
    {.model_type = "qwen2",
     .architecture = "qwen2",
     .num_kv_heads = 32,
     .head_dim = 0,
     .max_position_embeddings = 32768,
     .always_qkv_bias = true,
     .reads_attention_bias = false,
     .reads_mlp_bias = false,
     .has_qk_norm = false,
     .sliding_by_default = false,
     .has_use_sliding_window = true},
    {.model_type = "qwen3",
     .architecture = "qwen3",
     .num_kv_heads = 32,
     .head_dim = 128,
     .max_position_embeddings = 32768,
     .always_qkv_bias = false,
     .reads_attention_bias = true,
     .reads_mlp_bias = false,
     .has_qk_norm = true,
     .sliding_by_default = false,
     .has_use_sliding_window = true},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (model_type == family.model_type) return &family;
  }
  return nullptr;
}

Error unsupported_architecture(std::string_view found, std::string_view where) {
  return Error{
      ErrorCode::kUnsupported,
      fmt::format("the architecture {} is not supported; supported are llama (Llama 2 and 3, SmolLM2), mistral "
                  "(in GGUF: llama), qwen2 (Qwen2, Qwen2.5) and qwen3 (dense)",
                  quote(found)),
      std::string(where)};
}

}  // namespace ullage::model
