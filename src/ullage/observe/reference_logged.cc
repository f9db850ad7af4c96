#include "ullage/observe/reference_logged.h"

#include <algorithm>

namespace ullage::observe {
namespace {

bool has_latent(std::span<const memory::KvLayers> layers) {
  return std::any_of(layers.begin(), layers.end(),
                     [](const memory::KvLayers& kv) { return std::holds_alternative<model::LatentKv>(kv.spec); });
}

bool has_states(std::span<const memory::KvLayers> layers) {
  return std::any_of(layers.begin(), layers.end(),
                     [](const memory::KvLayers& kv) { return std::holds_alternative<model::RecurrentState>(kv.spec); });
}

// A draft model of EAGLE's has layers of full attention like the model's.
void add_eagle(std::vector<memory::KvLayers>& layers, int64_t count) {
  for (memory::KvLayers& kv : layers) {
    if (!std::holds_alternative<model::FullAttentionKv>(kv.spec)) continue;
    kv.num_layers += count;
    return;
  }
}

}  // namespace

Result<LoggedLayout> layout_of(const model::ModelShape& shape, const LoggedStart& start) {
  std::vector<memory::KvLayers> layers = memory::distinct_kv_layers(shape, start.has_draft_layers);
  if (start.eagle_layers > 0) add_eagle(layers, start.eagle_layers);
  const memory::VllmLayoutRules& rules =
      memory::vllm_layout_rules(start.is_v0 && start.version.empty() ? "0.7" : start.version);
  memory::KvLayoutOptions options;
  options.kv_dtype = start.kv_dtype;
  options.tensor_parallel = start.tensor_parallel;
  options.num_speculative_tokens = start.num_speculative_tokens;
  options.with_draft = start.has_draft_layers;
  options.block_size = start.block_size > 0 ? start.block_size : start.is_sglang ? 1 : 16;
  options.has_prefix_caching =
      start.has_prefix_caching.value_or(has_states(layers) ? rules.caches_hybrid_prefixes : true);
  if (start.is_sglang) {
    options.is_hybrid_disabled = true;  // windows have a pool of their own, which logs print apart
  } else {
    memory::apply(rules, has_latent(layers), options);
  }
  LoggedLayout logged;
  if (start.pipeline_parallel > 1) {
    ULLAGE_TRY(logged.layout, memory::make_kv_layout(shape, options));
    const std::vector<int64_t> stages = memory::stage_bytes_per_block(logged.layout, shape, start.pipeline_parallel);
    logged.bytes_per_block = *std::max_element(stages.begin(), stages.end());
  } else {
    ULLAGE_TRY(logged.layout, memory::make_kv_layout(layers, options));
    logged.bytes_per_block = logged.layout.bytes_per_block;
  }
  logged.in_flight.max_num_batched_tokens = start.max_num_batched_tokens > 0 ? start.max_num_batched_tokens
                                            : start.has_large_memory         ? 8192
                                                                             : 2048;
  logged.in_flight.max_concurrent_batches = rules.max_concurrent_batches;
  logged.prints_derived_tokens = rules.prints_derived_tokens && !start.is_sglang;
  return logged;
}

int64_t printed_tokens(const LoggedLayout& logged, int64_t num_blocks, int64_t max_model_len) {
  if (num_blocks < 1) return 0;
  const memory::KvCapacity capacity =
      memory::kv_capacity(logged.layout, num_blocks, std::max<int64_t>(max_model_len, 1), logged.in_flight);
  return logged.prints_derived_tokens && max_model_len > 0 ? capacity.size_tokens : capacity.size_tokens_by_groups;
}

Result<model::KvDType> logged_kv_dtype(std::string_view kv_dtype, std::string_view dtype, std::string_view checkpoint,
                                       std::string_view where) {
  const auto plain = [](std::string_view name) {
    constexpr std::string_view kTorch = "torch.";
    return name.substr(0, kTorch.size()) == kTorch ? name.substr(kTorch.size()) : name;
  };
  kv_dtype = plain(kv_dtype);
  if (kv_dtype == "float8_e4m3fn") return model::KvDType::kFP8E4M3;
  if (kv_dtype == "float8_e5m2") return model::KvDType::kFP8E5M2;
  if (!kv_dtype.empty() && kv_dtype != "auto") return model::parse_kv_dtype(kv_dtype, where);
  if (!checkpoint.empty()) return model::parse_kv_dtype(checkpoint, where);
  dtype = plain(dtype);
  return dtype == "float32" ? model::KvDType::kF32 : dtype == "float16" ? model::KvDType::kF16 : model::KvDType::kBF16;
}

}  // namespace ullage::observe
