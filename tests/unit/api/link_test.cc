#include "ullage/api/link.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

#include "ullage/api/levers.h"
#include "ullage/base/json.h"

namespace ullage::api {
namespace {

TEST(Link, IsReadable) {
  const Json document = {{"schema_version", 1},   {"model", "Qwen/Qwen3-8B"},      {"device", "h100"},
                         {"prompt", "4k"},        {"gpu_memory_utilization", 0.9}, {"force_mha", true},
                         {"enforce_eager", false}};
  EXPECT_EQ(*print_link(document, ""),
            "#v1;model=Qwen/Qwen3-8B;device=h100;prompt=4k;gpu_memory_utilization=0.9;force_mha");
}

TEST(Link, WhatIsBeforeTheHashDoesNotMatter) {
  const auto link = parse_link("https://example.org/lab/#v1;model=a%3Bb%25;prompt=4k;;force_mha;colour=red", "link");
  ASSERT_TRUE(link) << link.error().to_string();
  EXPECT_EQ(*parse_json(link->document, ""), Json({{"model", "a;b%"}, {"prompt", "4k"}, {"force_mha", true}}));
  EXPECT_EQ(link->unknown, std::vector<std::string>{"colour"});
}

TEST(Link, ModelsAndDevicesInFullAreKept) {
  const Json document = {{"model", {{"config", {{"model_type", "llama"}}}, {"name", "mine; 100%"}}},
                         {"device", {{"id", "x"}, {"bandwidth", 1e12}}}};
  const auto link = parse_link(*print_link(document, ""), "link");
  ASSERT_TRUE(link) << link.error().to_string();
  EXPECT_EQ(*parse_json(link->document, ""), document);
}

TEST(Link, SaysWhatIsWrong) {
  for (const char* text : {"", "qwen3-8b", "#", "#v1", "v1;model=a"}) {
    EXPECT_FALSE(is_link(text)) << text;
    EXPECT_FALSE(parse_link(text, "link")) << text;
  }
  EXPECT_EQ(parse_link("#v2;model=a", "link").error().code, ErrorCode::kUnsupported);
  for (const char* text : {"#v1;model=%", "#v1;model=%4", "#v1;model=%zz", "#v1;model={"}) {
    EXPECT_FALSE(parse_link(text, "link")) << text;
  }
}

// Any text under any lever comes back.
TEST(Link, RoundTrip) {
  rc::check("print, then parse", [] {
    Json document = Json::object();
    const auto all = levers();
    const auto num_keys = *rc::gen::inRange(0, 6);
    for (int i = 0; i < num_keys; ++i) {
      const auto& key = all[*rc::gen::inRange<size_t>(0, all.size())].key;
      std::string value;
      for (const int c : *rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 127))) value += static_cast<char>(c);
      document[std::string(key)] = value;
    }
    const auto link = print_link(document, "");
    RC_ASSERT(link.has_value());
    if (document.empty()) return;
    const auto parsed = parse_link(*link, "link");
    RC_ASSERT(parsed.has_value());
    RC_ASSERT(*parse_json(parsed->document, "") == document);
    RC_ASSERT(parsed->unknown.empty());
    for (const char c : *link) RC_ASSERT(c > ' ' && c < 127 && c != '"' && c != '<' && c != '>');
  });
}

}  // namespace
}  // namespace ullage::api
