#include "ullage/plan/scenario.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "tests/unit/plan/worlds.h"
#include "ullage/plan/evaluate.h"

namespace ullage::plan {
namespace {

TEST(CheckScenario, RefusesWhatMakesNoSense) {
  struct Row {
    const char* where;
    std::function<void(Scenario&)> change;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Row rows[] = {
      {"MODEL", [](Scenario& s) { s.shape = nullptr; }},
      {"--device", [](Scenario& s) { s.device = nullptr; }},
      {"--policy", [](Scenario& s) { s.profile = nullptr; }},
      {"--prompt", [](Scenario& s) { s.prompt_tokens = -1; }},
      {"--prompt", [&](Scenario& s) { s.prompt_tokens = nan; }},
      {"--prompt", [](Scenario& s) { s.prompt_tokens = s.output_tokens = 0; }},
      {"--output", [](Scenario& s) { s.output_tokens = 1e18; }},
      {"--p95-prompt", [](Scenario& s) { s.p95_prompt_tokens = 5; }},
      {"--shared-prefix", [](Scenario& s) { s.shared_prefix_tokens = 5000; }},
      {"--concurrency", [](Scenario& s) { s.concurrency = 0; }},
      {"--kv-heads", [](Scenario& s) { s.num_kv_heads = 7; }},
      {"--kv-heads",
       [](Scenario& s) {
         s.force_mha = true;
         s.num_kv_heads = 8;
       }},
      {"--gpu-memory-utilization", [](Scenario& s) { s.gpu_memory_utilization = 1.01; }},
      {"--gpu-memory-utilization", [](Scenario& s) { s.gpu_memory_utilization = -0.5; }},
      {"--kv-memory", [](Scenario& s) { s.kv_memory = Bytes(0); }},
      {"--num-gpu-blocks-override", [](Scenario& s) { s.num_blocks = 1; }},
      {"--block-size", [](Scenario& s) { s.block_size = -16; }},
      {"--max-model-len", [](Scenario& s) { s.max_model_len = 1000; }},
      {"--tensor-parallel-size", [](Scenario& s) { s.parallelism.tensor = 0; }},
      {"--acceptance-rate", [](Scenario& s) { s.acceptance_rate = 1.5; }},
      {"--bandwidth-efficiency", [](Scenario& s) { s.efficiency = cost::Efficiency{.bandwidth = 0}; }},
  };
  for (const Row& row : rows) {
    World world;
    row.change(world.scenario);

    const auto settings = check_scenario(world.scenario);

    ASSERT_FALSE(settings) << row.where;
    EXPECT_EQ(settings.error().where, row.where) << settings.error().to_string();
    EXPECT_FALSE(evaluate(world.scenario)) << row.where;
  }
}

TEST(CheckScenario, SaysBothNumbersOfARequestThatIsTooLong) {
  World world;
  world.scenario.max_model_len = 4000;

  const auto settings = check_scenario(world.scenario);

  ASSERT_FALSE(settings);
  EXPECT_EQ(settings.error().code, ErrorCode::kTooLarge);
  EXPECT_NE(settings.error().message.find("4,352"), std::string::npos) << settings.error().message;
  EXPECT_NE(settings.error().message.find("4,000"), std::string::npos) << settings.error().message;
}

TEST(CheckScenario, RefusesRanksThatDoNotDivide) {
  World world;
  world.scenario.parallelism.tensor = 3;

  EXPECT_FALSE(evaluate(world.scenario));
}

TEST(CheckScenario, FillsInDefaults) {
  World world;

  const auto settings = check_scenario(world.scenario);

  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->gpu_memory_utilization, 0.92);
  EXPECT_EQ(settings->max_model_len, 131072);
  EXPECT_EQ(settings->block_size, 16);
  EXPECT_EQ(settings->max_num_seqs, 1024);
  EXPECT_EQ(settings->mean_tokens, 4352);
  EXPECT_EQ(settings->kv_dtype, model::KvDType::kBF16);
}

TEST(ResolveKvDtype, AsksTheCheckpoint) {
  World world;
  world.shape.quantization.kv_cache_dtype = "fp8";
  EXPECT_EQ(*resolve_kv_dtype(world.scenario), model::KvDType::kFP8E4M3);
  world.shape.quantization.kv_cache_dtype = "nonsense";
  EXPECT_FALSE(resolve_kv_dtype(world.scenario));
  world.scenario.kv_dtype = model::KvDType::kF16;
  EXPECT_EQ(*resolve_kv_dtype(world.scenario), model::KvDType::kF16);
}

TEST(ResolveDtype, HalvesFilesOf32BitsWhereTheEngineDoes) {
  World world;
  world.shape.weight_dtype = model::DType::kF32;
  EXPECT_EQ(resolve_dtype(world.scenario), model::DType::kBF16);
  EXPECT_EQ(*resolve_kv_dtype(world.scenario), model::KvDType::kBF16);
  const auto halved = evaluate(world.scenario);
  world.scenario.dtype = model::DType::kF32;
  EXPECT_EQ(*resolve_kv_dtype(world.scenario), model::KvDType::kF32);
  const auto asked = evaluate(world.scenario);
  ASSERT_TRUE(halved && asked);
  EXPECT_NEAR(
      static_cast<double>(asked->budget.weights.bytes.value) / static_cast<double>(halved->budget.weights.bytes.value),
      2, 0.01);
  world.scenario.dtype.reset();
  world.scenario.profile = *memory::find_engine_profile("ullage");
  EXPECT_EQ(resolve_dtype(world.scenario), model::DType::kF32);
}

TEST(ResolveDtype, ReadsTheWordsOfServers) {
  EXPECT_EQ(*parse_load_dtype("half", "--dtype"), model::DType::kF16);
  EXPECT_EQ(*parse_load_dtype("bfloat16", "--dtype"), model::DType::kBF16);
  EXPECT_EQ(*parse_load_dtype("Float", "--dtype"), model::DType::kF32);
  EXPECT_EQ(*parse_load_dtype("auto", "--dtype"), std::nullopt);
  EXPECT_FALSE(parse_load_dtype("fp8", "--dtype"));
}

TEST(WeightPrecision, NamesAreRead) {
  EXPECT_EQ(*parse_weight_precision("awq", "--weights"), WeightPrecision::kINT4);
  EXPECT_EQ(*parse_weight_precision("auto", "--weights"), WeightPrecision::kAsStored);
  EXPECT_FALSE(parse_weight_precision("fp9", "--weights"));
}

}  // namespace
}  // namespace ullage::plan
