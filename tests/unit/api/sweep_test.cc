#include "ullage/api/sweep.h"

#include <gtest/gtest.h>

#include "ullage/api/plan_words.h"
#include "ullage/base/json.h"

namespace ullage::api {
namespace {

using Values = std::vector<std::string>;

Values values(const char* text) {
  const auto axis = parse_sweep_axis(text, "--sweep");
  EXPECT_TRUE(axis) << text << ": " << (axis ? "" : axis.error().to_string());
  return axis ? axis->values : Values{};
}

Result<Sweep> make(const char* line, const Values& axes) {
  PlanInput input;
  input.levers = parse_plan_line(line, "")->levers;
  std::vector<SweepAxis> parsed;
  for (const std::string& axis : axes) parsed.push_back(*parse_sweep_axis(axis, "--sweep"));
  return Sweep::make(input, parsed, [](const std::string& name) -> Result<std::shared_ptr<const PlanModel>> {
    return Error{ErrorCode::kNotFound, "there is no " + name, "model"};
  });
}

constexpr const char* kTiny = "--layers 2 --kv-heads 2 --head-dim 64 --hidden 256 --device h100 --kv-memory 1GiB";

TEST(SweepAxis, ListsAndRanges) {
  EXPECT_EQ(values("kv=bf16,fp8"), (Values{"bf16", "fp8"}));
  EXPECT_EQ(values("prompt=1k..8k"), (Values{"1000", "2000", "4000", "8000"}));
  EXPECT_EQ(values("prompt=1K..6K"), (Values{"1024", "2048", "4096", "6144"}));
  EXPECT_EQ(values("tp=1..4:1"), (Values{"1", "2", "3", "4"}));
  EXPECT_EQ(values("--gpu-memory-utilization=0.8..0.95:0.05"), (Values{"0.8", "0.85", "0.9", "0.95"}));
  EXPECT_EQ(values("kv_memory=10GiB..20GiB:10GiB"), (Values{"10737418240", "21474836480"}));
  EXPECT_EQ(values("ttft=100ms..400ms"), (Values{"0.1s", "0.2s", "0.4s"}));
  EXPECT_EQ(values("prompt=5,1k..2k,7"), (Values{"5", "1000", "2000", "7"}));
  EXPECT_EQ(values("model=a/b,c"), (Values{"a/b", "c"}));
  EXPECT_EQ(values("prompt=8..8"), (Values{"8"}));
}

TEST(SweepAxis, RefusesWhatItCannotRun) {
  for (const char* text : {"", "kv", "=1", "kv=", "nosuch=1", "prompt=8k..1k", "prompt=1..8:0", "prompt=x..y",
                           "prompt=1..", "prompt=..8", "qps=0..4", "prompt=1,,2", "max_num_seqs=1..1m:1"}) {
    const auto axis = parse_sweep_axis(text, "--sweep");
    ASSERT_FALSE(axis) << text;
    EXPECT_TRUE(axis.error().where.starts_with("--sweep")) << text;
  }
}

TEST(Sweep, TheLastAxisIsFastest) {
  auto sweep = make(kTiny, {"kv=bf16,fp8", "prompt=1k..4k"});
  ASSERT_TRUE(sweep);
  EXPECT_EQ(sweep->num_points(), 6);
  const Values columns = sweep->columns();
  EXPECT_EQ(columns[0], "kv_cache_dtype");
  EXPECT_EQ(columns[1], "prompt");
  std::vector<std::string> seen;
  int64_t blocks_of_first = 0;
  while (!sweep->is_done()) {
    const auto row = sweep->next();
    ASSERT_EQ(row.size(), columns.size());
    EXPECT_EQ(row.back().text, "");
    seen.push_back(row[0].text + " " + row[1].text);
    const auto json = parse_json(json_line(columns, row), "row");
    ASSERT_TRUE(json);
    const int64_t blocks = (*json)["num_blocks"].get<int64_t>();
    if (blocks_of_first == 0) blocks_of_first = blocks;
    EXPECT_EQ(blocks, row[0].text == "fp8" ? 2 * blocks_of_first : blocks_of_first);
  }
  EXPECT_EQ(seen, (Values{"bf16 1000", "bf16 2000", "bf16 4000", "fp8 1000", "fp8 2000", "fp8 4000"}));
}

TEST(Sweep, APointThatCannotBePlannedIsARow) {
  auto sweep = make(kTiny, {"tp=1,3,2"});
  ASSERT_TRUE(sweep);
  EXPECT_EQ(sweep->next().back().text, "");
  EXPECT_NE(sweep->next().back().text, "");
  EXPECT_EQ(sweep->next().back().text, "");
  auto models = make(kTiny, {"model=nosuch"});
  ASSERT_TRUE(models);
  EXPECT_NE(models->next().back().text.find("nosuch"), std::string::npos);
}

TEST(Sweep, TooManyCombinationsAreRefused) {
  const auto sweep = make(kTiny, {"prompt=1..2000:1", "output=1..2000:1"});
  ASSERT_FALSE(sweep);
  EXPECT_EQ(sweep.error().code, ErrorCode::kTooLarge);
}

TEST(Sweep, FieldsAreQuotedAsCsvWants) {
  EXPECT_EQ(csv_line(Values{"a", "b,c", "d\"e", ""}), "a,\"b,c\",\"d\"\"e\",\n");
  const std::vector<SweepCell> cells = {{"x", false}, {"1.5", true}, {"", false}};
  EXPECT_EQ(json_line(Values{"a", "b", "c"}, cells), "{\"a\": \"x\", \"b\": 1.5, \"c\": null}\n");
}

}  // namespace
}  // namespace ullage::api
