// Start-ups of vLLM 0.19 from scratch: nothing from the log but model, flags and device (tests/data/startups).
#include "ullage/memory/startup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "ullage/base/json.h"
#include "ullage/memory/vllm_rules.h"
#include "ullage/model/config.h"
#include "ullage/model/quantization.h"

namespace ullage::memory {
namespace {

constexpr const char* kFolder = ULLAGE_SOURCE_DIR "/tests/data/startups/";
constexpr double kGib = static_cast<double>(kGiB);

std::string text_of(const std::string& name) {
  std::ifstream in(kFolder + name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Row {
  std::string model, weights, dtype, kv;
  int64_t tensor = 1, pipeline = 1, max_model_len = 0;
  double utilization = 0, weights_gib = 0, activation_gib = 0, non_torch_gib = 0, kv_gib = 0;
  int64_t blocks = 0;
};

std::vector<Row> rows() {
  std::stringstream text(text_of("vllm-0.19.csv"));
  std::vector<Row> all;
  std::string line;
  std::getline(text, line);  // names of the columns
  while (std::getline(text, line)) {
    std::stringstream cells(line);
    std::vector<std::string> c(14);
    for (std::string& cell : c) std::getline(cells, cell, ',');
    all.push_back({c[0], c[1], c[2], c[3], std::stol(c[4]), std::stol(c[5]), std::stol(c[6]), std::stod(c[7]),
                   std::stod(c[8]), std::stod(c[9]), std::stod(c[10]), std::stod(c[11]), std::stol(c[12])});
  }
  return all;
}

struct Predicted {
  Row row;
  StartupPrediction prediction;
};

// Every row, predicted.
std::vector<Predicted> predictions() {
  const auto models = parse_json(text_of("models.json"), "models.json");
  EXPECT_TRUE(models) << models.error().to_string();
  const auto device = hardware::find_device("h100");
  EXPECT_TRUE(device);
  const EngineProfile* profile = *find_engine_profile("vllm-0.19");
  std::vector<Predicted> all;
  for (const Row& row : rows()) {
    auto shape = model::parse_config((*models)[row.model].dump(), row.model);
    EXPECT_TRUE(shape) << shape.error().to_string();
    if (!shape) continue;
    if (!row.weights.empty()) shape->quantization = *model::quantize_as(row.weights, "weights");
    BudgetInput input{.shape = &*shape, .device = &*device, .profile = profile};
    input.parallelism = {.tensor = row.tensor, .pipeline = row.pipeline};
    input.gpu_memory_utilization = row.utilization;
    input.max_model_len = row.max_model_len;
    KvLayoutOptions options;
    apply(vllm_layout_rules("0.19"), false, options);
    options.tensor_parallel = row.tensor;
    if (row.kv == "fp8") options.kv_dtype = model::KvDType::kFP8E4M3;
    if (row.dtype == "float32") {
      shape->weight_dtype = model::DType::kF32;
      options.kv_dtype = model::KvDType::kF32;
    }
    auto prediction = predict_startup(input, options);
    EXPECT_TRUE(prediction) << row.model << ": " << prediction.error().to_string();
    if (prediction) all.push_back({row, *std::move(prediction)});
  }
  return all;
}

double gib(Bytes bytes) { return static_cast<double>(bytes.value) / kGib; }

TEST(Startups, FromScratchWeightsWithinOnePercent) {
  const std::vector<Predicted> all = predictions();
  ASSERT_GE(all.size(), 40U);
  for (const auto& [row, p] : all) {
    EXPECT_NEAR(gib(p.stages.front().weights.bytes), row.weights_gib, 0.01 * row.weights_gib)
        << row.model << " " << row.weights << " tp " << row.tensor << " pp " << row.pipeline;
  }
}

TEST(Startups, FromScratchKvMemoryWithinTheStatedErrors) {
  std::vector<double> errors;
  for (const auto& [row, p] : predictions()) {
    const double error = std::abs(gib(p.stages.front().kv_pool.bytes) - row.kv_gib) / gib(p.stages.front().requested);
    errors.push_back(error);
    EXPECT_LE(error, 0.03) << row.model;
    EXPECT_NEAR(gib(p.stages.front().activations.bytes), row.activation_gib, 0.4) << row.model;
    EXPECT_NEAR(gib(p.stages.front().runtime.bytes), row.non_torch_gib, 0.15) << row.model;
  }
  ASSERT_GE(errors.size(), 40U);
  std::ranges::sort(errors);
  // The issue asks for 1 %; these rules were fitted on these rows, so they are held to more.
  EXPECT_LE(errors[errors.size() / 2], 0.002);
}

TEST(Startups, FromScratchBlocksWithinThreePercentOfRequestedMemory) {
  for (const auto& [row, p] : predictions()) {
    const double bytes_per_block = row.kv_gib / static_cast<double>(row.blocks);
    const double difference = std::abs(static_cast<double>(p.num_blocks - row.blocks)) * bytes_per_block;
    EXPECT_LE(difference, 0.03 * gib(p.stages[p.least_stage].requested)) << row.model << " pp " << row.pipeline;
  }
}

// The recorded boot with four stages has lines of two ranks: one with the embedding, one without.
TEST(Startups, EveryStageHasItsBudget) {
  size_t num_seen = 0;
  for (const auto& [row, p] : predictions()) {
    ASSERT_EQ(p.stages.size(), static_cast<size_t>(row.pipeline)) << row.model;
    if (row.pipeline < 4) continue;
    ++num_seen;
    EXPECT_NEAR(gib(p.stages[0].weights.bytes), 4.26, 0.01);
    EXPECT_NEAR(gib(p.stages[1].weights.bytes), 3.28, 0.03);
  }
  EXPECT_GE(num_seen, 1U);
}

}  // namespace
}  // namespace ullage::memory
