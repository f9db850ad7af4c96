// Layouts and capacities against vLLM's own answers: recorded ones (tests/data/vllm/plan.jsonl), and goldens of its
// planner and tests as tables.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "ullage/base/json.h"
#include "ullage/memory/kv_layout.h"

namespace ullage::memory {
namespace {

using model::FullAttentionKv;

std::vector<KvLayers> layers_of(const Json& given) {
  std::vector<KvLayers> layers;
  for (const Json& layer : given["layers"]) {
    const std::string type = layer["type"];
    const int64_t dim = layer["head_dim"];
    const FullAttentionKv kv{layer.value("kv_heads", int64_t{1}), dim, dim};
    KvLayers alike{kv, layer["count"]};
    if (type == "mla") alike.spec = model::LatentKv{dim, 0};
    if (type == "swa") alike.spec = model::SlidingWindowKv{kv, layer["window"]};
    if (type == "local") alike.spec = model::ChunkedLocalKv{kv, layer["chunk"]};
    layers.push_back(alike);
  }
  return layers;
}

const char* vllm_kind(const BlockGroup& group) {
  if (group.has_unlike_pages) return "UniformTypeKVCacheSpecs";
  if (std::holds_alternative<model::LatentKv>(group.spec)) return "MLAAttentionSpec";
  if (std::holds_alternative<model::SlidingWindowKv>(group.spec)) return "SlidingWindowSpec";
  if (std::holds_alternative<model::ChunkedLocalKv>(group.spec)) return "ChunkedLocalAttentionSpec";
  return "FullAttentionSpec";
}

void check_case(const Json& row) {
  const Json& given = row["given"];
  const Json& expect = row["expect"];
  SCOPED_TRACE("case " + row["case"].dump());
  const auto layout = make_kv_layout(layers_of(given), {.block_size = given["block_size"]});
  ASSERT_TRUE(layout) << layout.error().to_string();
  const InFlight in_flight{given["max_num_batched_tokens"], given["max_concurrent_batches"]};
  const Bytes available(given["available_bytes"].get<int64_t>());
  const int64_t max_model_len = given["max_model_len"];
  const auto fits = check_request_fits(*layout, available, max_model_len, in_flight);
  if (expect.contains("error")) {
    // vLLM's ValueError; its message has the needed GiB and the longest length, cut at 200 characters.
    ASSERT_EQ(expect["error"], "ValueError");
    ASSERT_FALSE(fits);
    EXPECT_EQ(fits.error().code, ErrorCode::kTooLarge);
    const std::string theirs = expect["message"];
    const size_t needed = theirs.find("), (") + 4;
    const std::string gib = theirs.substr(needed, theirs.find(" GiB", needed) - needed);
    EXPECT_NE(fits.error().message.find("needs " + gib + " GiB"), std::string::npos)
        << fits.error().message << " / " << theirs;
    return;
  }
  ASSERT_TRUE(fits) << fits.error().to_string();
  const int64_t blocks = num_blocks(*layout, available);
  EXPECT_EQ(blocks, expect["num_blocks"].get<int64_t>());
  const KvCapacity capacity = kv_capacity(*layout, blocks, max_model_len, in_flight);
  EXPECT_EQ(capacity.size_tokens, expect["GPU KV cache size tokens"].get<int64_t>());
  EXPECT_EQ(capacity.max_concurrency, expect["max_concurrency"].get<double>());  // to the last bit

  ASSERT_EQ(layout->groups.size(), expect["groups"].size());
  for (size_t i = 0; i < layout->groups.size(); ++i) {
    const Json& theirs = expect["groups"][i];
    const BlockGroup& ours = layout->groups[i];
    EXPECT_EQ(vllm_kind(ours), theirs["kind"].get<std::string>());
    EXPECT_EQ(ours.num_layers, theirs["n_layers"].get<int64_t>());
    EXPECT_EQ(ours.block_size, theirs["block_size"].get<int64_t>());
    EXPECT_EQ(ours.page_size_bytes, theirs["page"].get<int64_t>());
  }
  // One tensor for each layer of the largest group, shared by the groups; a tensor a layer when pages are unlike.
  int64_t tensors = 0;
  for (const BlockGroup& group : layout->groups) tensors = std::max(tensors, group.num_layers);
  EXPECT_EQ(tensors, expect["tensors"].get<int64_t>());
  const int64_t first = layout->groups[0].has_unlike_pages
                            ? *layer_bytes(layers_of(given)[0].spec, layout->options) * layout->block_size
                            : layout->groups[0].page_size_bytes;
  EXPECT_EQ(first * blocks, expect["tensor_size"].get<int64_t>());
}

TEST(VllmPlan, EveryRecordedLayoutIsTheSame) {
  const char* folder = std::getenv("ULLAGE_VLLM_SESSIONS");
  const std::string path = folder != nullptr ? std::string(folder) + "/plan.jsonl"
                                             : std::string(ULLAGE_SOURCE_DIR "/tests/data/vllm/plan.jsonl");
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  int64_t rows = 0;
  for (std::string line; std::getline(file, line); ++rows) {
    const auto row = parse_json(line, path);
    ASSERT_TRUE(row) << row.error().to_string();
    check_case(*row);
  }
  EXPECT_GE(rows, 200);
}

// vLLM's planner run on shapes of well-known models.
TEST(VllmPlan, GoldensOfKnownShapes) {
  const FullAttentionKv llama{8, 128, 128};
  const FullAttentionKv gpt_oss{8, 64, 64};
  const FullAttentionKv gemma{16, 128, 128};
  const InFlight async{8192, 2};
  const struct {
    const char* name;
    std::vector<KvLayers> layers;
    KvLayoutOptions options;
    int64_t available_gib, max_model_len;
    InFlight in_flight;
    int64_t blocks, tokens;
    double concurrency;
  } rows[] = {
      {"Llama-3.1-8B", {{llama, 32}}, {}, 50, 131072, async, 25600, 409600, 3.1250},
      {"block 128", {{llama, 32}}, {.block_size = 128}, 50, 131072, async, 3200, 409600, 3.1250},
      {"Qwen3-0.6B", {{llama, 28}}, {}, 10, 40960, async, 5851, 93616, 2.2855},
      {"DeepSeek-V3",
       {{model::LatentKv{512, 64}, 61}},
       {.block_size = 64, .tensor_parallel = 8},
       30,
       163840,
       async,
       7162,
       458368,
       2.7977},
      {"gpt-oss-20b, asynchronous",
       {{gpt_oss, 12}, {model::SlidingWindowKv{gpt_oss, 128}, 12}},
       {},
       40,
       131072,
       async,
       109226,
       1551920,
       11.8402},
      {"gpt-oss-20b, synchronous",
       {{gpt_oss, 12}, {model::SlidingWindowKv{gpt_oss, 128}, 12}},
       {},
       40,
       131072,
       {2048, 1},
       109226,
       1718870,
       13.1139},
      {"10 full and 52 of a window of 1024",
       {{gemma, 10}, {model::SlidingWindowKv{gemma, 1024}, 52}},
       {},
       30,
       131072,
       async,
       24576,
       218744,
       1.6689},
      {"the same kept in full",
       {{gemma, 10}, {model::SlidingWindowKv{gemma, 1024}, 52}},
       {.is_hybrid_disabled = true},
       64,
       131072,
       async,
       8456,
       135296,
       1.0322},
      {"Llama-4-Scout",
       {{llama, 12}, {model::ChunkedLocalKv{llama, 8192}, 36}},
       {},
       40,
       131072,
       async,
       54613,
       559237,
       4.2666},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const auto layout = make_kv_layout(row.layers, row.options);
    ASSERT_TRUE(layout) << layout.error().to_string();
    const int64_t blocks = num_blocks(*layout, Bytes(row.available_gib * kGiB));
    EXPECT_EQ(blocks, row.blocks);
    const KvCapacity capacity = kv_capacity(*layout, blocks, row.max_model_len, row.in_flight);
    EXPECT_EQ(capacity.size_tokens, row.tokens);
    EXPECT_NEAR(capacity.max_concurrency, row.concurrency, 5e-5);
  }
}

TEST(VllmPlan, OverriddenBlocksMixedHeadsAndTheLongestLength) {
  const auto llama = *make_kv_layout(std::vector<KvLayers>{{FullAttentionKv{8, 128, 128}, 32}}, {});
  const KvCapacity overridden = kv_capacity(llama, 1000, 8192);
  EXPECT_EQ(overridden.size_tokens, 16000);
  EXPECT_NEAR(overridden.max_concurrency, 1.9531, 5e-5);
  // --max-model-len auto in 10 GiB.
  EXPECT_EQ(max_model_len_that_fits(llama, num_blocks(llama, Bytes(10 * kGiB)), 131072), 81920);

  const auto mixed =
      *make_kv_layout(std::vector<KvLayers>{{FullAttentionKv{4, 128, 128}, 8}, {FullAttentionKv{4, 64, 64}, 8}}, {});
  ASSERT_EQ(mixed.groups.size(), 1U);
  EXPECT_TRUE(mixed.groups[0].has_unlike_pages);
  const int64_t blocks = num_blocks(mixed, Bytes(10 * kGiB));
  EXPECT_EQ(blocks, 27306);
  EXPECT_EQ(kv_capacity(mixed, blocks, 8192).size_tokens, 436896);
  EXPECT_NEAR(kv_capacity(mixed, blocks, 8192).max_concurrency, 53.332, 5e-4);
}

// vllm/tests/v1/core/test_kv_cache_utils.py, test_get_max_concurrency_for_kv_cache_config.
TEST(VllmFacts, MaxConcurrency) {
  const FullAttentionKv kv{32, 128, 128};
  const InFlight in_flight{1024, 1};
  const auto full = *make_kv_layout(std::vector<KvLayers>{{kv, 32}}, {});
  EXPECT_EQ(kv_capacity(full, 1536, 16384, in_flight).max_concurrency, 1.5);
  const auto window = *make_kv_layout(std::vector<KvLayers>{{model::SlidingWindowKv{kv, 1024}, 32}}, {});
  EXPECT_EQ(blocks_per_request(window, 16384, in_flight), 129);
  EXPECT_EQ(kv_capacity(window, 129 * 3, 16384, in_flight).max_concurrency, 3.0);
  const auto hybrid = *make_kv_layout(std::vector<KvLayers>{{kv, 32}, {model::SlidingWindowKv{kv, 1024}, 32}}, {});
  EXPECT_EQ(blocks_per_request(hybrid, 16384, in_flight), 1024 + 129);
  EXPECT_EQ(kv_capacity(hybrid, (1024 + 129) * 3, 16384, in_flight).max_concurrency, 3.0);
}

// ::test_get_max_concurrency...packed: a window of 128 beside full attention.
TEST(VllmFacts, MaxConcurrencyOfAShortWindow) {
  const FullAttentionKv kv{32, 128, 128};
  const auto layout = *make_kv_layout(std::vector<KvLayers>{{kv, 32}, {model::SlidingWindowKv{kv, 128}, 32}}, {});
  EXPECT_EQ(blocks_per_request(layout, 16384, {1024, 1}), 1024 + 73);
}

// ::test_auto_fit_max_model_len, full and hybrid with a drafter's states: 1024 // 16 blocks, and the state's 1 + gamma.
TEST(VllmFacts, TheLongestLengthThatFits) {
  const FullAttentionKv kv{2, 64, 64};
  const auto full = *make_kv_layout(std::vector<KvLayers>{{kv, 2}}, {});
  EXPECT_EQ(max_model_len_that_fits(full, 1024 / 16, 4096), 1024);
  EXPECT_EQ(max_model_len_that_fits(full, 1024 / 16, 512), 512);
  EXPECT_EQ(max_model_len_that_fits(full, 0, 512), 0);

  constexpr int64_t kGamma = 2;
  model::RecurrentState state;
  state.num_heads = 1;
  state.state_elements = 2048;  // 8 KiB: as large as the attention page
  const auto hybrid = *make_kv_layout(std::vector<KvLayers>{{kv, 1}, {state, 1}},
                                      {.num_speculative_tokens = kGamma, .has_prefix_caching = false});
  ASSERT_EQ(hybrid.block_size, 16);
  EXPECT_EQ(max_model_len_that_fits(hybrid, 1024 / 16 + 1 + kGamma, 4096), 1024);
  EXPECT_EQ(max_model_len_that_fits(hybrid, 1 + kGamma, 4096), 0);
}

// ::test_unify_kv_cache_page_size_uses_padding: heads of 192 and 128 do not divide; the smaller page is padded.
TEST(VllmFacts, PagesThatDoNotDivideArePadded) {
  const std::vector<KvLayers> layers{{FullAttentionKv{2, 192, 192}, 2},
                                     {model::SlidingWindowKv{FullAttentionKv{2, 128, 128}, 64}, 2}};
  const auto padded = make_kv_layout(layers, {.pads_unlike_pages = true});
  ASSERT_TRUE(padded) << padded.error().to_string();
  const int64_t page = int64_t{16} * 2 * 2 * 192 * 2;
  EXPECT_EQ(padded->groups[0].page_size_bytes, page);
  EXPECT_EQ(padded->groups[1].page_size_bytes, page);
  EXPECT_EQ(padded->groups[1].block_size, 16);
  EXPECT_FALSE(make_kv_layout(layers, {.pads_unlike_pages = false}));
}

TEST(VllmPlan, RefusesARequestLargerThanThePool) {
  const auto layout = *make_kv_layout(std::vector<KvLayers>{{FullAttentionKv{8, 128, 128}, 32}}, {});
  const auto refused = check_request_fits(layout, Bytes(10 * kGiB), 131072);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kTooLarge);
  for (const char* part : {"131072 tokens", "16.00 GiB", "10.00 GiB", "81920 tokens"}) {
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << part << ": " << refused.error().message;
  }
  EXPECT_TRUE(check_request_fits(layout, Bytes(10 * kGiB), 81920));
  EXPECT_FALSE(check_request_fits(layout, Bytes(-1), 1));
  EXPECT_FALSE(check_request_fits(layout, Bytes(0), 1));
}

}  // namespace
}  // namespace ullage::memory
