// Multi-head latent attention: DeepSeek V2, V3, V3.2, Kimi K2, GLM-5, GLM-4.7-Flash; with a sparse indexer where the
// file describes one.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ullage/base/quote.h"
#include "ullage/model/config_decoder.h"
#include "ullage/model/config_readers.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {
namespace {

struct LatentRules {
  const char* model_type;
  const char* architecture;
  ClassDefaults defaults;
  int64_t q_lora_rank;  // when absent; null = none
  int64_t kv_lora_rank;
  int64_t qk_nope_head_dim;
  int64_t v_head_dim;
  int64_t num_experts;  // when absent
  int64_t num_shared;
  int64_t num_per_token;
  int64_t moe_intermediate_size;
  int64_t first_dense;
  bool has_router_bias;  // the correction bias of topk_method "noaux_tc"
};
constexpr ClassDefaults kV3{129280, 7168, 18432, 61, 128, 0, 0, 4096};
constexpr ClassDefaults kV32{129280, 7168, 18432, 61, 128, 0, 0, 163840};
constexpr LatentRules kRules[] = {
    {"deepseek_v2",
     "deepseek2",
     {102400, 4096, 11008, 32, 32, 0, 0, 2048},
     1536,
     512,
     128,
     128,
     64,
     2,
     0,
     1407,
     0,
     false},
    {"deepseek_v3", "deepseek2", kV3, 1536, 512, 128, 128, 256, 1, 8, 2048, 3, true},
    {"kimi_k2", "deepseek2", kV3, 1536, 512, 128, 128, 256, 1, 8, 2048, 3, true},
    {"deepseek_v32", "deepseek32", kV32, 1536, 512, 128, 128, 256, 1, 8, 2048, 3, true},
    {"glm_moe_dsa",
     "glm-dsa",
     {154880, 6144, 12288, 78, 64, 0, 0, 202752},
     2048,
     512,
     192,
     256,
     256,
     1,
     8,
     2048,
     3,
     true},
    {"glm4_moe_lite",
     "deepseek2",
     {154880, 2048, 10240, 47, 20, 0, 0, 202752},
     768,
     512,
     192,
     256,
     64,
     1,
     4,
     1536,
     1,
     true},
};

Result<LatentAttention> read_latent(const ConfigFields& text, const LatentRules& rules) {
  LatentAttention a;
  ULLAGE_TRY(a.num_heads, text.required("num_attention_heads", kMaxHeads, rules.defaults.num_heads));
  if (!text.states("q_lora_rank")) {
    a.q_lora_rank = rules.q_lora_rank;
  } else {
    ULLAGE_TRY(a.q_lora_rank, text.count("q_lora_rank", 0, kMaxHiddenSize));
  }
  ULLAGE_TRY(a.kv_lora_rank, text.size("kv_lora_rank", rules.kv_lora_rank, kMaxHiddenSize));
  ULLAGE_TRY(a.qk_nope_head_dim, text.size("qk_nope_head_dim", rules.qk_nope_head_dim, kMaxHeadDim));
  ULLAGE_TRY(a.qk_rope_head_dim, text.size("qk_rope_head_dim", 64, kMaxHeadDim));
  ULLAGE_TRY(a.v_head_dim, text.size("v_head_dim", rules.v_head_dim, kMaxHeadDim));
  return a;
}

// DeepSeek V3.2's lightning indexer; the file without index_topk has none.
Result<void> read_indexer(const ConfigFields& text, bool has_default, LatentAttention& a) {
  if (!has_default && !text.has("index_topk")) return {};
  SparseIndexer indexer;
  ULLAGE_TRY(indexer.top_k, text.size("index_topk", 2048, kMaxPositions));
  ULLAGE_TRY(indexer.num_heads, text.size("index_n_heads", 64, kMaxHeads));
  ULLAGE_TRY(indexer.head_dim, text.size("index_head_dim", 128, kMaxHeadDim));
  a.indexer = indexer;
  return {};
}

Result<MoeFfn> read_experts(const ConfigFields& text, const LatentRules& rules) {
  MoeFfn ffn;
  ULLAGE_TRY(ffn.num_experts, text.required("n_routed_experts", kMaxExperts, rules.num_experts));
  ULLAGE_TRY(ffn.num_experts_per_token, text.required("num_experts_per_tok", kMaxExperts, rules.num_per_token));
  ULLAGE_TRY(ffn.intermediate_size,
             text.required("moe_intermediate_size", kMaxIntermediateSize, rules.moe_intermediate_size));
  ULLAGE_TRY(const int64_t num_shared,
             text.count("n_shared_experts", text.states("n_shared_experts") ? 0 : rules.num_shared, kMaxExperts));
  ffn.shared_intermediate_size = num_shared * ffn.intermediate_size;
  ULLAGE_TRY(const std::string method, text.text("topk_method", rules.has_router_bias ? "noaux_tc" : "greedy"));
  ffn.has_router_bias = method == "noaux_tc";
  if (ffn.num_experts_per_token <= ffn.num_experts) return ffn;
  return text.invalid(
      fmt::format("{} experts a token are more than the layer's {}", ffn.num_experts_per_token, ffn.num_experts),
      "num_experts_per_tok");
}

// Layers that take another layer's choice of tokens (GLM-5.2).
Result<std::vector<bool>> read_shared_indexers(const ConfigFields& text, int64_t num_layers) {
  std::vector<bool> shared(static_cast<size_t>(num_layers), false);
  if (!text.has("indexer_types")) return shared;
  ULLAGE_TRY(const std::vector<std::string> types, text.texts("indexer_types", num_layers));
  for (size_t i = 0; i < shared.size(); ++i) {
    if (types[i] != "full" && types[i] != "shared") {
      return text.unsupported(fmt::format("the indexer type {} is not supported; full and shared are", quote(types[i])),
                              fmt::format("indexer_types/{}", i));
    }
    shared[i] = types[i] == "shared";
  }
  return shared;
}

}  // namespace

Result<void> read_latent_decoder(const ConfigSource& source, ModelShape& shape) {
  const LatentRules* found = nullptr;
  for (const LatentRules& row : kRules) {
    if (source.model_type == row.model_type) found = &row;
  }
  if (found == nullptr) return source.text.unsupported("is not a model with latent attention", "model_type");
  const LatentRules& rules = *found;
  const ConfigFields& text = source.text;
  shape.architecture = rules.architecture;
  ULLAGE_TRY(const int64_t num_layers, read_common(source, rules.defaults, shape));
  ULLAGE_TRY(LatentAttention attention, read_latent(text, rules));
  const bool has_indexer = source.model_type == "deepseek_v32" || source.model_type == "glm_moe_dsa";
  ULLAGE_TRY_VOID(read_indexer(text, has_indexer, attention));
  ULLAGE_TRY(const std::vector<bool> shared, read_shared_indexers(text, num_layers));
  ULLAGE_TRY(const std::vector<bool> sparse, read_sparse_layers(text, rules.first_dense, num_layers));
  ULLAGE_TRY(const MoeFfn experts, read_experts(text, rules));
  DenseFfn dense;
  ULLAGE_TRY(dense.intermediate_size,
             text.required("intermediate_size", kMaxIntermediateSize, rules.defaults.intermediate_size));
  shape.layers.reserve(static_cast<size_t>(num_layers));
  for (size_t i = 0; i < sparse.size(); ++i) {
    LayerShape layer{attention, dense};
    if (sparse[i]) layer.ffn = experts;
    auto& latent = std::get<LatentAttention>(layer.mixer);
    if (latent.indexer) latent.indexer->is_shared = shared[i];
    shape.layers.push_back(layer);
  }
  ULLAGE_TRY_VOID(read_draft_layers(source, shape));
  for (LayerShape& layer : shape.draft_layers) {
    auto& latent = std::get<LatentAttention>(layer.mixer);
    if (latent.indexer) latent.indexer->is_shared = false;
  }
  return {};
}

}  // namespace ullage::model
