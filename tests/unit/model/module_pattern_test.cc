#include "ullage/model/module_pattern.h"

#include <string>

#include <gtest/gtest.h>

namespace ullage::model {
namespace {

bool means(const std::string& pattern, const std::string& name) {
  const auto parsed = parse_module_pattern(pattern, "config.json");
  EXPECT_TRUE(parsed) << pattern;
  return parsed && matches(*parsed, name);
}

TEST(ModulePattern, NamesMeanWholePartsOfAName) {
  EXPECT_TRUE(means("lm_head", "lm_head"));
  EXPECT_TRUE(means("gate", "model.layers.3.mlp.gate"));
  EXPECT_FALSE(means("gate", "model.layers.3.mlp.gate_proj"));
  EXPECT_FALSE(means("model.layers.1", "model.layers.12.mlp.up_proj"));
  EXPECT_TRUE(means("model.layers.1", "model.layers.1.mlp.up_proj"));
  EXPECT_TRUE(means("model.vision_tower", "model.vision_tower.blocks.0.mlp.fc1"));
}

// The patterns of published checkpoints, with what each means and what it does not.
TEST(ModulePattern, WildcardsMeanAnyCharacters) {
  EXPECT_TRUE(means("model.layers.0.self_attn.indexer*", "model.layers.0.self_attn.indexer.wk"));
  EXPECT_FALSE(means("model.layers.0.self_attn.indexer*", "model.layers.0.self_attn.q_a_proj"));
  EXPECT_TRUE(means("model.layers.0*", "model.layers.0.mlp.up_proj"));
  EXPECT_TRUE(means("model.layers.1*", "model.layers.13.mlp.up_proj")) << "as fnmatch has it";
  EXPECT_FALSE(means("model.layers.1.*", "model.layers.13.mlp.up_proj"));
  EXPECT_TRUE(means("*.mlp.shared_expert.*", "model.layers.7.mlp.shared_expert.up_proj"));
  EXPECT_TRUE(means("mtp*", "mtp.layers.0.mlp.up_proj"));
  EXPECT_TRUE(means("model.layers.*.self_attn", "model.layers.7.self_attn.q_proj"));
  EXPECT_FALSE(means("model.layers.*.self_attn", "model.layers.7.mlp.experts.gate_up_proj"));
}

TEST(ModulePattern, RegularExpressionsMatchFromTheBeginning) {
  const std::string dense = "re:.*mlp\\.(gate|up|gate_up|down)_proj.*";
  EXPECT_TRUE(means(dense, "language_model.model.layers.0.mlp.gate_up_proj"));
  EXPECT_FALSE(means(dense, "language_model.model.layers.1.mlp.experts.3.up_proj"));
  EXPECT_TRUE(means("re:.*self_attn.*", "model.layers.1.self_attn.q_proj"));
  EXPECT_FALSE(means("re:self_attn", "model.layers.1.self_attn.q_proj"));
  EXPECT_TRUE(means("re:model\\.layers\\.\\d+\\.mlp", "model.layers.41.mlp.gate"));
  EXPECT_TRUE(means("re:^visual[.](blocks|merger)", "visual.blocks.3.attn.qkv"));
  EXPECT_FALSE(means("re:^visual[.](blocks|merger)$", "visual.blocks.3.attn.qkv"));
  EXPECT_TRUE(means("re:(ab)+c?d$", "ababd"));
  EXPECT_FALSE(means("re:(ab)+c?d$", "abaXd"));
  EXPECT_TRUE(means("re:.*layers\\.([0-2]|4[0-9])\\..*", "model.layers.43.mlp"));
  EXPECT_FALSE(means("re:.*layers\\.([0-2]|4[0-9])\\..*", "model.layers.33.mlp"));
  EXPECT_TRUE(means("re:^(?!.*experts).*", "model.layers.3.self_attn.q_proj"));
  EXPECT_FALSE(means("re:^(?!.*experts).*", "model.layers.3.mlp.experts.up_proj"));
}

TEST(ModulePattern, AnExpressionThatWouldRunForEverGivesUp) {
  const std::string name(200, 'a');
  EXPECT_FALSE(means("re:(a*)*(a*)*(a*)*b", name));
  EXPECT_FALSE(means("re:((a?)(a?))*x", name));
}

TEST(ModulePattern, WhatIsNotHandledIsRefusedByName) {
  for (const char* text : {"re:(?<=a)b", "re:(", "re:)", "re:[ab", "re:a{2}", "re:*a", "re:\\1", "re:a\\"}) {
    const auto pattern = parse_module_pattern(text, "config.json: /ignore/0");
    ASSERT_FALSE(pattern) << text;
    EXPECT_EQ(pattern.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(pattern.error().where, "config.json: /ignore/0");
  }
}

}  // namespace
}  // namespace ullage::model
