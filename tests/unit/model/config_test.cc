#include "ullage/model/config.h"

#include <string>

#include <gtest/gtest.h>

#include "ullage/base/json.h"

namespace ullage::model {
namespace {

// A small Llama; `patch` is merged over it, where null removes a key and "null!" stands for null itself.
std::string config(std::string_view patch = "{}") {
  Json json = Json::parse(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32000,
      "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 4, "num_attention_heads": 32,
      "rms_norm_eps": 1e-5, "max_position_embeddings": 4096})");
  json.merge_patch(Json::parse(patch));
  for (auto& [key, value] : json.items()) {
    if (value == "null!") value = nullptr;
  }
  return json.dump();
}

ModelShape parse(std::string_view patch) {
  const auto shape = parse_config(config(patch), "config.json");
  EXPECT_TRUE(shape) << shape.error().to_string();
  return shape ? *shape : ModelShape{};
}

Attention attention_of(const ModelShape& shape, size_t layer = 0) {
  if (layer >= shape.layers.size()) return {};
  return std::get<Attention>(shape.layers[layer].mixer);
}

void expect_error(std::string_view patch, ErrorCode code, std::string_view where, std::string_view part) {
  const auto shape = parse_servable_config(config(patch), "config.json");
  ASSERT_FALSE(shape) << "accepted: " << patch;
  EXPECT_EQ(shape.error().code, code) << shape.error().to_string();
  EXPECT_EQ(shape.error().where, where) << shape.error().to_string();
  EXPECT_NE(shape.error().message.find(part), std::string::npos) << shape.error().to_string();
}

TEST(Config, ReadsALlama) {
  const ModelShape shape = parse("{}");
  EXPECT_EQ(shape.architecture, "llama");
  EXPECT_EQ(shape.vocab_size, 32000);
  EXPECT_EQ(shape.hidden_size, 4096);
  EXPECT_EQ(shape.norm_eps, 1e-5);
  EXPECT_FALSE(shape.has_tied_embeddings);
  ASSERT_EQ(shape.layers.size(), 4u);
  const Attention a = attention_of(shape);
  EXPECT_EQ(a.num_heads, 32);
  EXPECT_EQ(a.num_kv_heads, 32);  // absent: one each
  EXPECT_EQ(a.head_dim, 128);
  EXPECT_FALSE(a.has_qkv_bias || a.has_output_bias || a.has_qk_norm);
  EXPECT_EQ(a.sliding_window, 0);
  EXPECT_EQ(a.rope.theta, 10000.0);
  EXPECT_EQ(a.rope.rotary_dim, 128);
  EXPECT_EQ(a.rope.pairing, RopePairing::kHalves);
  EXPECT_EQ(a.rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(std::get<DenseFfn>(shape.layers[3].ffn).intermediate_size, 11008);
}

TEST(Config, ReadsExplicitHeadDimBiasesAndTies) {
  const ModelShape shape = parse(
      R"({"head_dim": 64, "num_key_value_heads": 8, "attention_bias": true, "mlp_bias": true,
          "tie_word_embeddings": true, "torch_dtype": "float16", "num_attention_heads": 30, "num_key_value_heads": 10})");
  const Attention a = attention_of(shape);
  EXPECT_EQ(a.head_dim, 64);  // 4096 / 30 would not even divide
  EXPECT_EQ(a.num_kv_heads, 10);
  EXPECT_TRUE(a.has_qkv_bias && a.has_output_bias);
  EXPECT_TRUE(std::get<DenseFfn>(shape.layers[0].ffn).has_bias);
  EXPECT_TRUE(shape.has_tied_embeddings);
  EXPECT_EQ(shape.weight_dtype, DType::kF16);
  EXPECT_EQ(parse(R"({"dtype": "float32"})").weight_dtype, DType::kF32);
}

TEST(Config, FamiliesDifferInWhatTheyLeaveUnsaid) {
  const Attention qwen2 = attention_of(parse(R"({"model_type": "qwen2", "architectures": null})"));
  EXPECT_TRUE(qwen2.has_qkv_bias);
  EXPECT_FALSE(qwen2.has_output_bias || qwen2.has_qk_norm);
  EXPECT_EQ(qwen2.head_dim, 128);
  const Attention qwen3 = attention_of(parse(R"({"model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16,
                                                 "num_key_value_heads": 8})"));
  EXPECT_TRUE(qwen3.has_qk_norm);
  EXPECT_FALSE(qwen3.has_qkv_bias);
  EXPECT_EQ(qwen3.head_dim, 128);  // the class's default, not 1024 / 16
  const Attention null_dim = attention_of(parse(R"({"model_type": "mistral", "head_dim": "null!"})"));
  EXPECT_EQ(null_dim.head_dim, 128);
  EXPECT_EQ(null_dim.num_kv_heads, 8);
}

TEST(Config, ReadsSlidingWindowsAsEachFamilyMeansThem) {
  EXPECT_EQ(attention_of(parse(R"({"model_type": "mistral", "sliding_window": 4096})")).sliding_window, 4096);
  EXPECT_EQ(attention_of(parse(R"({"model_type": "mistral"})")).sliding_window, 4096);
  EXPECT_EQ(attention_of(parse(R"({"model_type": "mistral", "sliding_window": "null!"})")).sliding_window, 0);
  EXPECT_EQ(attention_of(parse(R"({"sliding_window": 4096})")).sliding_window, 0);  // Llama has none
  EXPECT_EQ(attention_of(parse(R"({"model_type": "qwen2", "sliding_window": 131072, "use_sliding_window": false})"))
                .sliding_window,
            0);
  const ModelShape mixed = parse(R"({"model_type": "qwen2", "sliding_window": 1024, "use_sliding_window": true,
                                     "max_window_layers": 3})");
  EXPECT_EQ(attention_of(mixed, 2).sliding_window, 0);
  EXPECT_EQ(attention_of(mixed, 3).sliding_window, 1024);
  const ModelShape listed = parse(
      R"({"model_type": "qwen3", "sliding_window": 512, "use_sliding_window": true,
          "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]})");
  EXPECT_EQ(attention_of(listed, 0).sliding_window, 0);
  EXPECT_EQ(attention_of(listed, 1).sliding_window, 512);
  expect_error(R"({"model_type": "qwen3", "layer_types": ["full_attention"]})", ErrorCode::kInvalidArgument,
               "config.json/layer_types", "each of the 4 layers");
  expect_error(R"({"model_type": "qwen3", "layer_types": ["full_attention","full_attention","linear_attention","x"]})",
               ErrorCode::kUnsupported, "config.json/layer_types/2", "linear_attention");
  expect_error(R"({"model_type": "qwen3", "layer_types": ["sliding_attention","x","x","x"]})",
               ErrorCode::kInvalidArgument, "config.json/layer_types/0", "no sliding_window");
}

TEST(Config, ReadsRopeScalingsInBothSpellings) {
  const Rope llama3 =
      attention_of(parse(R"({"rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
      "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})"))
          .rope;
  EXPECT_EQ(llama3.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(llama3.theta, 500000.0);
  EXPECT_EQ(llama3.factor, 8.0);
  EXPECT_EQ(llama3.original_max_positions, 8192);

  const Rope linear = attention_of(parse(R"({"rope_scaling": {"type": "linear", "factor": 2.5}})")).rope;
  EXPECT_EQ(linear.scaling, RopeScaling::kLinear);
  EXPECT_EQ(linear.factor, 2.5);

  const Rope yarn =
      attention_of(parse(R"({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1000000, "factor": 4.0,
      "original_max_position_embeddings": 32768, "beta_fast": 16, "attention_factor": 1.25, "truncate": false}})"))
          .rope;
  EXPECT_EQ(yarn.scaling, RopeScaling::kYarn);
  EXPECT_EQ(yarn.theta, 1e6);
  EXPECT_EQ(yarn.beta_fast, 16.0);
  EXPECT_EQ(yarn.beta_slow, 1.0);
  EXPECT_EQ(yarn.attention_factor, 1.25);
  EXPECT_FALSE(yarn.yarn_truncate);

  const Rope plain = attention_of(parse(R"({"rope_parameters": {"rope_type": "default", "rope_theta": 5000}})")).rope;
  EXPECT_EQ(plain.scaling, RopeScaling::kNone);
  EXPECT_EQ(plain.theta, 5000.0);
  // transformers: YaRN without a factor takes the ratio of the lengths.
  const Rope ratio = attention_of(parse(R"({"max_position_embeddings": 65536,
      "rope_scaling": {"type": "yarn", "original_max_position_embeddings": 16384}})"))
                         .rope;
  EXPECT_EQ(ratio.factor, 4.0);
}

TEST(Config, RefusesRopeScalingsByName) {
  for (const char* type : {"dynamic", "longrope", "su", "mrope"}) {
    expect_error(R"({"rope_scaling": {"type": ")" + std::string(type) + R"(", "factor": 2.0}})",
                 ErrorCode::kUnsupported, "config.json/rope_scaling", type);
  }
  expect_error(R"({"rope_scaling": {"type": "linear"}})", ErrorCode::kInvalidArgument, "config.json/rope_scaling",
               "no \"factor\"");
  expect_error(R"({"rope_scaling": {"type": "linear", "factor": -1}})", ErrorCode::kInvalidArgument,
               "config.json/rope_scaling/factor", "over 0");
  expect_error(R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4}})",
               ErrorCode::kInvalidArgument, "config.json/rope_scaling", "not below");
  expect_error(R"({"rope_scaling": 4})", ErrorCode::kInvalidArgument, "config.json/rope_scaling", "object");
  expect_error(R"({"rope_parameters": {"full_attention": {}}})", ErrorCode::kUnsupported, "config.json/rope_parameters",
               "different layers");
  expect_error(R"({"partial_rotary_factor": 0.5})", ErrorCode::kUnsupported, "config.json/partial_rotary_factor",
               "0.5");
}

TEST(Config, RefusesOtherModelsByNameAndListsTheSupported) {
  expect_error(R"({"model_type": "mixtral"})", ErrorCode::kUnsupported, "config.json/model_type", "\"mixtral\"");
  expect_error(R"({"model_type": "gemma2"})", ErrorCode::kUnsupported, "config.json/model_type", "qwen3 (dense)");
  expect_error(R"({"architectures": ["LlamaForSequenceClassification"]})", ErrorCode::kUnsupported,
               "config.json/architectures", "LlamaForSequenceClassification");
  expect_error(R"({"model_type": null})", ErrorCode::kInvalidArgument, "config.json", "no \"model_type\"");
  expect_error(R"({"hidden_act": "gelu"})", ErrorCode::kUnsupported, "config.json/hidden_act", "\"gelu\"");
  EXPECT_FALSE(parse_config("[1]", "config.json"));
  EXPECT_FALSE(parse_config("", "config.json"));
  EXPECT_FALSE(parse_config("{", "config.json"));
}

TEST(Config, RefusesMissingWrongAndAbsurdNumbers) {
  for (const char* key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"}) {
    const std::string k = std::string("{\"") + key + "\": ";
    expect_error(k + "null}", ErrorCode::kInvalidArgument, "config.json", "no \"" + std::string(key) + "\"");
    const std::string where = std::string("config.json/") + key;
    expect_error(k + "0}", ErrorCode::kInvalidArgument, where, "is 0");
    expect_error(k + "-5}", ErrorCode::kInvalidArgument, where, "is -5");
    expect_error(k + "4611686018427387904}", ErrorCode::kInvalidArgument, where, "was expected");
    expect_error(k + "18446744073709551615}", ErrorCode::kInvalidArgument, where, "2^63");
    expect_error(k + "\"12\"}", ErrorCode::kInvalidArgument, where, "found string");
    expect_error(k + "1.5}", ErrorCode::kInvalidArgument, where, "integer");
  }
  expect_error(R"({"num_key_value_heads": 5})", ErrorCode::kInvalidArgument, "config.json", "shared evenly by 5");
  expect_error(R"({"num_attention_heads": 24})", ErrorCode::kInvalidArgument, "config.json", "no head_dim");
  expect_error(R"({"head_dim": 63})", ErrorCode::kInvalidArgument, "config.json", "even number");
  expect_error(R"({"rms_norm_eps": 0})", ErrorCode::kInvalidArgument, "config.json/rms_norm_eps", "over 0");
  expect_error(R"({"rope_theta": 0})", ErrorCode::kInvalidArgument, "config.json/rope_theta", "over 0");
  expect_error(R"({"torch_dtype": "int4"})", ErrorCode::kUnsupported, "config.json/torch_dtype", "int4");
  expect_error(R"({"tie_word_embeddings": 1})", ErrorCode::kInvalidArgument, "config.json/tie_word_embeddings",
               "true or false");
}

TEST(Config, RefusesDeepJson) {
  const std::string deep = std::string(1000000, '[');
  const auto shape = parse_config(deep, "config.json");
  ASSERT_FALSE(shape);
  EXPECT_EQ(shape.error().code, ErrorCode::kTooLarge);
}

}  // namespace
}  // namespace ullage::model
