#include "ullage/api/inspect.h"

#include <gtest/gtest.h>

#include "ullage/base/json.h"

namespace ullage::api {
namespace {

// SmolLM2-135M as its config.json states it: 134,515,008 parameters by its authors' card and by transformers.
model::ModelShape smollm() {
  model::ModelShape shape;
  shape.architecture = "llama";
  shape.vocab_size = 49152;
  shape.hidden_size = 576;
  shape.max_position_embeddings = 8192;
  shape.has_tied_embeddings = true;
  model::Attention attention;
  attention.num_heads = 9;
  attention.num_kv_heads = 3;
  attention.head_dim = 64;
  shape.layers.assign(30, model::LayerShape{attention, model::DenseFfn{1536, false}});
  return shape;
}

TEST(Inspect, SaysWhatTheModelIs) {
  const auto json = parse_json(inspect({.shape = smollm(), .path = "smol", .weights = {}}), "inspect");
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["schema_version"], 1);
  EXPECT_EQ(json->begin().key(), "schema_version");
  EXPECT_EQ((*json)["architecture"], "llama");
  EXPECT_EQ((*json)["parameters"]["total"], 134515008);
  EXPECT_EQ((*json)["parameters"]["output_head"], 0);
  EXPECT_EQ((*json)["max_position_embeddings"], 8192);
  EXPECT_EQ((*json)["weights"]["basis"], "config");
  EXPECT_EQ((*json)["weights"]["total_bytes"], 2 * 134515008);
  const Json& kv = (*json)["kv_cache"];
  EXPECT_EQ(kv["bytes_per_token"]["bf16"], 23040);
  EXPECT_EQ(kv["bytes_per_token"]["f32"], 46080);
  ASSERT_EQ(kv["groups"].size(), 1u);
  EXPECT_EQ(kv["groups"][0]["kind"], "full_attention");
  EXPECT_EQ(kv["groups"][0]["num_layers"], 30);
}

TEST(Inspect, GroupsLayersByWhatTheyKeep) {
  model::ModelShape shape = smollm();
  for (size_t i = 0; i < 30; i += 3) std::get<model::Attention>(shape.layers[i].mixer).sliding_window = 512;
  const auto json = parse_json(inspect({.shape = shape, .path = "", .weights = {}}), "inspect");
  ASSERT_TRUE(json);
  const Json& groups = (*json)["kv_cache"]["groups"];
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0]["kind"], "sliding_window");
  EXPECT_EQ(groups[0]["window"], 512);
  EXPECT_EQ(groups[0]["num_layers"], 10);
  EXPECT_EQ(groups[1]["num_layers"], 20);
}

TEST(Inspect, PrefersStoredBytes) {
  InspectInput input{.shape = smollm(), .path = "smol.gguf", .weights = {}};
  input.weights = {RoleBytes{"embedding", {"Q8_0"}, 1, 1000}, RoleBytes{"ffn", {"Q4_1", "Q8_0"}, 90, 234}};
  const auto json = parse_json(inspect(input), "inspect");
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["weights"]["basis"], "stored");
  EXPECT_EQ((*json)["weights"]["total_bytes"], 1234);
  EXPECT_EQ((*json)["weights"]["by_role"]["ffn"]["num_tensors"], 90);
  const std::string text = inspect_text(input);
  EXPECT_NE(text.find("Q4_1, Q8_0"), std::string::npos) << text;
}

TEST(InspectText, IsForPeople) {
  const std::string text = inspect_text({.shape = smollm(), .path = "smol", .weights = {}});
  for (const char* part : {"134,515,008", "9 heads, 3 KV heads, head_dim 64", "22.50 KiB", "180.00 MiB", "8,192"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

}  // namespace
}  // namespace ullage::api
