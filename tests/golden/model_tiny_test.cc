// Every tiny checkpoint in tests/data/models, Hugging Face directory or GGUF, against what transformers computed from
// it in fp32 (scripts/goldens/make_tiny_models.py, make_tiny_ggufs.py): greedy tokens and logits.
//
// The bound of a logit's difference is 4 times the reference's own error, which the golden carries: it is the largest
// difference between transformers' fp32 logits and the same forward pass in fp64. Ours is another fp32 evaluation of
// the same sums in another order, so its error is of the same kind and size; 4 leaves room for an unlucky order. A
// wrong formula moves these logits by far more: YaRN's factor of attention left out 3.0, a window one token short 7.5,
// a scaling of the rotation left out 13 and more, a norm's epsilon of 1e-5 for 1e-6 still 2e-3 (docs/accuracy.md).
#include <string>

#include <gtest/gtest.h>

#include "tests/golden/golden_run.h"

namespace ullage::golden {
namespace {

struct Case {
  const char* model;   // in tests/data/models
  const char* golden;  // likewise
};

class TinyModel : public testing::TestWithParam<Case> {};

TEST_P(TinyModel, EqualsTransformers) {
  const std::string folder = data_path("tests/data/models/");
  const Golden golden = read_golden(folder + GetParam().golden);
  const double bound = 4 * golden.reference_error;
  for (const cpu::Isa isa : instruction_sets()) {
    auto model = ModelUnderTest::open(folder + GetParam().model, isa);
    ASSERT_NE(model, nullptr);
    Comparison c;
    for (size_t i = 0; i < golden.prompts.size(); ++i) {
      compare(*model, golden.prompts[i], bound, "prompt " + std::to_string(i), c);
    }
    report(std::string(GetParam().model) + ", " + name_of(isa), c, bound);
  }
}

constexpr Case kCases[] = {
    {"hf/llama-tied-f32", "hf/llama-tied-f32/golden.json"},
    {"hf/llama-mha-f16", "hf/llama-mha-f16/golden.json"},
    {"hf/llama-bias", "hf/llama-bias/golden.json"},
    {"hf/llama-linear-mqa", "hf/llama-linear-mqa/golden.json"},
    {"hf/llama-llama3", "hf/llama-llama3/golden.json"},
    {"hf/llama-yarn", "hf/llama-yarn/golden.json"},
    {"hf/llama-yarn-attention", "hf/llama-yarn-attention/golden.json"},
    {"hf/llama-headdim-sharded", "hf/llama-headdim-sharded/golden.json"},
    {"hf/mistral", "hf/mistral/golden.json"},
    {"hf/mistral-window", "hf/mistral-window/golden.json"},
    {"hf/qwen2", "hf/qwen2/golden.json"},
    {"hf/qwen2-tied", "hf/qwen2-tied/golden.json"},
    {"hf/qwen3-tied", "hf/qwen3-tied/golden.json"},
    {"hf/qwen3-sharded", "hf/qwen3-sharded/golden.json"},
    // The same weights as GGUF, rotations as GGUF says them.
    {"gguf/llama-f32.gguf", "hf/llama-tied-f32/golden.json"},
    {"gguf/llama-f16.gguf", "hf/llama-mha-f16/golden.json"},
    {"gguf/llama-bf16-linear.gguf", "hf/llama-linear-mqa/golden.json"},
    {"gguf/llama-bf16-llama3.gguf", "hf/llama-llama3/golden.json"},
    {"gguf/llama-bf16-yarn.gguf", "hf/llama-yarn/golden.json"},
    {"gguf/qwen2-bf16.gguf", "hf/qwen2-tied/golden.json"},
    {"gguf/qwen3-bf16.gguf", "hf/qwen3-tied/golden.json"},
    // Every quantised type.
    {"gguf/llama-q8_0.gguf", "gguf/llama-q8_0.golden.json"},
    {"gguf/llama-q4_0.gguf", "gguf/llama-q4_0.golden.json"},
    {"gguf/llama-q4_1.gguf", "gguf/llama-q4_1.golden.json"},
    {"gguf/llama-q5_0.gguf", "gguf/llama-q5_0.golden.json"},
    {"gguf/llama-q5_1.gguf", "gguf/llama-q5_1.golden.json"},
    {"gguf/llama-q4_k.gguf", "gguf/llama-q4_k.golden.json"},
    {"gguf/llama-q5_k.gguf", "gguf/llama-q5_k.golden.json"},
    {"gguf/llama-q6_k.gguf", "gguf/llama-q6_k.golden.json"},
};

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.model;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, TinyModel, testing::ValuesIn(kCases), case_name);

}  // namespace
}  // namespace ullage::golden
