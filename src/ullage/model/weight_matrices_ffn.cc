// Matrices of feed-forwards, dense and of experts. Names are Hugging Face's.
#include <string>

#include "ullage/model/weight_collector.h"

namespace ullage::model {
namespace {

void collect_dense(WeightCollector& c, const std::string& module, WeightRole role, int64_t size, bool is_gated,
                   bool has_bias) {
  const int64_t hidden = c.hidden();
  if (is_gated) c.matrix(module + ".gate_proj", role, size, hidden, Split::kRows);
  c.matrix(module + ".up_proj", role, size, hidden, Split::kRows);
  c.matrix(module + ".down_proj", role, hidden, size, Split::kColumns);
  if (!has_bias) return;
  if (is_gated) c.vector(module + ".gate_proj.bias", role, size, Split::kRows);
  c.vector(module + ".up_proj.bias", role, size, Split::kRows);
  c.vector(module + ".down_proj.bias", role, hidden);
}

void collect_experts(WeightCollector& c, const MoeFfn& moe) {
  const int64_t hidden = c.hidden();
  const int64_t width = moe.latent_size > 0 ? moe.latent_size : hidden;
  c.matrix("mlp.gate", WeightRole::kRouter, moe.num_experts, hidden, Split::kReplicated);
  if (moe.has_router_bias) c.vector("mlp.gate.e_score_correction_bias", WeightRole::kRouter, moe.num_experts);
  if (moe.latent_size > 0) {
    c.matrix("mlp.fc1_latent_proj", WeightRole::kSharedExperts, width, hidden, Split::kReplicated);
    c.matrix("mlp.fc2_latent_proj", WeightRole::kSharedExperts, hidden, width, Split::kReplicated);
  }
  constexpr WeightRole role = WeightRole::kExperts;
  if (moe.is_gated) c.experts("mlp.experts.gate_proj", role, moe.num_experts, moe.intermediate_size, width);
  c.experts("mlp.experts.up_proj", role, moe.num_experts, moe.intermediate_size, width);
  c.experts("mlp.experts.down_proj", role, moe.num_experts, width, moe.intermediate_size);
  if (moe.has_bias) {
    if (moe.is_gated) c.expert_vectors("mlp.experts.gate_proj.bias", role, moe.num_experts, moe.intermediate_size);
    c.expert_vectors("mlp.experts.up_proj.bias", role, moe.num_experts, moe.intermediate_size);
    c.expert_vectors("mlp.experts.down_proj.bias", role, moe.num_experts, width);
  }
}

void collect_moe(WeightCollector& c, const MoeFfn& moe) {
  collect_experts(c, moe);
  if (moe.shared_intermediate_size > 0) {
    collect_dense(c, "mlp.shared_experts", WeightRole::kSharedExperts, moe.shared_intermediate_size, moe.is_gated,
                  moe.has_shared_bias);
  }
  if (moe.has_shared_expert_gate) {
    c.matrix("mlp.shared_expert_gate", WeightRole::kSharedExperts, 1, c.hidden(), Split::kReplicated);
  }
  if (moe.dense_intermediate_size > 0) {
    // Gemma 4: the dense feed-forward, three norms between it and the experts, and the router's own scales.
    collect_dense(c, "mlp", WeightRole::kSharedExperts, moe.dense_intermediate_size, true, false);
    for (const char* name : {"post_feedforward_layernorm_1", "post_feedforward_layernorm_2",
                             "pre_feedforward_layernorm_2", "mlp.router.scale"}) {
      c.vector(name, WeightRole::kNorm, c.hidden());
    }
    c.vector("mlp.router.per_expert_scale", WeightRole::kRouter, moe.num_experts);
  }
}

}  // namespace

void collect_ffn(WeightCollector& c, const LayerShape& layer) {
  if (const auto* dense = std::get_if<DenseFfn>(&layer.ffn)) {
    collect_dense(c, "mlp", WeightRole::kFfn, dense->intermediate_size, dense->is_gated, dense->has_bias);
  } else if (const auto* moe = std::get_if<MoeFfn>(&layer.ffn)) {
    collect_moe(c, *moe);
  }
}

}  // namespace ullage::model
