// Invariant 5: what a plan says of this engine, a freshly built engine has.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ullage/base/units.h"
#include "ullage/cli/engine_setup.h"
#include "ullage/cli/loaded_model.h"
#include "ullage/model/catalogue.h"
#include "ullage/plan/plan.h"

namespace ullage::cli {
namespace {

struct Settings {
  const char* kv_memory = "";
  const char* max_model_len = "auto";
  const char* max_num_seqs = "";
  const char* block_size = "16";
  double utilization = 0;
};
constexpr Settings kSettings[] = {
    {},
    {.kv_memory = "3GiB"},
    {.kv_memory = "1GB", .block_size = "32"},
    {.max_model_len = "512", .max_num_seqs = "7"},
    {.max_num_seqs = "2", .block_size = "1"},
    {.utilization = 0.7},
};

Result<plan::Evaluation> planned(const model::ModelShape& shape, const hardware::Device& device, const Settings& with) {
  plan::Scenario s;
  s.shape = &shape;
  s.device = &device;
  ULLAGE_TRY(s.profile, memory::find_engine_profile("ullage"));
  s.prompt_tokens = 8;
  s.output_tokens = 8;
  s.gpu_memory_utilization = with.utilization;
  if (*with.kv_memory != '\0') {
    ULLAGE_TRY(s.kv_memory, parse_bytes(with.kv_memory, "--kv-memory"));
  }
  if (std::string(with.max_model_len) != "auto") {
    ULLAGE_TRY(s.max_model_len, parse_count(with.max_model_len, "--max-model-len"));
  }
  if (*with.max_num_seqs != '\0') {
    ULLAGE_TRY(s.max_num_seqs, parse_count(with.max_num_seqs, "--max-num-seqs"));
  }
  ULLAGE_TRY(s.block_size, parse_count(with.block_size, "--block-size"));
  return plan::evaluate(s);
}

// Compares a model at `path` under every setting. False when this engine does not serve the model.
bool compare(const std::string& path, const std::string& name) {
  EngineArgs args;
  args.model = path;
  args.executor = "modelled";
  args.tokenizer = std::string(ULLAGE_SOURCE_DIR) + "/data/stories260K.gguf";
  const Result<LoadedModel> model = load_model(args, "");
  if (!model) return false;
  const hardware::Device device = *hardware::find_device(args.device);
  int compared = 0;
  for (const Settings& with : kSettings) {
    args.kv_cache_memory = with.kv_memory;
    args.max_model_len = with.max_model_len;
    args.max_num_seqs = with.max_num_seqs;
    args.block_size = with.block_size;
    args.memory_utilization = with.utilization;

    const auto engine = make_engine(args, *model);
    const auto plan = planned(model->shape, device, with);

    // What does not fit is refused by the engine, and an answer of the plan.
    if (!engine) {
      if (plan) {
        EXPECT_TRUE(plan->capacity.usable_requests == 0) << name << ": " << engine.error().to_string();
      }
      continue;
    }
    EXPECT_TRUE(plan) << name << ": " << plan.error().to_string();
    if (!plan) continue;
    EXPECT_EQ(plan->capacity.num_blocks, (*engine)->options.num_blocks) << name << " --kv-memory " << with.kv_memory;
    EXPECT_EQ(plan->settings.max_model_len, (*engine)->options.max_model_len) << name;
    EXPECT_EQ(plan->capacity.printed_tokens, (*engine)->capacity.size_tokens) << name;
    ++compared;
  }
  return compared > 0;
}

TEST(PlanAndServe, HaveTheSameBlocksForEveryServableModel) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "ullage_plan_blocks_test";
  std::filesystem::create_directories(folder);
  std::vector<std::string> served;
  if (compare(std::string(ULLAGE_SOURCE_DIR) + "/data/stories260K.gguf", "stories260K"))
    served.push_back("stories260K");
  for (const model::CatalogueModel& model : model::catalogue_models()) {
    const std::string path = (folder / "config.json").string();
    std::ofstream(path, std::ios::trunc) << model.config;
    if (compare(path, model.id)) served.push_back(model.id);
  }
  std::filesystem::remove_all(folder);
  std::printf("%zu models have the same blocks in plan and engine\n", served.size());
  EXPECT_GE(served.size(), 20u);
}

}  // namespace
}  // namespace ullage::cli
