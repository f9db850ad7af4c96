// Budgets by hand, and what must hold for every one.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "ullage/hardware/device.h"
#include "ullage/memory/budget.h"

namespace ullage::memory {
namespace {

// Gated feed-forward, grouped-query attention, no biases: what a hand can count.
model::ModelShape dense(int64_t layers, int64_t hidden, int64_t intermediate, int64_t heads, int64_t kv_heads,
                        int64_t vocab) {
  model::ModelShape shape;
  shape.hidden_size = hidden;
  shape.vocab_size = vocab;
  shape.max_position_embeddings = 8192;
  model::Attention attention;
  attention.num_heads = heads;
  attention.num_kv_heads = kv_heads;
  attention.head_dim = 128;
  attention.rope.rotary_dim = 128;
  shape.layers.assign(static_cast<size_t>(layers), {attention, model::DenseFfn{.intermediate_size = intermediate}});
  return shape;
}
model::ModelShape llama_8b() { return dense(32, 4096, 14336, 32, 8, 128256); }
model::ModelShape llama_70b() { return dense(80, 8192, 28672, 64, 8, 128256); }

hardware::Device device(double usable_gib, double link = 450e9) {
  hardware::Device d;
  d.id = "test";
  d.kind = "H100";
  d.nominal_memory = Bytes(80 * kGiB);
  d.usable_memory = Bytes(static_cast<int64_t>(usable_gib * static_cast<double>(kGiB)));
  d.link_bandwidth = link;
  return d;
}

const EngineProfile* profile(const char* name) {
  const auto found = find_engine_profile(name);
  EXPECT_TRUE(found) << found.error().to_string();
  return *found;
}

MemoryBudget budget_of(const BudgetInput& input) {
  const auto budget = make_budget(input);
  EXPECT_TRUE(budget) << budget.error().to_string();
  return *budget;
}

constexpr int64_t kLlamaLayer = 2 * (4096 * 4096 * 2 + 2 * 1024 * 4096 + 3 * 4096 * 14336 + 2 * 4096);

TEST(Budget, OfVllm019ByHand) {
  const model::ModelShape shape = llama_8b();
  const hardware::Device d = device(80);
  const MemoryBudget budget =
      budget_of({.shape = &shape, .device = &d, .profile = profile("vllm-0.19"), .gpu_memory_utilization = 0.95});
  // 32 layers, embedding and output head, the final norm; a table of cosines and sines of 8,192 x 128.
  const int64_t weights = 32 * kLlamaLayer + 2 * 2 * 128256 * 4096 + 2 * 4096 + 8192 * 128 * 2;
  // 14 B for each logit of 1,024 requests, 132 rows of 4 B; hidden of 8,192 + 1,024 tokens; 44 MiB.
  const int64_t activations = 128256 * (14 * 1024 + 4 * 132) + (8192 + 1024) * 4096 * 2 + 44 * kMiB;
  EXPECT_EQ(budget.requested.value, 76 * kGiB);
  EXPECT_EQ(budget.weights.bytes.value, weights);
  EXPECT_EQ(budget.activations.bytes.value, activations);
  EXPECT_EQ(budget.runtime.bytes.value, 256 * kMiB);
  EXPECT_FALSE(budget.are_graphs_subtracted);
  EXPECT_EQ(budget.kv_pool.bytes.value, 76 * kGiB - weights - activations - 256 * kMiB);
  EXPECT_EQ(budget.weights.tier, Tier::kExact);
  EXPECT_EQ(budget.kv_pool.tier, Tier::kCalibrated);
  EXPECT_GT(budget.kv_pool.error.value, 0);
}

TEST(Budget, FeedForwardCountsWhereLogitsAreFew) {
  const model::ModelShape shape = llama_8b();
  const hardware::Device d = device(80);
  const MemoryBudget budget = budget_of({.shape = &shape,
                                         .device = &d,
                                         .profile = profile("vllm-0.19"),
                                         .max_num_seqs = 1,
                                         .max_num_batched_tokens = 8192});
  // Gate, up and their product, and five copies of hidden.
  EXPECT_EQ(budget.activations.bytes.value, 8192 * 2 * (3 * 14336 + 5 * 4096) + 44 * kMiB);
}

TEST(Budget, OlderSamplersSort) {
  const model::ModelShape shape = llama_8b();
  const hardware::Device d = device(80);
  const MemoryBudget budget = budget_of({.shape = &shape, .device = &d, .profile = profile("vllm-0.10")});
  EXPECT_EQ(budget.activations.bytes.value, int64_t{128256} * 38 * 1024 + (8192 + 1024) * 4096 * 2 + 44 * kMiB);
}

TEST(Budget, WeightsAreDividedAndNormsAreNot) {
  const model::ModelShape shape = llama_8b();
  const RankWeights one = rank_weights(shape, {});
  const RankWeights two = rank_weights(shape, {.tensor = 2});
  const int64_t norms = (32 * 2 + 1) * 4096 * 2;
  EXPECT_EQ(two.total.value, (one.total.value - norms) / 2 + norms);
  // 16 ranks: a KV head each, eight of them twice.
  const RankWeights sixteen = rank_weights(shape, {.tensor = 16});
  const int64_t kv = 2 * 32 * 2 * 1024 * 4096;
  EXPECT_EQ(sixteen.total.value, (one.total.value - norms - kv) / 16 + kv / 8 + norms);
  // Stages: the first has the embedding, the last the output head and the norm.
  const model::Parallelism stages{.pipeline = 4};
  const ModelMemory memory = make_model_memory(shape);
  const int64_t table = 2 * 128256 * 4096;
  EXPECT_EQ(stage_weights(memory, stages, 0).total.value, 8 * kLlamaLayer + table);
  EXPECT_EQ(stage_weights(memory, stages, 1).total.value, 8 * kLlamaLayer);
  EXPECT_EQ(stage_weights(memory, stages, 3).total.value, 8 * kLlamaLayer + table + 2 * 4096);
  EXPECT_EQ(rank_weights(memory, stages).total, stage_weights(memory, stages, 3).total);
}

TEST(Budget, KindsOfLayersSumToTheListOfMatrices) {
  model::ModelShape shape = llama_8b();
  for (size_t i = 0; i < 10; ++i) shape.layers[i * 3].ffn = model::DenseFfn{.intermediate_size = 4096};
  shape.has_tied_embeddings = true;
  int64_t sum = 0;
  for (const model::WeightMatrix& matrix : model::weight_matrices(shape)) {
    sum += model::stored_bytes(model::rank_part(matrix, {.tensor = 4}));
  }
  const RankWeights weights = rank_weights(shape, {.tensor = 4});
  EXPECT_EQ(make_model_memory(shape).layer_kinds.size(), 2U);
  EXPECT_EQ(weights.total.value, sum);
  EXPECT_EQ(weights.total, weights.embedding + weights.layers + weights.experts + weights.other);
}

TEST(Budget, WeightsThatDoNotFitSayByHowMuch) {
  const model::ModelShape shape = llama_70b();
  const hardware::Device d = device(79.19);
  BudgetInput input{.shape = &shape, .device = &d, .profile = profile("vllm-0.29")};
  MemoryBudget budget = budget_of(input);
  EXPECT_LT(budget.kv_pool.bytes.value, -55 * kGiB);
  explain_budget(input, budget);
  EXPECT_NE(budget.kv_pool.rule.find("too little"), std::string::npos) << budget.kv_pool.rule;
  input.parallelism.tensor = 4;
  EXPECT_GT(budget_of(input).kv_pool.bytes.value, 30 * kGiB);
}

TEST(Budget, TermsSumWhateverTheEngine) {
  const model::ModelShape shape = llama_8b();
  const ModelMemory memory = make_model_memory(shape);
  for (const EngineProfile& p : engine_profiles()) {
    for (const double usable : {14.58, 44.39, 79.19, 178.3}) {
      for (const int64_t tensor : {1, 2, 8}) {
        for (const int64_t pipeline : {1, 3}) {
          const hardware::Device d = device(usable, tensor == 8 ? 0 : 450e9);
          BudgetInput input{.model = &memory, .device = &d, .profile = &p};
          input.parallelism = {.tensor = tensor, .pipeline = pipeline};
          input.max_model_len = 8192;
          const MemoryBudget b = budget_of(input);
          const Bytes graphs = b.are_graphs_subtracted ? b.graphs.bytes : Bytes(0);
          EXPECT_EQ(b.requested.value,
                    (b.weights.bytes + b.activations.bytes + graphs + b.runtime.bytes + b.kv_pool.bytes).value)
              << p.name;
          EXPECT_LE(b.requested, b.capacity);
          EXPECT_GE(std::min({b.weights.bytes.value, b.activations.bytes.value, b.runtime.bytes.value}), 0);
        }
      }
    }
  }
}

TEST(Budget, GivenPoolAndGivenReserveReplaceRules) {
  const model::ModelShape shape = llama_8b();
  const hardware::Device d = device(79.19);
  BudgetInput input{.shape = &shape, .device = &d, .profile = profile("vllm")};
  input.kv_memory = Bytes(30 * kGiB);
  EXPECT_EQ(budget_of(input).kv_pool.bytes.value, 30 * kGiB);
  EXPECT_EQ(budget_of(input).kv_pool.tier, Tier::kGiven);
  input.kv_memory.reset();
  input.activation_reserve = Bytes(3 * kGiB);
  EXPECT_EQ(budget_of(input).activations.bytes.value, 3 * kGiB);
  EXPECT_EQ(budget_of(input).activations.tier, Tier::kGiven);
}

TEST(Budget, GraphsAreTakenFromThePoolSince0202) {
  const model::ModelShape shape = llama_8b();
  const hardware::Device d = device(79.19);
  BudgetInput input{.shape = &shape, .device = &d, .profile = profile("vllm-0.22")};
  const MemoryBudget with = budget_of(input);
  EXPECT_EQ(num_captured_graphs(1024), 102);  // 51 piecewise and 51 full, as 0.19 prints
  EXPECT_EQ(num_captured_graphs(16), 14);     // 1, 2, 4, 8, 16, 24, 32
  EXPECT_EQ(num_captured_graphs(1), 4);
  EXPECT_EQ(with.graphs.bytes.value, 102 * 8 * kMiB);
  input.has_graphs = false;
  EXPECT_EQ(budget_of(input).kv_pool.bytes, with.kv_pool.bytes + with.graphs.bytes);
}

TEST(Budget, UtilisationOutsideItsRangeIsRefused) {
  const model::ModelShape shape = llama_8b();
  const hardware::Device d = device(79.19);
  BudgetInput input{.shape = &shape, .device = &d, .profile = profile("vllm")};
  for (const double bad : {-0.5, 1.01, 90.0, std::nan("")}) {
    input.gpu_memory_utilization = bad;
    const auto budget = make_budget(input);
    ASSERT_FALSE(budget) << bad;
    EXPECT_EQ(budget.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(budget.error().where, "--gpu-memory-utilization");
  }
}

// Pools that the lessons print: Qwen3 8B and 32B on 80 and 141 GB.
TEST(Budget, OfTheLessons) {
  const model::ModelShape small = dense(36, 4096, 12288, 32, 8, 151936);
  const model::ModelShape large = dense(64, 5120, 25600, 64, 8, 151936);
  hardware::Device d = device(79.19);
  const auto pool_gib = [&](const model::ModelShape& shape) {
    const MemoryBudget b = budget_of({.shape = &shape, .device = &d, .profile = profile("lesson")});
    return static_cast<double>(b.kv_pool.bytes.value) / static_cast<double>(kGiB);
  };
  EXPECT_NEAR(pool_gib(small), 55.7, 0.05);
  EXPECT_NEAR(pool_gib(large), 9.8, 0.05);
  d.nominal_memory = Bytes(141'000'000'000);
  EXPECT_NEAR(pool_gib(small), 141 * 0.9 - 80 * 0.9 + 55.7, 0.05);
}

// "CUDA0 compute buffer size": 258.50 MiB for Llama 3 8B and 304.00 MiB for Qwen2.5 7B at the default micro-batch.
TEST(Budget, LlamaCppComputeBuffer) {
  const model::ModelShape llama = llama_8b();
  const model::ModelShape qwen = dense(28, 3584, 18944, 28, 4, 152064);
  const hardware::Device d = device(23.5);
  const auto buffer = [&](const model::ModelShape& shape) {
    return budget_of({.shape = &shape, .device = &d, .profile = profile("llama.cpp")}).activations.bytes.value;
  };
  EXPECT_EQ(buffer(llama), 517 * kMiB / 2);
  EXPECT_EQ(buffer(qwen), 304 * kMiB);
}

TEST(Budget, ExplainsItselfOnlyWhenAsked) {
  const model::ModelShape shape = llama_8b();
  const hardware::Device d = device(79.19);
  BudgetInput input{.shape = &shape, .device = &d, .profile = profile("vllm")};
  input.parallelism.tensor = 2;
  MemoryBudget budget = budget_of(input);
  EXPECT_TRUE(budget.activations.rule.empty());
  explain_budget(input, budget);
  EXPECT_NE(budget.activations.rule.find("14 B x 1,024 requests x vocabulary 128,256"), std::string::npos)
      << budget.activations.rule;
  EXPECT_NE(budget.runtime.rule.find("2 ranks over links"), std::string::npos) << budget.runtime.rule;
  EXPECT_NE(budget.graphs.rule.find("102 graphs"), std::string::npos) << budget.graphs.rule;
  EXPECT_FALSE(budget.weights.rule.empty());
  EXPECT_NE(budget.kv_pool.rule.find("0.92 x 79.19 GiB"), std::string::npos) << budget.kv_pool.rule;
}

}  // namespace
}  // namespace ullage::memory
