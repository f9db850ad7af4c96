#include "ullage/model/gguf_shape.h"

#include <gtest/gtest.h>

#include "tests/unit/model/gguf_builder.h"

namespace ullage::model {
namespace {

using testing::GgufBuilder;
using testing::tiny_llama;

Result<ModelShape> shape_of(const GgufBuilder& builder) {
  const std::string bytes = builder.build();
  ULLAGE_TRY(const GgufFile file, testing::parse(bytes));
  return shape_from_gguf(file);
}

void expect_error(const GgufBuilder& builder, ErrorCode code, std::string_view part) {
  const auto shape = shape_of(builder);
  ASSERT_FALSE(shape) << "accepted; expected: " << part;
  EXPECT_EQ(shape.error().code, code) << shape.error().to_string();
  EXPECT_NE(shape.error().to_string().find(part), std::string::npos) << shape.error().to_string();
}

TEST(GgufShape, ReadsALlama) {
  const auto shape = shape_of(tiny_llama());
  ASSERT_TRUE(shape) << shape.error().to_string();
  EXPECT_EQ(shape->architecture, "llama");
  EXPECT_EQ(shape->name, "tiny");
  EXPECT_EQ(shape->vocab_size, 5);
  EXPECT_EQ(shape->hidden_size, 8);
  EXPECT_EQ(shape->max_position_embeddings, 64);
  EXPECT_TRUE(shape->has_tied_embeddings);
  ASSERT_EQ(shape->layers.size(), 1u);
  const auto& attention = std::get<Attention>(shape->layers[0].mixer);
  EXPECT_EQ(attention.num_heads, 2);
  EXPECT_EQ(attention.num_kv_heads, 1);
  EXPECT_EQ(attention.head_dim, 4);
  EXPECT_EQ(attention.rope.pairing, RopePairing::kAdjacent);
  EXPECT_EQ(attention.rope.rotary_dim, 4);
  EXPECT_FALSE(attention.has_qkv_bias);
}

TEST(GgufShape, QwenPairsHalvesAndHasItsOwnParts) {
  GgufBuilder two = tiny_llama("qwen2");
  two.tensor("output.weight", {8, 5});
  const auto qwen2 = shape_of(two);
  ASSERT_TRUE(qwen2) << qwen2.error().to_string();
  EXPECT_FALSE(qwen2->has_tied_embeddings);
  EXPECT_TRUE(std::get<Attention>(qwen2->layers[0].mixer).has_qkv_bias);
  EXPECT_EQ(std::get<Attention>(qwen2->layers[0].mixer).rope.pairing, RopePairing::kHalves);
  GgufBuilder three = tiny_llama("qwen3");
  three.u32("qwen3.attention.key_length", 6).u32("qwen3.attention.value_length", 6);
  const auto qwen3 = shape_of(three);
  ASSERT_TRUE(qwen3) << qwen3.error().to_string();
  EXPECT_TRUE(std::get<Attention>(qwen3->layers[0].mixer).has_qk_norm);
  EXPECT_EQ(std::get<Attention>(qwen3->layers[0].mixer).head_dim, 6);
}

TEST(GgufShape, ReadsRopeScalings) {
  const auto rope_of = [](const GgufBuilder& builder) {
    const auto shape = shape_of(builder);
    EXPECT_TRUE(shape) << shape.error().to_string();
    return shape ? std::get<Attention>(shape->layers[0].mixer).rope : Rope{};
  };
  const Rope linear =
      rope_of(tiny_llama().text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 2));
  EXPECT_EQ(linear.scaling, RopeScaling::kLinear);
  EXPECT_EQ(linear.factor, 2.0);
  EXPECT_EQ(rope_of(tiny_llama().f32("llama.rope.scale_linear", 4)).factor, 4.0);
  const Rope yarn = rope_of(tiny_llama()
                                .text("llama.rope.scaling.type", "yarn")
                                .f32("llama.rope.scaling.factor", 4)
                                .u32("llama.rope.scaling.original_context_length", 16));
  EXPECT_EQ(yarn.scaling, RopeScaling::kYarn);
  EXPECT_EQ(yarn.original_max_positions, 16);
  expect_error(tiny_llama().text("llama.rope.scaling.type", "longrope"), ErrorCode::kUnsupported, "\"longrope\"");
  expect_error(tiny_llama().text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.attn_factor", 1.5),
               ErrorCode::kUnsupported, "attn_factor: is 1.5");
}

TEST(GgufShape, RefusesOtherArchitecturesAndExpertsByName) {
  expect_error(tiny_llama("gemma2"), ErrorCode::kUnsupported, "general.architecture: the architecture \"gemma2\"");
  expect_error(tiny_llama().u32("llama.expert_count", 8), ErrorCode::kUnsupported, "8 experts");
  expect_error(GgufBuilder().u32("k", 1), ErrorCode::kCorrupt, "general.architecture: is missing");
}

TEST(GgufShape, RefusesMissingAndAbsurdNumbers) {
  GgufBuilder bare;
  bare.text("general.architecture", "llama").tensor("token_embd.weight", {8, 5});
  expect_error(bare, ErrorCode::kCorrupt, "llama.embedding_length: is missing");
  expect_error(GgufBuilder().text("general.architecture", "llama").u32("llama.vocab_size", 0),
               ErrorCode::kInvalidArgument, "llama.vocab_size: is 0");
  GgufBuilder many = GgufBuilder();
  many.text("general.architecture", "llama").u32("llama.vocab_size", 4).u32("llama.embedding_length", 8);
  many.u32("llama.context_length", 64).u32("llama.block_count", 4000000000u);
  expect_error(many, ErrorCode::kInvalidArgument, "block_count: is 4000000000");
  many = tiny_llama();
  many.u32("llama.attention.key_length", 4).u32("llama.attention.value_length", 8);
  expect_error(many, ErrorCode::kUnsupported, "attention.value_length: is 8");
  GgufBuilder text = GgufBuilder();
  text.text("general.architecture", "llama").u32("llama.vocab_size", 4).text("llama.embedding_length", "8");
  expect_error(text, ErrorCode::kCorrupt, "an integer was expected");
}

TEST(GgufShape, RefusesMoreTokensThanRowsOfTheEmbedding) {
  GgufBuilder b;
  b.text("general.architecture", "llama").strings("tokenizer.ggml.tokens", {"a", "b", "c"});
  b.tensor("token_embd.weight", {8, 2});
  expect_error(b, ErrorCode::kCorrupt, "has 3 tokens, but the model only 2");
}

TEST(GgufShape, ReadsPerLayerListsOnlyWhenUniform) {
  GgufBuilder b;
  b.text("general.architecture", "llama").u32("llama.vocab_size", 4).u32("llama.embedding_length", 8);
  b.u32("llama.context_length", 64).u32("llama.block_count", 2).u32("llama.attention.head_count", 2);
  GgufBuilder uneven = b;
  b.array<int32_t>("llama.feed_forward_length", 5, {12, 12});
  const auto shape = shape_of(b);
  ASSERT_TRUE(shape) << shape.error().to_string();
  EXPECT_EQ(std::get<DenseFfn>(shape->layers[1].ffn).intermediate_size, 12);
  uneven.array<int32_t>("llama.feed_forward_length", 5, {12, 16});
  expect_error(uneven, ErrorCode::kUnsupported, "differs between layers");
}

}  // namespace
}  // namespace ullage::model
