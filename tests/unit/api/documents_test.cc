#include "ullage/api/documents.h"

#include <gtest/gtest.h>

#include <string>

#include "ullage/api/plan.h"
#include "ullage/base/json.h"

namespace ullage::api {
namespace {

Json answer(std::string_view function, std::string_view question) {
  const auto json = parse_json(answer_document(function, question), "answer");
  EXPECT_TRUE(json) << function;
  return json ? *json : Json();
}

std::string code_of(const Json& json) { return json.contains("error") ? json["error"]["code"].get<std::string>() : ""; }

constexpr const char* kScenario = R"({"model": "qwen3-8b", "device": "h100", "prompt": "4k"})";

TEST(Documents, EachFunctionAnswersAndRefuses) {
  for (const DocumentFunction& function : document_functions()) {
    EXPECT_FALSE(function.help.empty()) << function.name;
    for (const char* question :
         {"", "[]", "{", "7", R"({"scenario": 3, "axes": 4, "like": 5, "log": 6, "before": 7})"}) {
      const Json json = answer(function.name, question);
      EXPECT_TRUE(json.contains("error") || json.contains("levers")) << function.name << ' ' << question;
    }
  }
  EXPECT_EQ(code_of(answer("plam", "{}")), "not_found");
}

TEST(Documents, PlanIsThePlan) { EXPECT_EQ(answer_document("plan", kScenario), plan_document(kScenario)); }

TEST(Documents, ASweepsRowsAreSinglePlans) {
  const Json sweep =
      answer("sweep", std::string(R"({"axes": ["prompt=1k..8k", "kv=bf16,fp8"], "scenario": )") + kScenario + "}");
  ASSERT_EQ(code_of(sweep), "");
  ASSERT_EQ(sweep["rows"].size(), 8U);
  const Json& columns = sweep["columns"];
  const auto at = [&](const Json& row, const char* name) {
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i] == name) return row[i];
    }
    ADD_FAILURE() << name;
    return Json();
  };
  for (const Json& row : sweep["rows"]) {
    Json question = {{"model", "qwen3-8b"}, {"device", "h100"}};
    question["prompt"] = at(row, "prompt");
    question["kv_cache_dtype"] = at(row, "kv_cache_dtype");
    const Json plan = answer("plan", dump_json(question));
    ASSERT_EQ(code_of(plan), "") << dump_json(plan);
    EXPECT_EQ(plan["capacity"]["num_blocks"], at(row, "num_blocks"));
    EXPECT_EQ(plan["capacity"]["expected"]["total_requests"], at(row, "users_fit"));
  }
  EXPECT_EQ(code_of(answer("sweep", std::string(R"({"axes": ["prompt=1..100000:1"], "scenario": )") + kScenario + "}")),
            "too_large");
}

TEST(Documents, LogsAreCheckedAgainstTheScenario) {
  const Json check = answer("check", std::string(R"({"log": "Available KV cache memory: 30.00 GiB\nGPU KV cache size: )"
                                                 R"(218,448 tokens", "scenario": )") +
                                         kScenario + "}");
  ASSERT_EQ(code_of(check), "") << dump_json(check);
  EXPECT_EQ(check["comparison"]["terms"].back()["predicted"], 218448);
}

TEST(Documents, CataloguesAndLines) {
  EXPECT_GE(answer("models", "{}")["models"].size(), 80U);
  EXPECT_EQ(answer("devices", R"({"like": "h100-nvl"})")["devices"].size(), 1U);
  EXPECT_GE(answer("levers", "{}")["levers"].size(), 40U);
  const Json lines = answer("lines", std::string(R"({"scenario": )") + kScenario + "}");
  ASSERT_EQ(lines["lines"].size(), 4U);
  EXPECT_EQ(lines["lines"][0]["line"], "vllm serve Qwen/Qwen3-8B");
}

}  // namespace
}  // namespace ullage::api
