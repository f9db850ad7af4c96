#include "ullage/cost/crossovers.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/cost/shapes.h"

namespace ullage::cost {
namespace {

// Public lessons on the KV cache price steps with 0.8 of the bandwidth and 0.55 of the bf16 FLOP/s, count every
// parameter in every step, and read the cache of the full final length. Their figures are expected here to the digits
// that they print.
StepCostModel lesson(const model::ModelShape& shape, const char* device_name,
                     model::KvDType kv = model::KvDType::kBF16) {
  StepCostOptions options;
  options.kv_dtype = kv;
  options.counts_all_parameters = true;
  options.efficiency.bandwidth = 0.8;
  options.efficiency.matmul = 0.55;
  hardware::Device device = *hardware::find_device(device_name);
  device.flops.bf16 = device_name == std::string_view("a100-80gb") ? 312e12 : 989e12;
  return *make_step_cost_model(shape, device, options);
}

TEST(Lessons, ContextAtWhichTheCacheOutweighsTheWeights) {
  const StepCostModel bf16 = lesson(llama_8b(), "h100");
  EXPECT_NEAR(kv_outweighs_weights_tokens(bf16, 1), 122532, 0.5);
  EXPECT_NEAR(kv_outweighs_weights_tokens(bf16, 8), 15317, 0.5001);
  EXPECT_NEAR(kv_outweighs_weights_tokens(bf16, 64), 1915, 0.5);
  EXPECT_NEAR(kv_outweighs_weights_tokens(lesson(llama_8b(), "h100", model::KvDType::kFP8E4M3), 1), 245064, 0.5);
}

TEST(Lessons, PrefillHasAFloor) {
  const StepCostModel model = lesson(qwen3_8b(), "h100");
  EXPECT_NEAR(prefill_cost(model, 1).seconds * 1e3, 6.1, 0.05);
  EXPECT_NEAR(prefill_cost(model, 128).seconds * 1e3, 6.1, 0.05);
  EXPECT_NEAR(prefill_cost(model, 4096).seconds * 1e3, 132, 0.5);
  EXPECT_EQ(prefill_cost(model, 128).bound, Bound::kMemory);
  EXPECT_EQ(prefill_cost(model, 4096).bound, Bound::kCompute);
  EXPECT_EQ(compute_bound_prompt(model), 203);
  EXPECT_NEAR(prefill_cost(model, 32768).seconds * 1e3, 1569, 0.5);
}

TEST(Lessons, ItlOfABatch) {
  // Concurrent requests of 4,096 + 256 tokens.
  EXPECT_NEAR(prefill_cost(lesson(qwen3_14b(), "a100-80gb"), 4096).seconds * 1e3, 745, 0.5);
  EXPECT_NEAR(prefill_cost(lesson(qwen3_14b(), "h100"), 4096).seconds * 1e3, 235, 0.5);
  EXPECT_NEAR(decode_cost(lesson(qwen3_8b(), "h100"), 12, 33024).seconds * 1e3, 27.9, 0.05);
  EXPECT_NEAR(decode_cost(lesson(qwen3_8b(), "h100"), 32, 4352).seconds * 1e3, 13.8, 0.05);
  EXPECT_NEAR(decode_cost(lesson(qwen3_8b(), "h100", model::KvDType::kFP8E4M3), 32, 4352).seconds * 1e3, 9.9, 0.05);
  EXPECT_NEAR(decode_cost(lesson(qwen3_14b(), "h200"), 64, 4352).seconds * 1e3, 19.6, 0.05);
}

TEST(Lessons, DecodeTurnsComputeBound) {
  const StepCostModel model = lesson(qwen3_14b(), "h100");
  const StepCost cost = decode_cost(model, 256, 144);
  EXPECT_NEAR(cost.memory_seconds * 1e3, 13.3, 0.05);
  EXPECT_NEAR(cost.compute_seconds * 1e3, 14.0, 0.05);
  EXPECT_EQ(compute_bound_batch(model, 144), 242);
  EXPECT_NEAR(weight_share(cost), 0.83, 0.005);
  EXPECT_EQ(binding(cost).bound, Bound::kCompute);
  EXPECT_EQ(binding(cost).next, Bound::kMemory);
  EXPECT_NEAR(binding(cost).margin, cost.compute_seconds / cost.memory_seconds, 1e-12);
}

TEST(Lessons, PromptTokensThatRideFree) {
  const std::vector<WorkItem> decodes{{4351, 1, true, 32}};
  EXPECT_EQ(free_prefill_tokens(lesson(qwen3_8b(), "h100"), decodes, 0, true), 420);
  // With its own attention the slice is shorter; none is free when the step computes already.
  EXPECT_LT(free_prefill_tokens(lesson(qwen3_8b(), "h100"), decodes), 420);
  EXPECT_EQ(free_prefill_tokens(lesson(qwen3_14b(), "h100"), std::vector<WorkItem>{{143, 1, true, 256}}), 0);
}

TEST(Lessons, GaugesOfDcgm) {
  const StepCost short_prompts = decode_cost(lesson(qwen3_8b(), "h100"), 32, 4352);
  EXPECT_NEAR(tensor_duty(short_prompts), 0.045, 0.0005);
  EXPECT_NEAR(dram_duty(short_prompts), 0.8, 1e-9);
  EXPECT_NEAR(tensor_duty(decode_cost(lesson(qwen3_8b(), "h100"), 12, 33024)), 0.016, 0.0005);
  EXPECT_NEAR(tensor_duty(decode_cost(lesson(qwen3_14b(), "h200"), 64, 4352)), 0.11, 0.005);
}

TEST(Lessons, MbuGivesTokensPerSecond) {
  StepCostOptions options;
  options.counts_all_parameters = true;
  for (const auto& [mbu, tokens] : {std::pair{0.55, 115.0}, std::pair{0.6, 125.0}}) {
    options.efficiency.bandwidth = mbu;
    const StepCostModel model = *make_step_cost_model(llama_8b(), *hardware::find_device("h100"), options);
    const StepCost cost = decode_cost(model, 1, 1);
    EXPECT_NEAR(1 / cost.seconds, tokens, 0.5);
    EXPECT_NEAR(mbu_at(cost, cost.seconds), mbu, 1e-9);
  }
}

TEST(Crossovers, RidgeIsPeakOverBandwidth) {
  const StepCostModel model = *make_step_cost_model(llama_8b(), *hardware::find_device("h100"), StepCostOptions{});
  EXPECT_NEAR(ridge_flops_per_byte(model), 989.4e12 / 3.35e12, 1e-6);
  const StepCostModel reached = lesson(llama_8b(), "h100");
  EXPECT_NEAR(reached_ridge_flops_per_byte(reached), 989e12 * 0.55 / (3.35e12 * 0.8), 1e-6);
  // At the crossover the work's intensity is the ridge that is reached.
  EXPECT_NEAR(flops_per_byte(prefill_cost(reached, compute_bound_prompt(reached))),
              reached_ridge_flops_per_byte(reached), 1.5);
}

TEST(Crossovers, ReloadBreaksEvenWhereBothTakeAsLong) {
  const StepCostModel model = lesson(llama_8b(), "h100");
  const double link = 5e9;
  const int64_t tokens = reload_break_even_tokens(model, link, 0.05);
  ASSERT_GT(tokens, 1);
  EXPECT_EQ(reload(model, tokens, link, 0.05).bytes, static_cast<double>(tokens) * 131072);
  EXPECT_LE(reload(model, tokens, link, 0.05).reload_seconds, reload(model, tokens, link, 0.05).recompute_seconds);
  EXPECT_GT(reload(model, tokens - 1, link, 0.05).reload_seconds,
            reload(model, tokens - 1, link, 0.05).recompute_seconds);
  EXPECT_EQ(reload_break_even_tokens(model, 0, 0), 0);
}

TEST(Crossovers, AWindowNeverOutweighs) {
  model::Attention attention = heads(32, 8, 128);
  attention.sliding_window = 128;
  const model::ModelShape shape = dense(32, 4096, 14336, attention, 128256);
  const StepCostModel model = *make_step_cost_model(shape, *hardware::find_device("h100"), StepCostOptions{});
  EXPECT_EQ(kv_outweighs_weights_tokens(model, 1), 0);
  EXPECT_EQ(request_cache_bytes(model, 100), 100.0 * 131072);
  EXPECT_EQ(request_cache_bytes(model, 1000), 128.0 * 131072);
}

}  // namespace
}  // namespace ullage::cost
