#include "ullage/model/gguf_plan.h"

#include <string>

#include <gtest/gtest.h>

#include "gguf_builder.h"

namespace ullage::model {
namespace {

using testing::GgufBuilder;

GgufFile parse_any(const std::string& file) {
  auto parsed = GgufFile::parse(std::as_bytes(std::span(file)), "m.gguf", GgufTypes::kAny);
  EXPECT_TRUE(parsed) << parsed.error().to_string();
  return *std::move(parsed);
}

// The keys that every model has.
GgufBuilder model(const std::string& architecture, uint32_t num_blocks) {
  GgufBuilder b;
  const std::string prefix = architecture + ".";
  b.text("general.architecture", architecture)
      .u32(prefix + "block_count", num_blocks)
      .u32(prefix + "context_length", 4096)
      .u32(prefix + "embedding_length", 256)
      .u32(prefix + "attention.head_count", 4);
  b.tensor("token_embd.weight", {256, 512}, DType::kQ6_K).tensor("output.weight", {256, 512}, DType::kQ6_K);
  return b;
}

void attention(GgufBuilder& b, const std::string& block, uint64_t kv_rows) {
  b.tensor(block + "attn_q.weight", {256, 256}, DType::kIQ4_XS)
      .tensor(block + "attn_k.weight", {256, kv_rows}, DType::kQ3_K)
      .tensor(block + "attn_v.weight", {256, kv_rows}, DType::kQ6_K)
      .tensor(block + "attn_output.weight", {256, 256}, DType::kIQ4_XS);
}

void dense(GgufBuilder& b, const std::string& block, uint64_t width) {
  b.tensor(block + "ffn_gate.weight", {256, width}, DType::kQ2_K)
      .tensor(block + "ffn_up.weight", {256, width}, DType::kQ2_K)
      .tensor(block + "ffn_down.weight", {width, 256}, DType::kQ3_K);
}

TEST(GgufPlan, EachMatrixHasItsOwnTensorsType) {
  GgufBuilder b = model("internlm2", 2);
  b.u32("internlm2.attention.head_count_kv", 2).u32("internlm2.feed_forward_length", 512);
  for (const std::string block : {"blk.0.", "blk.1."}) {
    attention(b, block, 128);
    dense(b, block, 512);
  }
  const std::string bytes = b.build();
  const auto shape = planning_shape_from_gguf(parse_any(bytes));
  ASSERT_TRUE(shape) << shape.error().to_string();
  EXPECT_TRUE(shape->unservable);
  const auto& mixer = std::get<Attention>(shape->layers[1].mixer);
  EXPECT_EQ(mixer.num_kv_heads, 2);
  EXPECT_EQ(mixer.head_dim, 64);
  EXPECT_TRUE(std::get<DenseFfn>(shape->layers[1].ffn).is_gated);
  const auto stored = [&](const char* module, WeightRole role, int64_t rows, int64_t columns) {
    return stored_bytes(format_of(*shape, module, role), rows, columns);
  };
  EXPECT_EQ(stored("model.layers.1.self_attn.q_proj", WeightRole::kAttention, 256, 256), 256 * 136);
  EXPECT_EQ(stored("model.layers.0.self_attn.k_proj", WeightRole::kAttention, 128, 256), 128 * 110);
  EXPECT_EQ(stored("model.layers.0.mlp.up_proj", WeightRole::kFfn, 512, 256), 512 * 84);
  EXPECT_EQ(stored("model.layers.0.mlp.down_proj", WeightRole::kFfn, 256, 512), 256 * 2 * 110);
  EXPECT_EQ(stored("lm_head", WeightRole::kOutputHead, 512, 256), 512 * 210);
  EXPECT_EQ(stored("model.embed_tokens", WeightRole::kEmbedding, 512, 256), 512 * 210);
}

// gemma3: every sixth layer is full, the others have a window.
TEST(GgufPlan, WindowsFollowTheArchitecturesPattern) {
  GgufBuilder b = model("gemma3", 6);
  b.u32("gemma3.attention.head_count_kv", 2).u32("gemma3.attention.sliding_window", 1024);
  for (int i = 0; i < 6; ++i) attention(b, "blk." + std::to_string(i) + ".", 128);
  const std::string bytes = b.build();
  const auto shape = planning_shape_from_gguf(parse_any(bytes));
  ASSERT_TRUE(shape) << shape.error().to_string();
  EXPECT_EQ(std::get<Attention>(shape->layers[4].mixer).sliding_window, 1024);
  EXPECT_EQ(std::get<Attention>(shape->layers[5].mixer).sliding_window, 0);

  GgufBuilder unknown = model("newmodel", 1);
  unknown.u32("newmodel.attention.sliding_window", 1024);
  attention(unknown, "blk.0.", 256);
  const std::string unknown_bytes = unknown.build();
  const auto refused = planning_shape_from_gguf(parse_any(unknown_bytes));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(refused.error().message.find("newmodel"), std::string::npos);
}

// deepseek2 with experts behind one dense layer, and a layer that drafts.
TEST(GgufPlan, LatentAttentionExpertsAndDraftLayers) {
  GgufBuilder b = model("deepseek2", 3);
  b.u32("deepseek2.attention.kv_lora_rank", 512)
      .u32("deepseek2.attention.key_length", 576)
      .u32("deepseek2.attention.value_length", 512)
      .u32("deepseek2.attention.key_length_mla", 192)
      .u32("deepseek2.attention.value_length_mla", 128)
      .u32("deepseek2.rope.dimension_count", 64)
      .u32("deepseek2.expert_count", 4)
      .u32("deepseek2.expert_used_count", 2)
      .u32("deepseek2.nextn_predict_layers", 1);
  for (int i = 0; i < 3; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    b.tensor(block + "attn_kv_a_mqa.weight", {256, 576}).tensor(block + "attn_output.weight", {512, 256});
    if (i == 0) {
      dense(b, block, 512);
      continue;
    }
    b.tensor(block + "ffn_gate_exps.weight", {256, 256, 4}, DType::kIQ1_S)
        .tensor(block + "ffn_up_exps.weight", {256, 256, 4}, DType::kIQ1_S)
        .tensor(block + "ffn_down_exps.weight", {256, 256, 4}, DType::kIQ1_S)
        .tensor(block + "ffn_up_shexp.weight", {256, 512}, DType::kQ4_K);
  }
  const std::string bytes = b.build();
  const auto shape = planning_shape_from_gguf(parse_any(bytes));
  ASSERT_TRUE(shape) << shape.error().to_string();
  ASSERT_EQ(shape->layers.size(), 2u);
  EXPECT_EQ(shape->draft_layers.size(), 1u);
  const auto& latent = std::get<LatentAttention>(shape->layers[0].mixer);
  EXPECT_EQ(latent.qk_nope_head_dim, 128);
  EXPECT_EQ(latent.v_head_dim, 128);
  const auto& experts = std::get<MoeFfn>(shape->layers[1].ffn);
  EXPECT_EQ(experts.intermediate_size, 256);
  EXPECT_EQ(experts.shared_intermediate_size, 512);
  EXPECT_EQ(stored_bytes(format_of(*shape, "model.layers.1.mlp.experts.up_proj", WeightRole::kExperts), 256, 256),
            256 * 50);
}

// nemotron_h: head counts of 0 where a layer has a state.
TEST(GgufPlan, StatesAndAttentionByLayer) {
  GgufBuilder b;
  b.text("general.architecture", "nemotron_h")
      .u32("nemotron_h.block_count", 3)
      .u32("nemotron_h.context_length", 4096)
      .u32("nemotron_h.embedding_length", 256)
      .array<int32_t>("nemotron_h.attention.head_count", 5, {0, 4, 0})
      .array<int32_t>("nemotron_h.attention.head_count_kv", 5, {0, 2, 0})
      .u32("nemotron_h.ssm.conv_kernel", 4)
      .u32("nemotron_h.ssm.inner_size", 512)
      .u32("nemotron_h.ssm.state_size", 128)
      .u32("nemotron_h.ssm.time_step_rank", 8)
      .u32("nemotron_h.ssm.group_count", 2);
  b.tensor("token_embd.weight", {256, 512})
      .tensor("blk.0.ssm_conv1d.weight", {4, 1024})
      .tensor("blk.0.ssm_in.weight", {256, 1544})
      .tensor("blk.1.attn_output.weight", {256, 256})
      .tensor("blk.1.attn_k.weight", {256, 128})
      .tensor("blk.2.ffn_up.weight", {256, 1024})
      .tensor("blk.2.ffn_down.weight", {1024, 256});
  const std::string bytes = b.build();
  const auto shape = planning_shape_from_gguf(parse_any(bytes));
  ASSERT_TRUE(shape) << shape.error().to_string();
  const auto& state = std::get<StateSpace>(shape->layers[0].mixer);
  EXPECT_EQ(state.num_heads, 8);
  EXPECT_EQ(state.head_dim, 64);
  EXPECT_EQ(state.num_groups, 2);
  EXPECT_EQ(std::get<Attention>(shape->layers[1].mixer).num_kv_heads, 2);
  EXPECT_TRUE(std::holds_alternative<NoMixer>(shape->layers[2].mixer));
  EXPECT_FALSE(std::get<DenseFfn>(shape->layers[2].ffn).is_gated);
}

// One file, and the same as three parts as llama-gguf-split makes them: keys in the first, tensors in order.
TEST(GgufPlan, PartsAreOneModel) {
  const auto add_layer = [](GgufBuilder& b, int layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    attention(b, block, 128);
    dense(b, block, 512);
  };
  const auto keys = [](GgufBuilder& b) {
    b.u32("internlm2.attention.head_count_kv", 2).u32("internlm2.feed_forward_length", 512);
  };
  GgufBuilder whole = model("internlm2", 2);
  keys(whole);
  add_layer(whole, 0);
  add_layer(whole, 1);
  const auto part = [&](uint32_t number, uint32_t count) {
    GgufBuilder b = number == 0 ? model("internlm2", 2) : GgufBuilder();
    if (number == 0) keys(b);
    b.u32("split.no", number).u32("split.count", count).u32("split.tensors.count", 16);
    if (number > 0) add_layer(b, static_cast<int>(number) - 1);
    return b.build();
  };
  const std::string one = whole.build();
  const std::string bytes[] = {part(0, 3), part(1, 3), part(2, 3)};
  const auto join = [](const std::vector<const std::string*>& files) {
    std::vector<GgufFile> parts;
    for (const std::string* file : files) parts.push_back(parse_any(*file));
    return GgufFile::join(std::move(parts));
  };
  const auto joined = join({&bytes[0], &bytes[1], &bytes[2]});
  ASSERT_TRUE(joined) << joined.error().to_string();
  const auto from_parts = planning_shape_from_gguf(*joined);
  const auto from_one = planning_shape_from_gguf(parse_any(one));
  ASSERT_TRUE(from_parts) << from_parts.error().to_string();
  ASSERT_TRUE(from_one);
  EXPECT_EQ(count_parameters(*from_parts).total(), count_parameters(*from_one).total());
  EXPECT_EQ(from_parts->layers.size(), 2U);
  const auto expect_corrupt = [](const Result<GgufFile>& file) {
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, ErrorCode::kCorrupt) << file.error().to_string();
  };
  expect_corrupt(join({&bytes[0], &bytes[2], &bytes[1]}));
  expect_corrupt(join({&bytes[0], &bytes[1]}));
  expect_corrupt(join({&bytes[0], &bytes[1], &bytes[1]}));
}

TEST(GgufPlan, AFileWithoutALayersTensorsIsRefused) {
  const std::string bytes = model("llama", 1).build();
  const auto shape = planning_shape_from_gguf(parse_any(bytes));
  ASSERT_FALSE(shape);
  EXPECT_NE(shape.error().message.find("layer 0"), std::string::npos) << shape.error().message;
}

}  // namespace
}  // namespace ullage::model
