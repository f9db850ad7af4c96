#include "ullage/api/explain.h"

#include <gtest/gtest.h>

#include "ullage/api/plan_words.h"
#include "ullage/base/json.h"

namespace ullage::api {
namespace {

constexpr const char* kForty = "--layers 40 --kv-heads 8 --head-dim 128 --hidden 5120 ";

PlanInput input_of(const std::string& line) {
  const auto words = parse_plan_line(line, "line");
  EXPECT_TRUE(words) << line;
  PlanInput input;
  if (words) input.levers = words->levers;
  return input;
}

TEST(Explain, TermsSumToTheDifference) {
  const auto answer = explain(input_of(std::string(kForty) + "--device h100"),
                              input_of(std::string(kForty) + "--device h100 --kv fp8 --enforce-eager"));
  ASSERT_TRUE(answer);
  const auto json = parse_json(explain_json(*answer), "answer");
  ASSERT_TRUE(json);
  int64_t tokens = 0;
  for (const Json& term : (*json)["terms"]) tokens += term["tokens"].get<int64_t>();
  EXPECT_EQ(tokens,
            (*json)["after"]["usable_tokens"].get<int64_t>() - (*json)["before"]["usable_tokens"].get<int64_t>());
  EXPECT_GE((*json)["terms"].size(), 2u);
  const std::string text = explain_text(*answer, {.width = 80, .has_unicode = false, .has_colour = false});
  EXPECT_TRUE(text.starts_with(answer->explanation.sentence.substr(0, 20))) << text;
}

TEST(Explain, TokensAreThoseOfAllReplicas) {
  const auto answer = explain(input_of(std::string(kForty) + "--device h100 --kv-memory 30GiB"),
                              input_of(std::string(kForty) + "--device h100 --kv-memory 30GiB --dp 4"));
  ASSERT_TRUE(answer);
  const auto json = parse_json(explain_json(*answer), "answer");
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["after"]["usable_tokens"].get<int64_t>(), 4 * (*json)["before"]["usable_tokens"].get<int64_t>());
}

TEST(Explain, DocumentsTakeWhatTheSecondLeavesOut) {
  const auto json = parse_json(
      explain_document(R"({"before": {"model": {"layers": 4, "kv_heads": 2, "head_dim": 64}, "device": "h100"},
                           "after": {"kv_cache_dtype": "fp8"}})"),
      "answer");
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["kind"], "explain") << dump_json(*json);
  const auto bad = parse_json(explain_document(R"({"before": {}})"), "answer");
  EXPECT_EQ((*bad)["kind"], "error");
}

}  // namespace
}  // namespace ullage::api
