#include "ullage/api/plan.h"

#include <gtest/gtest.h>

#include "ullage/api/plan_words.h"
#include "ullage/api/text_table.h"
#include "ullage/base/json.h"
#include "ullage/base/units.h"

namespace ullage::api {
namespace {

PlanInput input_of(const std::string& line) {
  const auto words = parse_plan_line(line, "line");
  EXPECT_TRUE(words) << line;
  PlanInput input;
  if (words) input.levers = words->levers;
  return input;
}

// 40 layers of 8 KV heads of 128 in 16 bits: 163,840 bytes a token (lesson case kv-40-layer).
constexpr const char* kForty = "--layers 40 --kv-heads 8 --head-dim 128 --hidden 5120 ";

Json plan_of(const std::string& line) {
  const auto answer = plan(input_of(line), {.has_derivation = true});
  EXPECT_TRUE(answer) << line << ": " << (answer ? "" : answer.error().to_string());
  return answer ? *parse_json(plan_json(*answer), "answer") : Json();
}

Error error_of(const std::string& line) {
  const auto answer = plan(input_of(line));
  EXPECT_FALSE(answer) << line;
  return answer ? Error{} : answer.error();
}

TEST(NumberModel, AttentionAlone) {
  const auto shape = shape_from_numbers(input_of(kForty).levers);
  ASSERT_TRUE(shape);
  ASSERT_EQ(shape->layers.size(), 40u);
  const auto& attention = std::get<model::Attention>(shape->layers[0].mixer);
  EXPECT_EQ(attention.num_heads, 40);
  EXPECT_EQ(attention.num_kv_heads, 8);
  EXPECT_EQ(attention.head_dim, 128);
  EXPECT_EQ(shape->hidden_size, 5120);
}

TEST(NumberModel, LatentAndExperts) {
  const auto shape = shape_from_numbers(
      input_of("--layers 61 --latent 576 --hidden 7168 --experts 256 --experts-per-token 8 --expert-intermediate 2048")
          .levers);
  ASSERT_TRUE(shape);
  const auto& latent = std::get<model::LatentAttention>(shape->layers[0].mixer);
  EXPECT_EQ(latent.kv_lora_rank + latent.qk_rope_head_dim, 576);
  const auto& moe = std::get<model::MoeFfn>(shape->layers[0].ffn);
  EXPECT_EQ(moe.num_experts, 256);
  EXPECT_EQ(moe.num_experts_per_token, 8);
}

TEST(NumberModel, WeightBytesAreMetExactly) {
  const auto shape = shape_from_numbers(input_of(std::string(kForty) + "--weight-bytes 16GiB").levers);
  ASSERT_TRUE(shape);
  int64_t sum = 0;
  for (const model::WeightMatrix& matrix : model::weight_matrices(*shape)) sum += model::stored_bytes(matrix);
  EXPECT_EQ(sum, 16 * kGiB);
  const auto small = shape_from_numbers(input_of(std::string(kForty) + "--weight-bytes 1GiB").levers);
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().where, "line: --weight-bytes");
}

TEST(NumberModel, SaysWhatIsMissing) {
  for (const auto& [line, where] : std::vector<std::pair<const char*, const char*>>{
           {"--kv-heads 8 --head-dim 128", "--layers"},
           {"--layers 40 --head-dim 128", "--kv-heads"},
           {"--layers 40 --kv-heads 8", "--head-dim"},
           {"--layers 40 --kv-heads 7 --head-dim 128 --hidden 4096", "--kv-heads"}}) {
    const auto shape = shape_from_numbers(input_of(line).levers);
    ASSERT_FALSE(shape) << line;
    EXPECT_EQ(shape.error().where, where) << line;
  }
}

TEST(Plan, AGivenPoolIsExact) {
  const Json json = plan_of(std::string(kForty) +
                            "--device h100 --kv-memory 30GiB --max-model-len 32768 --prompt 8000 "
                            "--output 192");
  EXPECT_EQ(json.begin().key(), "schema_version");
  EXPECT_EQ(json["schema_version"], kPlanSchemaVersion);
  EXPECT_EQ(json["kind"], "plan");
  EXPECT_EQ(json["fit"], "fits");
  const Json& capacity = json["capacity"];
  EXPECT_EQ(capacity["request"]["bytes_per_token"], 163840);
  // 30 GiB / (16 x 163,840) = 12,288 blocks; 2,048 blocks a request of 32,768 tokens; 512 one of 8,192.
  EXPECT_EQ(capacity["num_blocks"], 12288);
  EXPECT_EQ(capacity["printed"]["tokens"], 196608);
  EXPECT_DOUBLE_EQ(capacity["printed"]["concurrency"].get<double>(), 6.0);
  EXPECT_EQ(capacity["usable"]["requests"], 5);  // block 0 is no request's
  EXPECT_EQ(capacity["expected"]["requests"], 23);
  EXPECT_NE(capacity["tier"], "modelled");
  EXPECT_FALSE(json["derivation"].empty());
  EXPECT_FALSE(json["log_lines"].empty());
}

TEST(Plan, LeversReachTheScenario) {
  const Json base = plan_of(std::string(kForty) + "--device h100 --kv-memory 30GiB");
  const Json fp8 = plan_of(std::string(kForty) + "--device h100 --kv-memory 30GiB --kv fp8");
  EXPECT_EQ(fp8["capacity"]["request"]["bytes_per_token"], 81920);
  EXPECT_GT(fp8["capacity"]["usable"]["tokens"], base["capacity"]["usable"]["tokens"]);
  const Json mha = plan_of(std::string(kForty) + "--device h100 --kv-memory 30GiB --force-mha");
  EXPECT_EQ(mha["capacity"]["request"]["bytes_per_token"], 5 * 163840);
  const Json two = plan_of(std::string(kForty) + "--device 2xh100 --kv-memory 30GiB");
  EXPECT_EQ(two["asked"]["parallelism"]["tensor"], 2);
  const Json slow = plan_of(std::string(kForty) + "--device h100 --kv-memory 30GiB --bandwidth 1TB/s --mbu 1");
  EXPECT_EQ(slow["asked"]["device"]["bandwidth"], 1e12);
  EXPECT_GT(slow["timing"]["itl_seconds"], base["timing"]["itl_seconds"]);
  const Json money = plan_of(std::string(kForty) + "--device h100 --price 2.5 --qps 2 --duration 20s");
  EXPECT_GT(money["money"]["per_million_output"], 0);
  EXPECT_DOUBLE_EQ(money["load"]["needed_slots"].get<double>(), 40);
}

TEST(Plan, RefusesContradictions) {
  EXPECT_EQ(error_of("--kv fp8").where, "--layers");
  EXPECT_EQ(error_of(std::string(kForty) + "--device nosuch").code, ErrorCode::kNotFound);
  EXPECT_EQ(error_of(std::string(kForty) + "--policy nosuch").code, ErrorCode::kNotFound);
  EXPECT_EQ(error_of(std::string(kForty) + "--kv nosuch").where, "line: --kv");
  EXPECT_EQ(error_of(std::string(kForty) + "--weights nosuch").where, "--weights");
  EXPECT_EQ(error_of(std::string(kForty) + "--device 8xh100 --tp 2").where, "line: --device");
  EXPECT_EQ(error_of(std::string(kForty) + "--tp 3").code, ErrorCode::kInvalidArgument);
}

TEST(Plan, NotesSayWhatASizeMeans) {
  const auto answer = plan(input_of(std::string(kForty) + "--device h100 --kv-memory 30GB"));
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->asked.notes.size(), 1u);
  EXPECT_NE(answer->asked.notes[0].find("30,000,000,000 bytes"), std::string::npos);
  EXPECT_NE(answer->asked.notes[0].find("30GiB"), std::string::npos);
}

TEST(PlanText, TheVerdictComesFirstAndLinesFit) {
  const auto answer =
      plan(input_of(std::string(kForty) + "--device h100 --users 100 --ttft 100ms --price 2 --qps 1"), {true});
  ASSERT_TRUE(answer);
  const std::string text = plan_text(*answer, {.width = 80, .has_unicode = false, .has_colour = false});
  EXPECT_TRUE(text.starts_with(answer->verdict));
  for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << static_cast<int>(c);
  const std::string rich = plan_text(*answer, {.width = 80, .has_unicode = true, .has_colour = true});
  EXPECT_NE(rich.find("\u2588"), std::string::npos);
  EXPECT_NE(rich.find("\033[1m"), std::string::npos);
}

TEST(PlanDocument, SameAnswerAsTheWords) {
  const std::string document = plan_document(
      R"({"schema_version": 1, "model": {"layers": 40, "kv_heads": 8, "head_dim": 128, "hidden": 5120},
          "device": "h100", "kv_memory": "30GiB", "max_model_len": 32768, "prompt": "8k", "output": 192})");
  const auto json = parse_json(document, "answer");
  ASSERT_TRUE(json);
  const Json words = plan_of(std::string(kForty) +
                             "--device h100 --kv-memory 30GiB --max-model-len 32768 --prompt 8k "
                             "--output 192");
  EXPECT_EQ((*json)["capacity"], words["capacity"]);
  EXPECT_EQ((*json)["timing"], words["timing"]);
}

TEST(PlanDocument, AConfigAndADeviceOfItsOwn) {
  const auto json = parse_json(plan_document(R"({"model": {"name": "tiny", "config": {"model_type": "llama",
      "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "intermediate_size": 512, "vocab_size": 1000, "max_position_embeddings": 2048}},
      "device": "h100", "kv_memory": 1073741824})"),
                               "answer");
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["asked"]["model"]["name"], "tiny");
  EXPECT_EQ((*json)["capacity"]["request"]["bytes_per_token"], 2 * 2 * 64 * 2 * 2);
  EXPECT_EQ((*json)["asked"]["settings"]["max_model_len"], 2048);
}

TEST(PlanDocument, ErrorsPointAtAKey) {
  const struct {
    const char* document;
    const char* where;
  } cases[] = {
      {R"([])", ""},
      {R"({"schema_version": 2})", "/schema_version"},
      {R"({"model": {"layers": 40, "kv_heads": 8, "head_dim": 128}, "max_model_lem": 1})", "/max_model_lem"},
      {R"({"model": {"layers": -1}})", "/model/layers"},
      {R"({"model": {"layers": 40, "kv_heads": 8, "head_dim": 128}, "ttft": "5"})", "/ttft"},
      {R"({"model": {"layers": 40, "kv_heads": 8, "head_dim": 128}, "device": 5})", "/device"},
      {R"({"model": {"layers": 40, "kv_heads": 8, "head_dim": 128}, "device": "nosuch"})", "/device"},
      {R"({"model": {"layers": 40, "kv_heads": 8, "head_dim": 128}, "kv_memory": [1]})", "/kv_memory"},
      {R"({"model": 7})", "/model"},
      {R"({"device": "h100"})", "--layers"},
  };
  for (const auto& [document, where] : cases) {
    const auto json = parse_json(plan_document(document), "answer");
    ASSERT_TRUE(json) << document;
    EXPECT_EQ((*json)["kind"], "error") << document;
    EXPECT_EQ((*json)["error"]["where"], where) << document << " " << (*json)["error"]["message"];
  }
  const auto broken = parse_json(plan_document("{"), "answer");
  ASSERT_TRUE(broken);
  EXPECT_EQ((*broken)["error"]["code"], "corrupt");
}

TEST(TextTable, LinesUp) {
  TextTable table({1});
  table.add({"a", "1", "x"});
  table.add({"bb", "22"});
  EXPECT_EQ(table.text(), "  a    1  x\n  bb  22\n");
  EXPECT_EQ(wrap_text("one two three", 24, 2, "- "), "- one two three\n");
  EXPECT_EQ(display_width("a\u2588b"), 3u);
}

}  // namespace
}  // namespace ullage::api
