// How a checkpoint's weights are stored when they are not plain numbers: which method, and which modules it leaves
// alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/json_fwd.h"
#include "ullage/base/result.h"
#include "ullage/model/module_pattern.h"
#include "ullage/model/weight_matrix.h"

namespace ullage::model {

struct ModelShape;

// Some modules and how they are stored.
struct QuantizedModules {
  std::vector<ModulePattern> targets;
  WeightFormat format;
  bool is_plain = false;  // stored plainly after all (AutoRound's extra_config of 16 bits)
};

// config.json's quantization_config or hf_quant_config.json, as far as storage depends on it. Default: not quantised.
struct Quantization {
  std::string method;   // "fp8", "awq", "gptq", "compressed-tensors", "modelopt", "mxfp4", "bitsandbytes"; "" = none
  WeightFormat format;  // of what is quantised and no group below says otherwise
  WeightFormat expert_format;  // of the routed experts' matrices, when it differs (has_expert_format)
  bool has_expert_format = false;
  bool is_experts_only = false;  // MXFP4 of gpt-oss: only routed experts are quantised
  bool is_listed_only = false;   // only what `groups` names is quantised (mixed precision)
  bool has_embeddings = false;   // embedding and output head too (GGUF)
  bool has_output_head = false;  // the output head too (GPTQ's lm_head)
  // A GGUF recipe with more than one type ("q4_k_m"): llama.cpp gives some of the matrices of some layers a larger one.
  std::string gguf_mix;
  std::vector<QuantizedModules> groups;  // the first that means a module decides
  // Modules that stay plain, as the checkpoint lists them. Wins over groups.
  std::vector<ModulePattern> ignored;
  std::string kv_cache_dtype;  // what the checkpoint asks for, "fp8_e4m3"; "" = says nothing
};

// The "quantization_config" (or "compression_config") of a config.json, at its top or in its text_config; the default
// when it has none. kUnsupported names a method or scheme that Ullage does not know how to count.
Result<Quantization> read_quantization(const Json& config, std::string_view where);
// The text of a hf_quant_config.json, which lies beside config.json (modelopt).
Result<Quantization> parse_hf_quant_config(std::string_view json, std::string_view where);

// What `--weights NAME` means for a shape whose checkpoint is not quantised so: "fp8" (vLLM's at load, one scale a
// tensor), "fp8-block", "fp8-channel", "int8", "int4" (w4a16 in groups of 128), "awq", "gptq", "nvfp4", "mxfp4",
// "nf4", or a GGUF type ("q8_0", "q4_k_m"). "bf16" and the like are not quantisations: set the shape's weight_dtype.
Result<Quantization> quantize_as(std::string_view name, std::string_view where);
// The names that quantize_as takes, for messages and help.
const std::vector<std::string>& quantization_names();

// How a module's weights are stored: the checkpoint's quantisation where it applies to that module, else the plain
// weight_dtype. `module`: the full name as Hugging Face has it, "model.layers.3.self_attn.q_proj" (draft layers, with
// role kDraft, count from 0 too). Vectors, norms, routers, embeddings and towers are plain except where the checkpoint
// says otherwise.
WeightFormat format_of(const ModelShape& shape, std::string_view module, WeightRole role);

}  // namespace ullage::model
