// Steps priced by a loop over every layer, request and token, against step_cost.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/unit/cost/shapes.h"
#include "ullage/base/random.h"
#include "ullage/cost/step_cost.h"

namespace ullage::cost {
namespace {

// Twelve layers: full, window 100, chunk 64, one that reads layer 0's cache; three times.
model::ModelShape mixed() {
  model::ModelShape shape = dense(12, 512, 1024, heads(8, 2, 64), 1000);
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    auto& attention = std::get<model::Attention>(shape.layers[i].mixer);
    if (i % 4 == 1) attention.sliding_window = 100;
    if (i % 4 == 2) attention.chunk = 64;
    if (i % 4 == 3) attention.kv_source_layer = 0;
  }
  return shape;
}

struct Sums {
  double read = 0, written = 0, attention_flops = 0;
};

Sums by_hand(const model::ModelShape& shape, const std::vector<WorkItem>& items, int64_t ranks) {
  Sums sums;
  for (const model::LayerShape& layer : shape.layers) {
    const auto& attention = std::get<model::Attention>(layer.mixer);
    const int64_t kv_heads = std::max<int64_t>(1, attention.num_kv_heads / ranks);
    const auto token_bytes = static_cast<double>(2 * kv_heads * attention.head_dim * 2);
    for (const WorkItem& item : items) {
      for (int64_t copy = 0; copy < item.count; ++copy) {
        int64_t oldest = item.first_position;  // that any of its tokens looks at
        for (int64_t t = 0; t < item.num_tokens; ++t) {
          const int64_t position = item.first_position + t;
          int64_t first_seen = 0;
          if (attention.sliding_window > 0) first_seen = std::max<int64_t>(0, position - attention.sliding_window + 1);
          if (attention.chunk > 0) first_seen = position - position % attention.chunk;
          if (t == 0) oldest = std::min(oldest, first_seen);
          const auto pairs = static_cast<double>(position - first_seen + 1);
          sums.attention_flops += 4.0 * static_cast<double>(attention.num_heads / ranks * attention.head_dim) * pairs;
          if (attention.kv_source_layer < 0) sums.written += token_bytes;
        }
        if (item.num_tokens > 0) sums.read += static_cast<double>(item.first_position - oldest) * token_bytes;
      }
    }
  }
  return sums;
}

TEST(BruteForce, AttentionOfEveryLayerAndToken) {
  const model::ModelShape shape = mixed();
  const hardware::Device device = *hardware::find_device("h100");
  RandomStream random(5);
  for (const int64_t ranks : {1, 2, 4}) {
    StepCostOptions options;
    options.parallelism.tensor = ranks;
    const StepCostModel model = *make_step_cost_model(shape, device, options);
    for (int round = 0; round < 40; ++round) {
      std::vector<WorkItem> items;
      for (uint64_t i = 0, n = 1 + random.below(5); i < n; ++i) {
        items.push_back(WorkItem{static_cast<int64_t>(random.below(400)), 1 + static_cast<int64_t>(random.below(200)),
                                 random.below(2) == 0, 1 + static_cast<int64_t>(random.below(3))});
      }
      const StepCost cost = step_cost(model, items);
      const Sums sums = by_hand(shape, items, ranks);
      EXPECT_NEAR(cost.kv_read_bytes, sums.read, 1e-9 * sums.read + 1e-9);
      EXPECT_NEAR(cost.kv_write_bytes, sums.written, 1e-9 * sums.written);
      EXPECT_NEAR(cost.attention_flops, sums.attention_flops, 1e-9 * sums.attention_flops);
    }
  }
}

TEST(BruteForce, WeightsOfEveryMatrix) {
  model::ModelShape shape = mixed();
  for (size_t i = 4; i < shape.layers.size(); ++i) {
    model::MoeFfn moe;
    moe.num_experts = i < 8 ? 16 : 32;
    moe.num_experts_per_token = 2;
    moe.intermediate_size = 128;
    shape.layers[i].ffn = moe;
  }
  const hardware::Device device = *hardware::find_device("h100");
  for (const int64_t ranks : {1, 2}) {
    for (const int64_t tokens : {1, 7, 300}) {
      StepCostOptions options;
      options.parallelism.tensor = ranks;
      const StepCost cost =
          step_cost(*make_step_cost_model(shape, device, options), std::vector<WorkItem>{{0, tokens, true}});
      double bytes = 0, flops = 0;
      for (const model::WeightMatrix& matrix : model::weight_matrices(shape)) {
        const model::WeightMatrix part = model::rank_part(matrix, options.parallelism);
        double touched = 1;
        double met = static_cast<double>(tokens);  // tokens that meet the matrix
        if (matrix.role == model::WeightRole::kEmbedding) continue;
        if (matrix.role == model::WeightRole::kOutputHead) met = 1;
        if (matrix.role == model::WeightRole::kExperts) {
          const auto experts = static_cast<double>(matrix.count);
          double untouched = 1;
          for (int64_t t = 0; t < tokens; ++t) untouched *= 1 - 2 / experts;
          touched = 1 - untouched;
          met *= 2 / experts;
        }
        bytes += touched * static_cast<double>(model::stored_bytes(part));
        if (part.is_multiplied) flops += 2 * met * static_cast<double>(model::num_parameters(part));
      }
      bytes += static_cast<double>(tokens * shape.hidden_size * 2 / ranks);  // rows of the embedding
      EXPECT_NEAR(cost.weight_bytes, bytes, 1e-9 * bytes) << ranks << " ranks, " << tokens << " tokens";
      EXPECT_NEAR(cost.linear_flops, flops, 1e-9 * flops) << ranks << " ranks, " << tokens << " tokens";
    }
  }
}

// DeepSeek-V3's attention, 2 layers: 128 heads, latent 512 + 64, heads of 128 + 64 and 128.
model::ModelShape latent(int64_t top_k) {
  model::ModelShape shape = dense(2, 7168, 18432, heads(128, 128, 128), 129280);
  model::LatentAttention attention;
  attention.num_heads = 128;
  attention.q_lora_rank = 1536;
  attention.kv_lora_rank = 512;
  attention.qk_nope_head_dim = 128;
  attention.qk_rope_head_dim = 64;
  attention.v_head_dim = 128;
  if (top_k > 0) attention.indexer = model::SparseIndexer{64, 128, top_k};
  for (model::LayerShape& layer : shape.layers) layer.mixer = attention;
  return shape;
}

TEST(Latent, DecodeReadsTheLatentOnceForAllHeads) {
  const StepCostModel model = *make_step_cost_model(latent(0), *hardware::find_device("h100"), StepCostOptions{});
  const StepCost decode = step_cost(model, std::vector<WorkItem>{{999, 1, true}});
  EXPECT_DOUBLE_EQ(decode.kv_read_bytes, 2 * 999 * 576 * 2.0);
  // Absorbed: scores over 576 elements, values over 512, for each head.
  EXPECT_DOUBLE_EQ(decode.attention_flops, 2 * 128 * 2.0 * (576 + 512) * 1000);
  // Expanded: scores over 192, values over 128; the past's latents are expanded to keys and values of all heads.
  const StepCost chunk = step_cost(model, std::vector<WorkItem>{{1000, 2, false}});
  EXPECT_DOUBLE_EQ(chunk.attention_flops,
                   2 * 128 * 2.0 * (192 + 128) * (1001 + 1002) + 2 * 2.0 * 512 * 128 * (128 + 128) * 1000);
}

TEST(Latent, RanksDoNotDivideTheCache) {
  StepCostOptions eight;
  eight.parallelism.tensor = 8;
  const std::vector<WorkItem> items{{999, 1, true}};
  const hardware::Device h100 = *hardware::find_device("h100");
  const StepCost one = step_cost(*make_step_cost_model(latent(0), h100, StepCostOptions{}), items);
  const StepCost of_eight = step_cost(*make_step_cost_model(latent(0), h100, eight), items);
  EXPECT_DOUBLE_EQ(of_eight.kv_read_bytes, one.kv_read_bytes);
  EXPECT_DOUBLE_EQ(of_eight.attention_flops, one.attention_flops / 8);
}

TEST(Latent, SparseReadsTheBestTokensAndEveryIndexKey) {
  const StepCostModel model = *make_step_cost_model(latent(2048), *hardware::find_device("h100"), StepCostOptions{});
  const StepCost cost = step_cost(model, std::vector<WorkItem>{{99999, 1, true}});
  EXPECT_DOUBLE_EQ(cost.kv_read_bytes, 2 * (2048 * 576 * 2.0 + 99999 * 132.0));
  EXPECT_DOUBLE_EQ(cost.attention_flops, 2 * (128 * 2.0 * (576 + 512) * 2048 + 64 * 2.0 * 128 * 100000));
}

TEST(States, CostTheSameAtAnyLength) {
  // Qwen3-Next's gated delta layer: 32 value heads of 128 x 128 in fp32, a convolution over 8,192 channels.
  model::ModelShape shape = dense(4, 2048, 5120, heads(16, 2, 256), 151936);
  model::LinearAttention linear;
  linear.num_key_heads = 16;
  linear.num_value_heads = 32;
  linear.key_head_dim = linear.value_head_dim = 128;
  linear.conv_kernel = 4;
  for (model::LayerShape& layer : shape.layers) layer.mixer = linear;
  const StepCostModel model = *make_step_cost_model(shape, *hardware::find_device("h100"), StepCostOptions{});
  const StepCost early = step_cost(model, std::vector<WorkItem>{{10, 1, true}});
  const StepCost late = step_cost(model, std::vector<WorkItem>{{100000, 1, true}});
  EXPECT_DOUBLE_EQ(early.kv_read_bytes, 4 * (32 * 128 * 128 * 4.0 + 8192 * 3 * 2));
  EXPECT_DOUBLE_EQ(early.kv_write_bytes, early.kv_read_bytes);
  EXPECT_DOUBLE_EQ(early.seconds, late.seconds);
}

TEST(Experts, ExpectedNumberIsTheBallsInBins) {
  EXPECT_DOUBLE_EQ(expected_experts(8, 2, 1), 2);
  EXPECT_NEAR(expected_experts(8, 2, 2), 8 * (1 - 0.75 * 0.75), 1e-12);
  EXPECT_NEAR(expected_experts(256, 8, 100000), 256, 1e-9);
  EXPECT_EQ(expected_experts(4, 4, 1), 4);
}

}  // namespace
}  // namespace ullage::cost
