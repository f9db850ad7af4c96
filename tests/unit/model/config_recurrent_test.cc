// Models with recurrent states. Sizes are those of published config.json files.
#include <string>

#include <gtest/gtest.h>

#include "ullage/model/config.h"
#include "ullage/model/python_json.h"

namespace ullage::model {
namespace {

ModelShape parse(const std::string& json) {
  auto shape = parse_config(json, "config.json");
  EXPECT_TRUE(shape) << shape.error().to_string();
  return shape ? *shape : ModelShape{};
}

template <class T>
int64_t count_mixers(const std::vector<LayerShape>& layers) {
  int64_t count = 0;
  for (const LayerShape& layer : layers) count += std::holds_alternative<T>(layer.mixer) ? 1 : 0;
  return count;
}

// Qwen/Qwen3.5-35B-A3B: every fourth layer is softmax attention with an output gate.
TEST(ConfigRecurrent, Qwen35) {
  const ModelShape shape = parse(R"({"model_type": "qwen3_5_moe", "text_config": {"model_type": "qwen3_5_moe_text",
      "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 16, "num_key_value_heads": 2,
      "head_dim": 256, "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
      "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "num_experts": 256,
      "num_experts_per_tok": 8, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
      "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1, "vocab_size": 248320, "dtype": "bfloat16",
      "max_position_embeddings": 262144}})");
  ASSERT_EQ(shape.layers.size(), 40u);
  EXPECT_EQ(count_mixers<Attention>(shape.layers), 10);
  const auto* attention = std::get_if<Attention>(&shape.layers[3].mixer);
  ASSERT_NE(attention, nullptr);
  EXPECT_TRUE(attention->has_output_gate);
  EXPECT_TRUE(attention->has_qk_norm);
  const auto& linear = std::get<LinearAttention>(shape.layers[0].mixer);
  EXPECT_EQ(linear.kind, LinearAttention::Kind::kGatedDelta);
  EXPECT_EQ(linear.num_value_heads, 32);
  EXPECT_EQ(linear.state_dtype, DType::kF32);
  const auto& ffn = std::get<MoeFfn>(shape.layers[0].ffn);
  EXPECT_EQ(ffn.num_experts, 256);
  EXPECT_TRUE(ffn.has_shared_expert_gate);
  ASSERT_EQ(shape.draft_layers.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Attention>(shape.draft_layers[0].mixer));
}

// Qwen/Qwen3-Next-80B-A3B-Instruct says nothing of its state's type: vLLM keeps it in the model's.
TEST(ConfigRecurrent, Qwen3NextKeepsItsStateInTheModelsType) {
  const ModelShape shape = parse(R"({"model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48,
      "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "num_experts": 512,
      "num_experts_per_tok": 10, "vocab_size": 151936, "torch_dtype": "bfloat16", "intermediate_size": 5120})");
  EXPECT_EQ(count_mixers<LinearAttention>(shape.layers), 36);
  EXPECT_EQ(std::get<LinearAttention>(shape.layers[0].mixer).state_dtype, DType::kBF16);
}

// nvidia/NVIDIA-Nemotron-3-Nano-4B: a pattern of letters, Mamba 2 states of 96 heads of 80 x 128.
TEST(ConfigRecurrent, NemotronHByLetters) {
  const ModelShape shape = parse(R"({"model_type": "nemotron_h", "hybrid_override_pattern": "M-M*-E",
      "num_hidden_layers": 6, "hidden_size": 3136, "intermediate_size": 12544, "num_attention_heads": 40,
      "num_key_value_heads": 8, "head_dim": 128, "mamba_num_heads": 96, "mamba_head_dim": 80, "ssm_state_size": 128,
      "n_groups": 8, "conv_kernel": 4, "n_routed_experts": 16, "num_experts_per_tok": 4, "moe_latent_size": 1024,
      "moe_intermediate_size": 2688, "moe_shared_expert_intermediate_size": 5376, "vocab_size": 131072,
      "num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "*E", "time_step_limit": [0.0, Infinity]})");
  ASSERT_EQ(shape.layers.size(), 6u);
  EXPECT_EQ(count_mixers<StateSpace>(shape.layers), 2);
  EXPECT_EQ(count_mixers<NoMixer>(shape.layers), 3);
  const auto& state = std::get<StateSpace>(shape.layers[0].mixer);
  EXPECT_EQ(state.inner_size, 7680);
  EXPECT_EQ(state.state_dtype, DType::kF32);
  EXPECT_TRUE(std::holds_alternative<NoFfn>(shape.layers[3].ffn));
  EXPECT_EQ(std::get<Attention>(shape.layers[3].mixer).rope.rotary_dim, 0);
  const auto& experts = std::get<MoeFfn>(shape.layers[5].ffn);
  EXPECT_EQ(experts.latent_size, 1024);
  EXPECT_FALSE(experts.is_gated);
  EXPECT_EQ(shape.draft_layers.size(), 2u);
}

TEST(ConfigRecurrent, NemotronHByWordsNeedsNoNumberOfLayers) {
  const ModelShape shape = parse(R"({"model_type": "nemotron_h", "layers_block_type": ["mamba", "mlp", "attention"],
      "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1024,
      "mamba_num_heads": 8, "mamba_head_dim": 64})");
  ASSERT_EQ(shape.layers.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<StateSpace>(shape.layers[0].mixer));
  EXPECT_TRUE(std::holds_alternative<Attention>(shape.layers[2].mixer));
}

// moonshotai/Kimi-Linear-48B-A3B-Instruct counts its layers from 1.
TEST(ConfigRecurrent, KimiLinear) {
  const ModelShape shape = parse(R"({"model_type": "kimi_linear", "hidden_size": 2304, "num_hidden_layers": 4,
      "num_attention_heads": 32, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
      "v_head_dim": 128, "intermediate_size": 9216, "first_k_dense_replace": 1, "num_experts": 256,
      "num_experts_per_token": 8, "num_shared_experts": 1, "moe_intermediate_size": 1024, "vocab_size": 163840,
      "linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1, 2, 3], "head_dim": 128, "num_heads": 32,
      "short_conv_kernel_size": 4}})");
  ASSERT_EQ(shape.layers.size(), 4u);
  EXPECT_TRUE(std::holds_alternative<LatentAttention>(shape.layers[3].mixer));
  const auto& delta = std::get<LinearAttention>(shape.layers[0].mixer);
  EXPECT_EQ(delta.kind, LinearAttention::Kind::kKimiDelta);
  EXPECT_EQ(delta.state_dtype, DType::kF32);
  EXPECT_TRUE(std::holds_alternative<DenseFfn>(shape.layers[0].ffn));
  EXPECT_TRUE(std::holds_alternative<MoeFfn>(shape.layers[1].ffn));
}

// ai21labs/Jamba-v0.1: attention once in 8 layers, experts in every other.
TEST(ConfigRecurrent, Jamba) {
  const ModelShape shape = parse(R"({"model_type": "jamba", "hidden_size": 4096, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "num_experts": 16,
      "num_experts_per_tok": 2, "attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2,
      "expert_layer_offset": 1, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 256,
      "vocab_size": 65536})");
  EXPECT_EQ(count_mixers<Attention>(shape.layers), 4);
  const auto& state = std::get<StateSpace>(shape.layers[0].mixer);
  EXPECT_EQ(state.num_heads, 0) << "Mamba 1";
  EXPECT_EQ(state.inner_size, 8192);
  EXPECT_EQ(state.time_step_rank, 256);
  EXPECT_TRUE(std::holds_alternative<MoeFfn>(shape.layers[1].ffn));
}

// ibm-granite/granite-4.0-h-small and tiiuae/Falcon-H1-7B, in little.
TEST(ConfigRecurrent, GraniteAndFalconAndBamba) {
  const ModelShape granite = parse(R"({"model_type": "granitemoehybrid", "hidden_size": 1536, "num_hidden_layers": 3,
      "layer_types": ["mamba", "attention", "mamba"], "num_attention_heads": 12, "num_key_value_heads": 4,
      "intermediate_size": 512, "shared_intermediate_size": 1024, "num_local_experts": 64, "num_experts_per_tok": 6,
      "mamba_n_heads": 48, "mamba_d_head": "auto", "mamba_d_state": 128, "vocab_size": 100352})");
  ASSERT_EQ(granite.layers.size(), 3u);
  EXPECT_EQ(std::get<StateSpace>(granite.layers[0].mixer).head_dim, 64);
  EXPECT_EQ(std::get<MoeFfn>(granite.layers[0].ffn).shared_intermediate_size, 1024);

  const ModelShape falcon = parse(R"({"model_type": "falcon_h1", "hidden_size": 3072, "num_hidden_layers": 2,
      "num_attention_heads": 12, "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 12288,
      "mamba_d_ssm": 3072, "mamba_n_heads": 24, "mamba_d_head": 128, "mamba_d_state": 256, "vocab_size": 130048})");
  ASSERT_EQ(falcon.layers.size(), 2u);
  ASSERT_TRUE(falcon.layers[0].parallel_state_space);
  EXPECT_EQ(falcon.layers[0].parallel_state_space->inner_size, 3072);

  const ModelShape bamba = parse(R"({"model_type": "bamba", "hidden_size": 4096, "num_hidden_layers": 3,
      "num_attention_heads": 32, "intermediate_size": 14336, "attn_layer_indices": [1], "vocab_size": 128256})");
  EXPECT_TRUE(std::holds_alternative<Attention>(bamba.layers[1].mixer));
  EXPECT_TRUE(std::holds_alternative<StateSpace>(bamba.layers[2].mixer));
}

TEST(ConfigRecurrent, MambaLightningAndShortConvolutions) {
  const ModelShape mamba = parse(R"({"model_type": "falcon_mamba", "hidden_size": 4096, "num_hidden_layers": 64,
      "state_size": 16, "conv_kernel": 4, "expand": 2, "intermediate_size": 8192, "time_step_rank": 256,
      "vocab_size": 65024})");
  EXPECT_EQ(count_mixers<StateSpace>(mamba.layers), 64);
  const ModelShape mamba2 = parse(R"({"model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 64,
      "num_heads": 128, "head_dim": 64, "n_groups": 8, "state_size": 128, "vocab_size": 32768})");
  EXPECT_EQ(std::get<StateSpace>(mamba2.layers[0].mixer).num_heads, 128);

  const ModelShape minimax = parse(R"({"model_type": "minimax_text_01", "hidden_size": 6144, "num_hidden_layers": 4,
      "attn_type_list": [0, 0, 0, 1], "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
      "intermediate_size": 9216, "num_local_experts": 32, "num_experts_per_tok": 2, "vocab_size": 200064})");
  EXPECT_EQ(std::get<LinearAttention>(minimax.layers[0].mixer).kind, LinearAttention::Kind::kLightning);
  EXPECT_TRUE(std::holds_alternative<Attention>(minimax.layers[3].mixer));

  // LiquidAI/LFM2-1.2B: 12288 written, two thirds of it rounded up to 256 is what the layers have.
  const ModelShape lfm2 = parse(R"({"model_type": "lfm2", "hidden_size": 2048, "num_hidden_layers": 3,
      "layer_types": ["conv", "conv", "full_attention"], "num_attention_heads": 32, "num_key_value_heads": 8,
      "block_ff_dim": 12288, "block_auto_adjust_ff_dim": true, "block_multiple_of": 256,
      "block_ffn_dim_multiplier": 1.0, "conv_L_cache": 3, "vocab_size": 65536})");
  EXPECT_EQ(std::get<DenseFfn>(lfm2.layers[0].ffn).intermediate_size, 8192);
  EXPECT_EQ(std::get<LinearAttention>(lfm2.layers[0].mixer).kind, LinearAttention::Kind::kShortConvolution);
}

TEST(ConfigRecurrent, WhatContradictsItselfIsRefused) {
  const struct {
    const char* json;
    const char* where;
  } cases[] = {
      {R"({"model_type": "nemotron_h", "hybrid_override_pattern": "MX", "hidden_size": 8, "vocab_size": 8})",
       "config.json/hybrid_override_pattern"},
      {R"({"model_type": "nemotron_h", "hybrid_override_pattern": "M*", "num_hidden_layers": 3, "hidden_size": 128,
           "num_attention_heads": 8, "vocab_size": 8})",
       "config.json/num_hidden_layers"},
      {R"({"model_type": "nemotron_h", "hidden_size": 8, "vocab_size": 8})", "config.json"},
      {R"({"model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 2, "num_heads": 100, "head_dim": 64,
           "vocab_size": 8})",
       "config.json/num_heads"},
      {R"({"model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 2, "num_attention_heads": 16,
           "layer_types": ["full_attention", "other"], "vocab_size": 8})",
       "config.json/layer_types/1"},
      {R"({"model_type": "zamba2", "hidden_size": 8})", "config.json/model_type"},
      {R"({"model_type": "deepseek_v4", "hidden_size": 4096})", "config.json/model_type"},
  };
  for (const auto& each : cases) {
    const auto shape = parse_config(each.json, "config.json");
    ASSERT_FALSE(shape) << each.json;
    EXPECT_EQ(shape.error().where, each.where) << shape.error().message;
  }
}

TEST(PythonJson, NumbersThatJsonDoesNotHaveKeepTheirPlaces) {
  EXPECT_EQ(without_python_numbers(R"([Infinity, -Infinity, NaN])"), R"([1e308   , -1e308   , 0  ])");
  EXPECT_EQ(without_python_numbers(R"({"NaN": "\"Infinity"})"), R"({"NaN": "\"Infinity"})");
}

}  // namespace
}  // namespace ullage::model
