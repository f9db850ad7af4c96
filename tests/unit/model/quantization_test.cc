#include "ullage/model/quantization.h"

#include <string>

#include <gtest/gtest.h>

#include "ullage/base/json.h"
#include "ullage/model/model_shape.h"

namespace ullage::model {
namespace {

using Compute = WeightFormat::Compute;

ModelShape shape_with(const std::string& quantization_config) {
  ModelShape shape;
  shape.hidden_size = 4096;
  shape.layers.resize(64);
  const auto config = parse_json("{\"quantization_config\": " + quantization_config + "}", "config.json");
  EXPECT_TRUE(config);
  auto quantization = read_quantization(*config, "config.json");
  EXPECT_TRUE(quantization) << quantization.error().to_string();
  if (quantization) shape.quantization = *quantization;
  return shape;
}

ModelShape shape_as(const std::string& name) {
  ModelShape shape;
  shape.layers.resize(32);
  auto quantization = quantize_as(name, "--weights");
  EXPECT_TRUE(quantization) << quantization.error().to_string();
  if (quantization) shape.quantization = *quantization;
  return shape;
}

// Bytes of a matrix of 4096 x 4096 numbers.
int64_t bytes(const ModelShape& shape, const std::string& module, WeightRole role) {
  return stored_bytes(format_of(shape, module, role), 4096, 4096);
}

constexpr int64_t kNumbers = int64_t{4096} * 4096;
constexpr int64_t kPlain = 2 * kNumbers;

const char* const kQuery = "model.layers.3.self_attn.q_proj";
const char* const kGate = "model.layers.3.mlp.gate_proj";
const char* const kExpert = "model.layers.3.mlp.experts.gate_proj";

// What a matrix takes with its scales, per method; by hand from what each method registers in vLLM.
TEST(Quantization, BytesOfEveryMethod) {
  const struct {
    const char* what;
    const char* config;
    int64_t expected;
    Compute compute;
  } cases[] = {
      {"fp8, one scale a tensor and a static one of its inputs",
       R"({"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": null})", kNumbers + 8,
       Compute::kFP8},
      {"fp8 in blocks: 32 x 32 fp32 scales",
       R"({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]})", kNumbers + 32 * 32 * 4,
       Compute::kFP8},
      {"fp8-dynamic: a fp32 scale an output",
       R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"],
           "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": true},
           "input_activations": {"num_bits": 8, "type": "float", "dynamic": true, "strategy": "token"}}}})",
       kNumbers + 4096 * 4, Compute::kFP8},
      {"w8a8",
       R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"],
           "weights": {"num_bits": 8, "type": "int", "strategy": "channel"},
           "input_activations": {"num_bits": 8, "type": "int", "dynamic": true}}}})",
       kNumbers + 4096 * 4, Compute::kINT8},
      {"w4a16 in groups of 128, symmetric",
       R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"],
           "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": true}}}})",
       kNumbers / 2 + kNumbers / 128 * 2, Compute::kBF16},
      {"AWQ: fp16 scales and 4-bit zero points", R"({"quant_method": "awq", "bits": 4, "group_size": 128})",
       kNumbers / 2 + kNumbers / 128 * 2 + kNumbers / 128 / 2, Compute::kBF16},
      {"GPTQ of inputs in another order: an int32 an input",
       R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": true, "sym": true})",
       kNumbers / 2 + kNumbers / 128 * 2 + 4096 * 4, Compute::kBF16},
      {"GPTQ of 8 bits, whole rows", R"({"quant_method": "gptq", "bits": 8, "group_size": -1})", kNumbers + 4096 * 2,
       Compute::kBF16},
      {"NVFP4: an fp8 scale for each 16, two fp32 a tensor",
       R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16})", kNumbers / 2 + kNumbers / 16 + 8,
       Compute::kFP4},
      {"modelopt FP8", R"({"quant_method": "modelopt", "quant_algo": "FP8"})", kNumbers + 8, Compute::kFP8},
      {"nf4 in blocks of 64 with fp32 scales",
       R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_use_double_quant": false})",
       kNumbers / 2 + kNumbers / 64 * 4, Compute::kBF16},
      {"nf4 with quantised scales: a byte each, fp32 for each 256 of them",
       R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_use_double_quant": true})",
       kNumbers / 2 + kNumbers / 64 + kNumbers / 64 / 256 * 4 + 4, Compute::kBF16},
      {"AutoRound", R"({"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": true})",
       kNumbers / 2 + kNumbers / 128 * 2, Compute::kBF16},
      {"Quark's MXFP4",
       R"({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "qscheme": "per_group",
           "group_size": 32}, "input_tensors": null}})",
       kNumbers / 2 + kNumbers / 32, Compute::kBF16},
      {"torchao's int4: bf16 scale and zero point",
       R"({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig",
           "_data": {"group_size": 128}}}})",
       kNumbers / 2 + kNumbers / 128 * 4, Compute::kBF16},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.what);
    const ModelShape shape = shape_with(each.config);
    EXPECT_EQ(bytes(shape, kQuery, WeightRole::kAttention), each.expected);
    EXPECT_EQ(format_of(shape, kQuery, WeightRole::kAttention).compute, each.compute);
    EXPECT_EQ(bytes(shape, "lm_head", WeightRole::kOutputHead), kPlain);
    EXPECT_EQ(bytes(shape, "model.embed_tokens", WeightRole::kEmbedding), kPlain);
    EXPECT_EQ(bytes(shape, "model.layers.3.mlp.gate", WeightRole::kRouter), kPlain);
    EXPECT_EQ(bytes(shape, "visual.blocks.0.attn.qkv", WeightRole::kOther), kPlain);
    EXPECT_EQ(bytes(shape, "model.layers.3.input_layernorm", WeightRole::kNorm), kPlain);
  }
}

// openai/gpt-oss-20b's config.json.
TEST(Quantization, Mxfp4OfGptOssIsOfExpertsAlone) {
  const ModelShape shape = shape_with(R"({"quant_method": "mxfp4", "modules_to_not_convert":
      ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]})");
  EXPECT_EQ(bytes(shape, kExpert, WeightRole::kExperts), kNumbers / 2 + kNumbers / 32);
  EXPECT_EQ(bytes(shape, kQuery, WeightRole::kAttention), kPlain);
}

// moonshotai/Kimi-K2.5's text_config.
TEST(Quantization, RegularExpressionsOfKimiLeaveAllButExpertsAlone) {
  const ModelShape shape = shape_with(R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
      "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int",
      "strategy": "group", "group_size": 32, "symmetric": true}}}, "ignore": ["lm_head", "re:.*self_attn.*",
      "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"]})");
  EXPECT_EQ(bytes(shape, kExpert, WeightRole::kExperts), kNumbers / 2 + kNumbers / 32 * 2);
  EXPECT_EQ(bytes(shape, kGate, WeightRole::kFfn), kPlain);
  EXPECT_EQ(bytes(shape, kQuery, WeightRole::kAttention), kPlain);
  EXPECT_EQ(bytes(shape, "model.layers.3.mlp.shared_experts.up_proj", WeightRole::kSharedExperts), kPlain);
}

// nvidia/Qwen3.6-35B-A3B-NVFP4: FP8 attention, NVFP4 experts and output head, by lists; what no list names is plain.
TEST(Quantization, GroupsNameTheirModules) {
  const ModelShape shape = shape_with(R"({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
      "quantized_layers": {"lm_head": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
      "model.language_model.layers.3.self_attn.q_proj": {"quant_algo": "FP8"},
      "model.language_model.layers.3.mlp.experts": {"quant_algo": "W4A16_NVFP4", "group_size": 16}},
      "ignore": ["mtp*"], "kv_cache_scheme": {"dynamic": false, "num_bits": 8, "type": "float"}})");
  EXPECT_EQ(bytes(shape, kQuery, WeightRole::kAttention), kNumbers + 8);
  EXPECT_EQ(bytes(shape, kExpert, WeightRole::kExperts), kNumbers / 2 + kNumbers / 16 + 4);
  EXPECT_EQ(bytes(shape, "lm_head", WeightRole::kOutputHead), kNumbers / 2 + kNumbers / 16 + 4);
  EXPECT_EQ(bytes(shape, "model.layers.4.self_attn.q_proj", WeightRole::kAttention), kPlain);
  EXPECT_EQ(bytes(shape, "model.layers.0.mlp.experts.gate_proj", WeightRole::kDraft), kPlain);
  EXPECT_EQ(shape.quantization.kv_cache_dtype, "fp8_e4m3");
}

// nvidia/MiniMax-M2.7-NVFP4 and nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4 name modules in their own words.
TEST(Quantization, FamiliesOwnWordsForModulesAreUnderstood) {
  const ModelShape minimax = shape_with(R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16,
      "ignore": ["model.layers.3.self_attn*", "model.layers.4.block_sparse_moe*"]})");
  EXPECT_EQ(bytes(minimax, kQuery, WeightRole::kAttention), kPlain);
  EXPECT_EQ(bytes(minimax, "model.layers.4.mlp.experts.up_proj", WeightRole::kExperts), kPlain);
  EXPECT_LT(bytes(minimax, kExpert, WeightRole::kExperts), kPlain);

  const ModelShape nemotron = shape_with(R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16,
      "exclude_modules": ["backbone.layers.3.mixer.q_proj", "backbone.layers.4.mixer.in_proj"]})");
  EXPECT_EQ(bytes(nemotron, kQuery, WeightRole::kAttention), kPlain);
  EXPECT_LT(bytes(nemotron, "model.layers.3.self_attn.o_proj", WeightRole::kAttention), kPlain);
  EXPECT_EQ(bytes(nemotron, "model.layers.4.mamba.in_proj", WeightRole::kAttention), kPlain);
}

TEST(Quantization, HfQuantConfigIsReadToo) {
  const auto quantization = parse_hf_quant_config(
      R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8",
          "exclude_modules": ["lm_head"]}})",
      "hf_quant_config.json");
  ASSERT_TRUE(quantization) << quantization.error().to_string();
  EXPECT_EQ(quantization->method, "modelopt");
  EXPECT_EQ(quantization->format.element_bits, 8);
  EXPECT_EQ(quantization->kv_cache_dtype, "fp8_e4m3");
}

// nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4 lists every expert of every layer.
TEST(Quantization, ExpertsAlikeAreOneEntry) {
  std::string layers;
  for (int expert = 0; expert < 200; ++expert) {
    for (const char* part : {"up_proj", "down_proj"}) {
      layers += "\"backbone.layers.1.mixer.experts." + std::to_string(expert) + "." + part +
                "\": {\"quant_algo\": \"W4A16_NVFP4\", \"group_size\": 16},";
    }
  }
  layers += R"("backbone.layers.0.mixer.in_proj": {"quant_algo": "FP8"})";
  const auto quantization = parse_hf_quant_config(
      R"({"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {)" + layers + "}}}", "hf.json");
  ASSERT_TRUE(quantization) << quantization.error().to_string();
  size_t num_targets = 0;
  for (const QuantizedModules& group : quantization->groups) num_targets += group.targets.size();
  EXPECT_EQ(num_targets, 3u);
  ModelShape shape;
  shape.layers.resize(4);
  shape.quantization = *quantization;
  EXPECT_EQ(bytes(shape, "model.layers.1.mlp.experts.up_proj", WeightRole::kExperts), kNumbers / 2 + kNumbers / 16 + 4);
  EXPECT_EQ(bytes(shape, "model.layers.0.mamba.in_proj", WeightRole::kAttention), kNumbers + 8);
}

TEST(Quantization, WhatIsUnknownIsRefusedByName) {
  const struct {
    const char* config;
    const char* in_message;
    const char* where;
  } cases[] = {
      {R"({"quant_method": "aqlm"})", "aqlm", "config.json/quantization_config/quant_method"},
      {R"({"bits": 4})", "quant_method", "config.json/quantization_config"},
      {R"({"quant_method": "modelopt", "quant_algo": "W3A3"})", "W3A3", "config.json/quantization_config/quant_algo"},
      {R"({"quant_method": "awq", "bits": 33})", "33", "config.json/quantization_config/bits"},
      {R"({"quant_method": "fp8", "weight_block_size": [128]})", "two numbers",
       "config.json/quantization_config/weight_block_size"},
      {R"({"quant_method": "compressed-tensors"})", "config_groups", "config.json/quantization_config"},
      {R"({"quant_method": "bitsandbytes"})", "load_in_4bit", "config.json/quantization_config"},
      {R"([])", "object", "config.json/quantization_config"},
  };
  for (const auto& each : cases) {
    const auto config = parse_json("{\"quantization_config\": " + std::string(each.config) + "}", "config.json");
    const auto quantization = read_quantization(*config, "config.json");
    ASSERT_FALSE(quantization) << each.config;
    EXPECT_NE(quantization.error().message.find(each.in_message), std::string::npos) << quantization.error().message;
    EXPECT_EQ(quantization.error().where, each.where);
  }
  EXPECT_FALSE(quantize_as("q9_z", "--weights"));
}

TEST(Quantization, AnyShapeCanBeStoredInANamedFormat) {
  EXPECT_EQ(bytes(shape_as("fp8"), kQuery, WeightRole::kAttention), kNumbers + 4);
  EXPECT_EQ(bytes(shape_as("FP8"), "lm_head", WeightRole::kOutputHead), kPlain);
  EXPECT_EQ(bytes(shape_as("w4a16"), kQuery, WeightRole::kAttention), kNumbers / 2 + kNumbers / 128 * 2);
  EXPECT_EQ(bytes(shape_as("q8_0"), "model.embed_tokens", WeightRole::kEmbedding), kNumbers / 32 * 34);
  for (const std::string& name : quantization_names()) {
    EXPECT_LT(bytes(shape_as(name), kQuery, WeightRole::kAttention), kPlain) << name;
  }
}

// llama.cpp's Q4_K_M of 32 layers: half of V and down projections, and the output head, are Q6_K.
TEST(Quantization, GgufRecipesMixTheirTypes) {
  const ModelShape shape = shape_as("q4_k_m");
  int num_larger = 0;
  for (int layer = 0; layer < 32; ++layer) {
    const std::string down = "model.layers." + std::to_string(layer) + ".mlp.down_proj";
    if (bytes(shape, down, WeightRole::kFfn) == kNumbers / 256 * 210) ++num_larger;
  }
  EXPECT_EQ(num_larger, 16);
  EXPECT_EQ(bytes(shape, kQuery, WeightRole::kAttention), kNumbers / 256 * 144);
  EXPECT_EQ(bytes(shape, "lm_head", WeightRole::kOutputHead), kNumbers / 256 * 210);
}

}  // namespace
}  // namespace ullage::model
