#include "ullage/model/tensor_names.h"

#include <fmt/format.h>

#include "ullage/base/check.h"

namespace ullage::model {
namespace {

struct RoleNames {
  TensorRole role;
  const char* hugging_face;
  const char* gguf;
};

constexpr RoleNames kModelNames[] = {
    {TensorRole::kTokenEmbedding, "model.embed_tokens.weight", "token_embd.weight"},
    {TensorRole::kOutputNorm, "model.norm.weight", "output_norm.weight"},
    {TensorRole::kOutputHead, "lm_head.weight", "output.weight"},
    {TensorRole::kRopeFactors, "", "rope_freqs.weight"},
};

// Behind "model.layers.N." and "blk.N.".
constexpr RoleNames kLayerNames[] = {
    {TensorRole::kAttentionNorm, "input_layernorm.weight", "attn_norm.weight"},
    {TensorRole::kQuery, "self_attn.q_proj.weight", "attn_q.weight"},
    {TensorRole::kKey, "self_attn.k_proj.weight", "attn_k.weight"},
    {TensorRole::kValue, "self_attn.v_proj.weight", "attn_v.weight"},
    {TensorRole::kQueryBias, "self_attn.q_proj.bias", "attn_q.bias"},
    {TensorRole::kKeyBias, "self_attn.k_proj.bias", "attn_k.bias"},
    {TensorRole::kValueBias, "self_attn.v_proj.bias", "attn_v.bias"},
    {TensorRole::kQueryNorm, "self_attn.q_norm.weight", "attn_q_norm.weight"},
    {TensorRole::kKeyNorm, "self_attn.k_norm.weight", "attn_k_norm.weight"},
    {TensorRole::kAttentionOutput, "self_attn.o_proj.weight", "attn_output.weight"},
    {TensorRole::kAttentionOutputBias, "self_attn.o_proj.bias", "attn_output.bias"},
    {TensorRole::kFfnNorm, "post_attention_layernorm.weight", "ffn_norm.weight"},
    {TensorRole::kFfnGate, "mlp.gate_proj.weight", "ffn_gate.weight"},
    {TensorRole::kFfnUp, "mlp.up_proj.weight", "ffn_up.weight"},
    {TensorRole::kFfnDown, "mlp.down_proj.weight", "ffn_down.weight"},
};
static_assert(std::size(kModelNames) + std::size(kLayerNames) == kNumTensorRoles);

// Empty when the model has no tensor of that role.
std::vector<int64_t> model_shape_of(TensorRole role, const ModelShape& shape) {
  switch (role) {
    case TensorRole::kTokenEmbedding:
      return {shape.vocab_size, shape.hidden_size};
    case TensorRole::kOutputNorm:
      return {shape.hidden_size};
    case TensorRole::kOutputHead:
      return shape.has_tied_embeddings ? std::vector<int64_t>{}
                                       : std::vector<int64_t>{shape.vocab_size, shape.hidden_size};
    case TensorRole::kRopeFactors:
      return {std::get<Attention>(shape.layers[0].mixer).rope.rotary_dim / 2};
    default:
      return {};
  }
}

std::vector<int64_t> layer_shape_of(TensorRole role, const ModelShape& shape, const LayerShape& layer) {
  const auto& attention = std::get<Attention>(layer.mixer);
  const int64_t hidden = shape.hidden_size;
  const int64_t ffn = std::get<DenseFfn>(layer.ffn).intermediate_size;
  const int64_t q_dim = attention.num_heads * attention.head_dim;
  const int64_t kv_dim = attention.num_kv_heads * attention.head_dim;
  const auto only_if = [](bool has, int64_t size) { return has ? std::vector<int64_t>{size} : std::vector<int64_t>{}; };
  switch (role) {
    case TensorRole::kAttentionNorm:
    case TensorRole::kFfnNorm:
      return {hidden};
    case TensorRole::kQuery:
      return {q_dim, hidden};
    case TensorRole::kKey:
    case TensorRole::kValue:
      return {kv_dim, hidden};
    case TensorRole::kQueryBias:
      return only_if(attention.has_qkv_bias, q_dim);
    case TensorRole::kKeyBias:
    case TensorRole::kValueBias:
      return only_if(attention.has_qkv_bias, kv_dim);
    case TensorRole::kQueryNorm:
    case TensorRole::kKeyNorm:
      return only_if(attention.has_qk_norm, attention.head_dim);
    case TensorRole::kAttentionOutput:
      return {hidden, q_dim};
    case TensorRole::kAttentionOutputBias:
      return only_if(attention.has_output_bias, hidden);
    case TensorRole::kFfnGate:
    case TensorRole::kFfnUp:
      return {ffn, hidden};
    case TensorRole::kFfnDown:
      return {hidden, ffn};
    default:
      return {};
  }
}

}  // namespace

std::vector<TensorSpec> tensor_specs(const ModelShape& shape, TensorNaming naming) {
  ULLAGE_CHECK(!shape.layers.empty());
  const bool is_gguf = naming == TensorNaming::kGguf;
  std::vector<TensorSpec> specs;
  const auto add = [&](TensorRole role, int64_t layer, std::string name, std::vector<int64_t> dims) {
    const bool is_optional = role == TensorRole::kRopeFactors;
    if (!dims.empty()) specs.push_back({role, layer, std::move(name), std::move(dims), is_optional});
  };
  for (const RoleNames& names : kModelNames) {
    const char* name = is_gguf ? names.gguf : names.hugging_face;
    if (*name != '\0') add(names.role, 0, name, model_shape_of(names.role, shape));
  }
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const std::string prefix = fmt::format("{}.{}.", is_gguf ? "blk" : "model.layers", i);
    for (const RoleNames& names : kLayerNames) {
      add(names.role, static_cast<int64_t>(i), prefix + (is_gguf ? names.gguf : names.hugging_face),
          layer_shape_of(names.role, shape, shape.layers[i]));
    }
  }
  return specs;
}

}  // namespace ullage::model
