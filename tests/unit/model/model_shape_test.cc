#include "ullage/model/model_shape.h"

#include <string>

#include <gtest/gtest.h>

#include "ullage/model/config.h"

namespace ullage::model {
namespace {

ModelShape shape_of(const std::string& json) {
  const auto shape = parse_config(json, "config.json");
  EXPECT_TRUE(shape) << shape.error().to_string();
  return shape ? *shape : ModelShape{};
}

// The totals are those that the models' safetensors on the Hugging Face hub show.
TEST(CountParameters, EqualsThePublishedTotals) {
  const ParameterCounts llama = count_parameters(shape_of(
      R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336,
          "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8})"));
  EXPECT_EQ(llama.total(), 8'030'261'248);  // Llama-3.1-8B
  EXPECT_EQ(llama.embedding, llama.output_head);

  const ParameterCounts smollm = count_parameters(shape_of(
      R"({"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
          "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "tie_word_embeddings": true})"));
  EXPECT_EQ(smollm.total(), 134'515'008);  // SmolLM2-135M
  EXPECT_EQ(smollm.output_head, 0);

  EXPECT_EQ(count_parameters(shape_of(
                                 R"({"model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584,
                                     "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
                                     "num_key_value_heads": 4})"))
                .total(),
            7'615'616'512);  // Qwen2.5-7B: has biases

  EXPECT_EQ(count_parameters(shape_of(
                                 R"({"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 4096,
                                     "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32,
                                     "num_key_value_heads": 8, "head_dim": 128})"))
                .total(),
            8'190'735'360);  // Qwen3-8B: has norms of Q and K

  EXPECT_EQ(count_parameters(shape_of(
                                 R"({"model_type": "mistral", "vocab_size": 32768, "hidden_size": 4096,
                                     "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
                                     "num_key_value_heads": 8, "sliding_window": null})"))
                .total(),
            7'248'023'552);  // Mistral-7B-v0.3
}

TEST(KvSpec, FollowsTheLayersWindow) {
  LayerShape layer;
  Attention attention;
  attention.num_heads = 8;
  attention.num_kv_heads = 2;
  attention.head_dim = 64;
  layer.mixer = attention;
  EXPECT_EQ(kv_spec(layer), KvSpec(FullAttentionKv{2, 64, 64}));
  attention.sliding_window = 4096;
  layer.mixer = attention;
  EXPECT_EQ(kv_spec(layer), KvSpec(SlidingWindowKv{{2, 64, 64}, 4096}));
}

}  // namespace
}  // namespace ullage::model
