#include "ullage/cost/step_cost.h"

#include <gtest/gtest.h>

#include <vector>

namespace ullage::cost {
namespace {

using model::DType;

// Llama-3.1-8B: 32 layers, hidden 4096, 32 heads and 8 KV heads of 128, feed-forward 14336, vocabulary 128256, untied.
model::ModelShape llama8b() {
  model::ModelShape shape;
  shape.architecture = "llama";
  shape.vocab_size = 128256;
  shape.hidden_size = 4096;
  shape.max_position_embeddings = 131072;
  model::LayerShape layer;
  model::Attention attention;
  attention.num_heads = 32;
  attention.num_kv_heads = 8;
  attention.head_dim = 128;
  layer.mixer = attention;
  layer.ffn = model::DenseFfn{14336, false};
  shape.layers.assign(32, layer);
  return shape;
}

StepCostModel on_h100(DType weights = DType::kBF16, model::KvDType kv = model::KvDType::kBF16) {
  model::ModelShape shape = llama8b();
  shape.weight_dtype = weights;
  return *make_step_cost_model(shape, *hardware::find_device("h100"), {.kv_dtype = kv});
}

TEST(StepCost, OneDecodeReadsTheWeights) {
  const std::vector<WorkItem> items{{1000, 1, true}};
  const StepCost cost = step_cost(on_h100(), items);
  // 8,030,261,248 parameters of 2 bytes, less the embedding table, of which one row is read.
  EXPECT_DOUBLE_EQ(cost.weight_bytes, 2.0 * (8030261248.0 - 128256.0 * 4096) + 2.0 * 4096);
  EXPECT_DOUBLE_EQ(cost.kv_read_bytes, 1000.0 * 131072);
  EXPECT_DOUBLE_EQ(cost.kv_write_bytes, 131072.0);
  // 2 FLOP a parameter of every matrix; norms do not count.
  EXPECT_DOUBLE_EQ(cost.linear_flops, 2.0 * (8030261248.0 - 128256.0 * 4096 - 65.0 * 4096));
  EXPECT_DOUBLE_EQ(cost.attention_flops, 32 * 4.0 * 32 * 128 * 1001);
  EXPECT_EQ(cost.bound, Bound::kMemory);
  EXPECT_DOUBLE_EQ(cost.seconds, (cost.weight_bytes + cost.kv_read_bytes + cost.kv_write_bytes) / 3.35e12);
}

TEST(StepCost, LongPrefillComputes) {
  const std::vector<WorkItem> items{{0, 8192, true}};
  const StepCost cost = step_cost(on_h100(), items);
  EXPECT_EQ(cost.bound, Bound::kCompute);
  EXPECT_DOUBLE_EQ(cost.attention_flops, 32 * 4.0 * 32 * 128 * (8192.0 * 8193 / 2));
  EXPECT_NEAR(cost.seconds * 989.4e12 / (cost.linear_flops + cost.attention_flops), 1.0, 1e-12);
}

TEST(StepCost, ChunksSumToTheWhole) {
  // A prompt in chunks does the same operations and writes as at once; each chunk reads the weights and the past again.
  const StepCostModel model = on_h100();
  const StepCost whole = step_cost(model, std::vector<WorkItem>{{0, 4096, true}});
  double flops = 0, written = 0, read = 0;
  for (int64_t first = 0; first < 4096; first += 512) {
    const StepCost chunk = step_cost(model, std::vector<WorkItem>{{first, 512, first + 512 == 4096}});
    flops += chunk.linear_flops + chunk.attention_flops;
    written += chunk.kv_write_bytes;
    read += chunk.kv_read_bytes;
  }
  EXPECT_DOUBLE_EQ(flops, whole.linear_flops + whole.attention_flops);
  EXPECT_DOUBLE_EQ(written, whole.kv_write_bytes);
  EXPECT_DOUBLE_EQ(read, 131072.0 * 512 * (0 + 1 + 2 + 3 + 4 + 5 + 6 + 7));
}

TEST(StepCost, BatchSharesTheWeights) {
  const StepCostModel model = on_h100();
  const std::vector<WorkItem> one{{100, 1, true}};
  const std::vector<WorkItem> eight(8, WorkItem{100, 1, true});
  EXPECT_LT(step_cost(model, eight).seconds, 1.1 * step_cost(model, one).seconds);
}

TEST(StepCost, DtypesCount) {
  const std::vector<WorkItem> items{{1000, 1, true}};
  const StepCost bf16 = step_cost(on_h100(), items);
  const StepCost q4 = step_cost(on_h100(DType::kQ4_1), items);
  EXPECT_DOUBLE_EQ(q4.weight_bytes / bf16.weight_bytes, 20.0 / 32 / 2);  // 20 bytes for 32 weights
  EXPECT_DOUBLE_EQ(step_cost(on_h100(DType::kBF16, model::KvDType::kF32), items).kv_read_bytes, 2 * bf16.kv_read_bytes);
  EXPECT_DOUBLE_EQ(on_h100(DType::kF32).attention_flops_per_second, 66.9e12);
}

TEST(StepCost, NothingCostsNothing) {
  EXPECT_EQ(step_cost(on_h100(), {}).seconds, 0);
  // Without a sampled token the output head stays unread.
  EXPECT_DOUBLE_EQ(step_cost(on_h100(), std::vector<WorkItem>{{0, 1, true}}).weight_bytes -
                       step_cost(on_h100(), std::vector<WorkItem>{{0, 1, false}}).weight_bytes,
                   2.0 * 128256 * 4096);
}

TEST(StepCost, RefusesDevicesWithoutFigures) {
  const auto unknown = make_step_cost_model(llama8b(), hardware::Device{}, StepCostOptions{});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  hardware::Device alone = *hardware::find_device("h100");
  alone.link_bandwidth = alone.host_bandwidth = 0;
  EXPECT_TRUE(make_step_cost_model(llama8b(), alone, StepCostOptions{}));
  StepCostOptions two;
  two.parallelism.tensor = 2;
  EXPECT_FALSE(make_step_cost_model(llama8b(), alone, two));
  StepCostOptions fast;
  fast.efficiency.bandwidth = 1.5;
  EXPECT_FALSE(make_step_cost_model(llama8b(), alone, fast));
}

}  // namespace
}  // namespace ullage::cost
