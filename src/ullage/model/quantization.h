// How a checkpoint's weights are stored when they are not plain numbers: which method, and which modules it leaves
// alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/model/weight_matrix.h"

namespace ullage::model {

// config.json's quantization_config or hf_quant_config.json, as far as storage depends on it. Default: not quantised.
struct Quantization {
  std::string method;   // "fp8", "awq", "gptq", "compressed-tensors", "modelopt", "mxfp4", "bitsandbytes"; "" = none
  WeightFormat format;  // of what is quantised and no group below says otherwise
  WeightFormat expert_format;  // of the routed experts' matrices, when it differs (has_expert_format)
  bool has_expert_format = false;
  bool is_experts_only = false;  // MXFP4 of gpt-oss: only routed experts are quantised
  // Modules that stay plain: exact names, prefixes or "re:" patterns, as the checkpoint lists them.
  std::vector<std::string> ignored;
  std::string kv_cache_dtype;  // what the checkpoint asks for, "fp8_e4m3"; "" = says nothing
};

struct ModelShape;

// How a module's weights are stored: the checkpoint's quantisation where it applies to that module, else the plain
// weight_dtype. `module`: the full name as Hugging Face has it, "model.layers.3.self_attn.q_proj".
WeightFormat format_of(const ModelShape& shape, std::string_view module, WeightRole role);

}  // namespace ullage::model
