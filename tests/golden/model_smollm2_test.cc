// The default model, SmolLM2-135M-Instruct Q4_1, against what transformers computes from the same GGUF in fp32
// (scripts/goldens/make_smollm2_golden.py): 20 prompts of 64 greedy tokens, the largest logits at each, and two whole
// rows.
//
// The bound is 4 times the reference's own error, as in model_tiny_test.cc.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/golden/golden_run.h"

namespace ullage::golden {
namespace {

// $ULLAGE_TEST_SMOLLM2, or where ./run and ./test keep it.
std::string model_path() {
  if (const char* path = std::getenv("ULLAGE_TEST_SMOLLM2"); path != nullptr && *path != '\0') return path;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string base =
      cache != nullptr && *cache != '\0' ? cache : std::string(home != nullptr ? home : "") + "/.cache";
  return base + "/ullage/models/SmolLM2-135M-Instruct-Q4_1.gguf";
}

TEST(SmolLm2, EqualsTransformers) {
  const std::string path = model_path();
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " is not there: ./test fetches it, or set ULLAGE_TEST_SMOLLM2 to the GGUF file";
  }
  const std::string folder = data_path("tests/data/models/smollm2/");
  Golden golden = read_golden(folder + "golden.json");
  const auto json = parse_json(read_file(folder + "golden.json"), "golden.json");
  const auto full = json->at("full_logits").get<std::vector<size_t>>();
  const std::string bytes = read_file(folder + "full_logits.f32");
  const size_t vocab_size = bytes.size() / sizeof(float) / full.size();
  for (size_t i = 0; i < full.size(); ++i) {
    std::vector<float> row(vocab_size);
    std::memcpy(row.data(), bytes.data() + i * vocab_size * sizeof(float), vocab_size * sizeof(float));
    golden.prompts[full[i]].logits.push_back({0, std::move(row)});
  }
  const double bound = 4 * golden.reference_error;

  auto model = ModelUnderTest::open(path, cpu::Isa::kAuto, /*num_threads=*/0);
  ASSERT_NE(model, nullptr);
  Comparison c;
  for (size_t i = 0; i < golden.prompts.size(); ++i) {
    compare(*model, golden.prompts[i], bound, "prompt " + std::to_string(i), c);
  }
  report("SmolLM2-135M-Instruct Q4_1", c, bound);
  EXPECT_EQ(c.num_tokens, 20 * 64);
}

}  // namespace
}  // namespace ullage::golden
