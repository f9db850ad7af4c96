#include "ullage/api/levers.h"

#include <set>

#include <gtest/gtest.h>

#include "ullage/api/plan_input.h"

namespace ullage::api {
namespace {

Result<LeverValue> parse(const char* key, const char* text) { return parse_lever(*find_lever(key), text, "--x"); }

TEST(Levers, EveryNameIsOneLeversAlone) {
  std::set<std::string> names;
  for (const Lever& lever : levers()) {
    EXPECT_TRUE(names.insert(std::string(lever.key)).second) << lever.key;
    std::string rest(lever.flags);
    while (!rest.empty()) {
      const size_t comma = rest.find(',');
      EXPECT_TRUE(names.insert(rest.substr(0, comma)).second) << rest;
      EXPECT_EQ(find_lever(rest.substr(0, comma)), &lever) << rest;
      rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    }
    EXPECT_FALSE(lever.help.empty()) << lever.key;
    EXPECT_FALSE(lever.group.empty()) << lever.key;
  }
}

TEST(Levers, UnderscoresAndDashesAreOne) {
  EXPECT_EQ(find_lever("max_model_len"), find_lever("--max-model-len"));
  EXPECT_EQ(find_lever("--max_num_seqs"), find_lever("max_num_seqs"));
  EXPECT_EQ(find_lever("kv")->key, "kv_cache_dtype");
  EXPECT_EQ(find_lever("no-such-lever"), nullptr);
  EXPECT_EQ(find_lever(""), nullptr);
  EXPECT_EQ(find_lever("--"), nullptr);
}

TEST(Levers, ReadsUnits) {
  const struct {
    const char* key;
    const char* text;
    double number;
  } cases[] = {
      {"max_model_len", "8192", 8192},
      {"max_model_len", "128k", 128000},
      {"max_model_len", "128K", 131072},
      {"kv_memory", "30GiB", 30.0 * (1 << 30)},
      {"kv_memory", "30GB", 30e9},
      {"gpu_memory_utilization", "0.9", 0.9},
      {"gpu_memory_utilization", "90%", 0.9},
      {"ttft", "500ms", 0.5},
      {"ttft", "2s", 2},
      {"ttft", "1.5 s", 1.5},
      {"itl", "30000us", 0.03},
      {"duration", "2m", 120},
      {"bandwidth", "3.35TB/s", 3.35e12},
      {"bandwidth", "900GB/s", 900e9},
      {"bandwidth", "400Gbit/s", 50e9},
      {"flops", "989T", 989e12},
      {"flops", "1.979PFLOP/s", 1.979e15},
      {"flops", "bf16=989T,fp8=1979T", 989e12},
      {"flops", "989e12", 989e12},
      {"price", "2.50", 2.5},
      {"price", "$2.5/h", 2.5},
      {"qps", "12.5", 12.5},
  };
  for (const auto& [key, text, number] : cases) {
    const auto value = parse(key, text);
    ASSERT_TRUE(value) << key << " " << text << ": " << value.error().message;
    EXPECT_DOUBLE_EQ(value->number, number) << key << " " << text;
  }
}

TEST(Levers, RefusesWhatItCannotMean) {
  const struct {
    const char* key;
    const char* text;
    const char* part;  // of the message
  } cases[] = {
      {"max_model_len", "", "not a number"},
      {"max_model_len", "-1", "not a number"},
      {"max_model_len", "0", "give 1 to"},
      {"max_model_len", "1.5", "not a whole number"},
      {"max_model_len", "8q", "suffix"},
      {"max_model_len", "99999999999999999999", "2^63"},
      {"max_model_len", "4G", "give 1 to 1,073,741,824"},
      {"kv_memory", "0.9Gx", "unit"},
      {"kv_memory", "nan", "not a number"},
      {"gpu_memory_utilization", "1.5", "give 0.01 to 1"},
      {"gpu_memory_utilization", "0", "give 0.01 to 1"},
      {"gpu_memory_utilization", "nan", "share"},
      {"gpu_memory_utilization", "-0.5", "share"},
      {"ttft", "500", "without a unit"},
      {"ttft", "500 weeks", "units are"},
      {"ttft", "inf", "a time"},
      {"bandwidth", "3.35", "unit"},
      {"flops", "989", "give a unit"},
      {"flops", "bf17=989T", "dtypes are"},
      {"flops", "bf16=989T,", ""},
      {"price", "two", "dollars"},
      {"qps", "1/s", "a number"},
      {"qps", "1e999", "a number"},
      {"enforce_eager", "maybe", "true or false"},
      {"device", "", "empty"},
  };
  for (const auto& [key, text, part] : cases) {
    const auto value = parse(key, text);
    ASSERT_FALSE(value) << key << " " << text;
    EXPECT_EQ(value.error().where, "--x") << key << " " << text;
    EXPECT_NE(value.error().message.find(part), std::string::npos)
        << key << " " << text << ": " << value.error().message;
  }
}

TEST(Levers, TellsASizeFromAShare) {
  const auto decimal = parse("gpu_memory_utilization", "0.9GB");
  const auto binary = parse("gpu_memory_utilization", "0.9GiB");
  ASSERT_FALSE(decimal);
  ASSERT_FALSE(binary);
  EXPECT_NE(decimal.error().message.find("900,000,000 bytes"), std::string::npos) << decimal.error().message;
  EXPECT_NE(binary.error().message.find("966,367,641 bytes"), std::string::npos) << binary.error().message;
  EXPECT_NE(binary.error().message.find("--kv-memory 0.9GiB"), std::string::npos);
}

TEST(Levers, JsonNumbersAreInBaseUnits) {
  EXPECT_DOUBLE_EQ(lever_from_number(*find_lever("ttft"), 0.5, "/ttft")->number, 0.5);
  EXPECT_EQ(lever_from_number(*find_lever("max_model_len"), 8192, "/x")->integer, 8192);
  EXPECT_FALSE(lever_from_number(*find_lever("max_model_len"), 8192.5, "/x"));
  EXPECT_FALSE(lever_from_number(*find_lever("max_model_len"), -1, "/x"));
  EXPECT_FALSE(lever_from_number(*find_lever("ttft"), 1.0 / 0.0, "/x"));
  EXPECT_FALSE(lever_from_number(*find_lever("device"), 1, "/x"));
  EXPECT_FALSE(lever_from_number(*find_lever("force_mha"), 1, "/x"));
}

TEST(Levers, TheLaterSettingHolds) {
  LeverSettings settings;
  const Lever* lever = find_lever("max_model_len");
  settings.set({lever, *parse("max_model_len", "1k"), "a"});
  settings.set({lever, *parse("max_model_len", "2k"), "b"});
  settings.set_default({lever, *parse("max_model_len", "3k"), "c"});
  ASSERT_NE(settings.find("max_model_len"), nullptr);
  EXPECT_EQ(settings.find("max_model_len")->value.integer, 2000);
  EXPECT_EQ(settings.all().size(), 1u);
}

TEST(Flops, OneNumberScalesTheOthers) {
  hardware::FlopsPerSecond flops{.fp32 = 10e12, .bf16 = 100e12, .fp8 = 200e12, .int8 = 0, .fp4 = 0};
  ASSERT_TRUE(apply_flops("50T", &flops, "--flops"));
  EXPECT_DOUBLE_EQ(flops.bf16, 50e12);
  EXPECT_DOUBLE_EQ(flops.fp8, 100e12);
  ASSERT_TRUE(apply_flops("fp8=300T,fp4=600T", &flops, "--flops"));
  EXPECT_DOUBLE_EQ(flops.bf16, 50e12);
  EXPECT_DOUBLE_EQ(flops.fp8, 300e12);
  EXPECT_DOUBLE_EQ(flops.fp4, 600e12);
}

}  // namespace
}  // namespace ullage::api
