#include "ullage/base/json.h"

#include <gtest/gtest.h>

namespace ullage {
namespace {

TEST(ParseJson, KeepsTheOrderOfKeys) {
  const auto json = parse_json(R"({"z": 1, "a": [true, null], "m": "x"})", "f.json");
  ASSERT_TRUE(json);
  EXPECT_EQ(dump_json(*json), R"({"z":1,"a":[true,null],"m":"x"})");
  const auto sorted = parse_sorted_json(R"({"z": 1, "a": 2})", "f.json");
  ASSERT_TRUE(sorted);
  EXPECT_EQ(sorted->begin().key(), "a");
}

TEST(ParseJson, SaysAtWhichByteTheSyntaxBreaks) {
  const auto json = parse_json(R"({"a": 1, "b": })", "f.json");
  ASSERT_FALSE(json);
  EXPECT_EQ(json.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(json.error().to_string(), "f.json: not valid JSON at byte 15");
  for (const char* bad : {"", "{", "[1,]", "nul", "\"\\x\"", "1 2", "{\"a\" 1}", "\xff", "1e999", "\"\xed\xa0\x80\""}) {
    EXPECT_FALSE(parse_json(bad, "f.json")) << bad;
  }
}

// The parser itself ends there and takes what came before.
TEST(ParseJson, RefusesNulBytes) {
  const auto json = parse_json(std::string_view("{}\0 x", 5), "body");
  ASSERT_FALSE(json);
  EXPECT_NE(json.error().message.find("byte 2"), std::string::npos) << json.error().message;
}

TEST(ParseJson, RefusesMoreValuesThanAllowed) {
  const JsonLimits limits{.max_values = 4};
  EXPECT_TRUE(parse_json("[1, 2, 3]", "", limits));
  EXPECT_TRUE(parse_json("{\"a\": [1, 2]}", "", limits));
  EXPECT_TRUE(parse_json("[\"1,2,3,4,5[[[[[\"]", "", limits));
  const auto json = parse_json("[1, 2, 3, 4]", "f.json", limits);
  ASSERT_FALSE(json);
  EXPECT_FALSE(parse_json("[[], [], []]", "", limits));
  EXPECT_EQ(json.error().code, ErrorCode::kTooLarge);
  EXPECT_NE(json.error().message.find("over 4 values"), std::string::npos) << json.error().message;
}

TEST(ParseJson, RefusesDepthBeforeItCostsAnything) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_TRUE(parse_json(nested(64), ""));
  const auto json = parse_json(nested(65), "f.json");
  ASSERT_FALSE(json);
  EXPECT_EQ(json.error().code, ErrorCode::kTooLarge);
  EXPECT_FALSE(parse_json(std::string(5'000'000, '{'), ""));
  EXPECT_TRUE(parse_json("\"" + std::string(1000, '[') + "\"", ""));         // brackets in a string do not nest
  EXPECT_TRUE(parse_json("\"\\\"" + std::string(1000, '[') + "\"", ""));     // nor behind an escaped quote
  EXPECT_FALSE(parse_json("\"\\\\\"" + std::string(1000, '[') + "\"", ""));  // but behind a string's end they do
}

TEST(ParseJson, RefusesSizesOverTheLimit) {
  const auto json = parse_json("[1, 2, 3]", "f.json", {.max_bytes = 8});
  ASSERT_FALSE(json);
  EXPECT_EQ(json.error().code, ErrorCode::kTooLarge);
  EXPECT_NE(json.error().message.find("9 bytes"), std::string::npos);
}

TEST(DumpJson, ReplacesInvalidUtf8) {
  EXPECT_EQ(dump_json(Json("a\xffz")), "\"a\xef\xbf\xbdz\"");
  EXPECT_EQ(dump_json(Json(0.1)), "0.1");
}

TEST(JsonLookUps, GiveFallbacksForMissingAndNull) {
  const Json json =
      Json::parse(R"({"n": null, "i": -3, "u": 18446744073709551615, "w": 4096.0, "f": 1.5, "s": "x", "b": true})");
  EXPECT_EQ(*get_int(json, "absent", 7, ""), 7);
  EXPECT_EQ(*get_int(json, "n", 7, ""), 7);
  EXPECT_EQ(*get_int(json, "i", 0, ""), -3);
  EXPECT_EQ(*get_int(json, "w", 0, ""), 4096);
  EXPECT_FALSE(get_int(json, "u", 0, ""));
  EXPECT_FALSE(get_int(json, "f", 0, ""));
  EXPECT_EQ(*get_double(json, "i", 0, ""), -3.0);
  EXPECT_EQ(*get_string(json, "s", "", ""), "x");
  EXPECT_EQ(*get_bool(json, "b", false, ""), true);
  const auto wrong = get_int(json, "s", 0, "f.json");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().to_string(), "f.json/s: expected an integer, found string");
  EXPECT_FALSE(get_bool(json, "i", false, ""));
  EXPECT_FALSE(get_string(json, "b", "", ""));
  EXPECT_EQ(*get_int(Json::array(), "x", 5, ""), 5);  // not an object: nothing in it
}

}  // namespace
}  // namespace ullage
