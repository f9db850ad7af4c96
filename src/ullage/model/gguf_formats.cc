#include "ullage/model/gguf_formats.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "ullage/model/weight_formats.h"

namespace ullage::model {
namespace {

struct Name {
  std::string_view gguf;          // between "blk.N." and ".weight"
  std::string_view hugging_face;  // within the layer
};
// As llama.cpp's gguf-py/gguf/tensor_mapping.py pairs them.
constexpr Name kLayerNames[] = {
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_qkv", "self_attn.q_proj"},
    {"attn_qkv", "self_attn.k_proj"},
    {"attn_qkv", "self_attn.v_proj"},
    {"attn_qkv", "linear_attn.in_proj_qkv"},
    {"attn_gate", "linear_attn.in_proj_z"},
    {"ssm_out", "linear_attn.out_proj"},
    {"ssm_in", "mamba.in_proj"},
    {"ssm_out", "mamba.out_proj"},
    {"ssm_x", "mamba.x_proj"},
    {"attn_q_a", "self_attn.q_a_proj"},
    {"attn_q_b", "self_attn.q_b_proj"},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
    {"attn_kv_b", "self_attn.kv_b_proj"},
    {"attn_v_b", "self_attn.kv_b_proj"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_up", "mlp.gate_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_exps", "mlp.experts.gate_proj"},
    {"ffn_up_exps", "mlp.experts.up_proj"},
    {"ffn_gate_up_exps", "mlp.experts.gate_proj"},
    {"ffn_gate_up_exps", "mlp.experts.up_proj"},
    {"ffn_down_exps", "mlp.experts.down_proj"},
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
    {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
    {"shortconv.in_proj", "conv.in_proj"},
    {"shortconv.out_proj", "conv.out_proj"},
};

// "blk.12.ffn_up.weight" is "12" and "ffn_up".
std::pair<std::string_view, std::string_view> split(std::string_view name) {
  constexpr std::string_view kBegin = "blk.";
  constexpr std::string_view kEnd = ".weight";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return {};
  name = name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return {};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

}  // namespace

Result<Quantization> gguf_quantization(const GgufFile& file) {
  std::map<DType, QuantizedModules> groups;
  const auto add = [&](DType dtype, std::string_view name) -> Result<void> {
    QuantizedModules& group = groups[dtype];
    group.format = plain_format(dtype);
    ULLAGE_TRY(ModulePattern pattern, parse_module_pattern(name, "tensors"));
    pattern.kind = ModulePattern::Kind::kName;
    group.targets.push_back(std::move(pattern));
    return {};
  };
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.dims.size() < 2) continue;
    if (tensor.name == "token_embd.weight") ULLAGE_TRY_VOID(add(tensor.dtype, "embed_tokens"));
    if (tensor.name == "output.weight") ULLAGE_TRY_VOID(add(tensor.dtype, "lm_head"));
    const auto [layer, part] = split(tensor.name);
    for (const Name& name : kLayerNames) {
      if (name.gguf != part || layer.empty() || layer.size() > 6) continue;
      // One matrix is gate and up only where there is no gate beside it.
      const bool is_fused = part == "ffn_up" && name.hugging_face == "mlp.gate_proj";
      if (is_fused && file.find_tensor(fmt::format("blk.{}.ffn_gate.weight", layer)) != nullptr) continue;
      ULLAGE_TRY_VOID(add(tensor.dtype, fmt::format("layers.{}.{}", layer, name.hugging_face)));
    }
  }
  Quantization quantization;
  quantization.method = "gguf";
  quantization.is_listed_only = true;
  quantization.groups.reserve(groups.size());
  for (auto& [dtype, group] : groups) quantization.groups.push_back(std::move(group));
  return quantization;
}

DType gguf_plain_dtype(const GgufFile& file) {
  uint64_t bytes[3] = {};  // F32, F16, BF16
  for (const GgufTensor& tensor : file.tensors()) {
    const auto index = static_cast<size_t>(tensor.dtype);
    if (tensor.dims.size() >= 2 && index < 3) bytes[index] += tensor.data.size();
  }
  const auto* most = std::max_element(std::begin(bytes), std::end(bytes));
  return *most == 0 ? DType::kF32 : static_cast<DType>(most - std::begin(bytes));
}

}  // namespace ullage::model
