// What single kinds of layers take: states, latent vectors, narrow formats, ranks; and the rules of vLLM's versions.
#include <gtest/gtest.h>

#include <vector>

#include "ullage/memory/kv_layout.h"
#include "ullage/memory/vllm_rules.h"

namespace ullage::memory {
namespace {

using model::FullAttentionKv;
using model::KvDType;

// Qwen3-Next and Qwen3.5: 32 value heads and 16 key heads of 128, a convolution of 4.
model::RecurrentState gated_delta(model::DType state_dtype = model::DType::kF32) {
  model::RecurrentState state;
  state.conv_channels = 2 * 16 * 128 + 32 * 128;
  state.conv_width = 3;
  state.num_heads = 32;
  state.state_elements = 128 * 128;
  state.state_dtype = state_dtype;
  return state;
}

KvLayout qwen3_next(const KvLayoutOptions& options, model::DType state_dtype = model::DType::kF32) {
  const std::vector<KvLayers> layers{{gated_delta(state_dtype), 36}, {FullAttentionKv{2, 256, 256}, 12}};
  const auto layout = make_kv_layout(layers, options);
  EXPECT_TRUE(layout) << layout.error().to_string();
  return *layout;
}

// "Setting attention block size to N tokens" in start-up logs of Qwen3-Next and Qwen3.6.
TEST(RecurrentStates, SetTheAttentionBlock) {
  EXPECT_EQ(qwen3_next({}).block_size, 1056);
  EXPECT_EQ(qwen3_next({}, model::DType::kBF16).block_size, 544);
  EXPECT_EQ(qwen3_next({.num_speculative_tokens = 3}).block_size, 1072);
  EXPECT_EQ(qwen3_next({.kv_dtype = KvDType::kFP8E4M3}).block_size, 2096);
  // With a state in every block the size is a multiple of the kernel's chunk, too.
  EXPECT_EQ(qwen3_next({.state_chunk_size = 64}).block_size, 1088);
  // Two ranks have half the state and one KV head each: the same block.
  EXPECT_EQ(qwen3_next({.tensor_parallel = 2}).block_size, 1056);
  // Four ranks still have a whole KV head each, and a quarter of the state.
  EXPECT_EQ(qwen3_next({.tensor_parallel = 4}).block_size, 528);
}

TEST(RecurrentStates, GroupsAndBlocksOfARequest) {
  const KvLayout layout = qwen3_next({});
  ASSERT_EQ(layout.groups.size(), 4U);  // 36 and 12 layers in groups of 12
  EXPECT_EQ(layout.groups[0].num_layers, 12);
  const int64_t page = int64_t{1056} * 2048;
  EXPECT_EQ(layout.groups[0].page_size_bytes, page);
  EXPECT_EQ(layout.bytes_per_block, 12 * page);
  const double state = 8192 * 3 * 2 + 32 * 128 * 128 * 4;
  EXPECT_DOUBLE_EQ(layout.state_padding, (static_cast<double>(page) - state) / state);
  // Two states a request with prefix caching, one without, one more for each speculative token; never by its length.
  EXPECT_EQ(blocks_per_request(layout, 10560), 10 + 3 * 2);
  EXPECT_EQ(blocks_per_request(qwen3_next({.has_prefix_caching = false}), 10560), 10 + 3);
  EXPECT_EQ(blocks_per_request(qwen3_next({.num_speculative_tokens = 3, .has_prefix_caching = false}), 10720),
            10 + 3 * 4);
  EXPECT_EQ(blocks_per_request(qwen3_next({.state_chunk_size = 16}), 10560), 10 + 3 * 10);
}

// Mamba 2: with fewer groups than ranks each rank has a whole group's B and C.
TEST(RecurrentStates, GroupsOfChannelsAreNotSplit) {
  model::RecurrentState state;
  state.conv_channels = 4096 + 2 * 128;
  state.conv_width = 3;
  state.num_heads = 64;
  state.state_elements = 64 * 128;
  state.num_groups = 1;
  state.group_channels = 2 * 128;
  const auto bytes = [&](int64_t tp) { return *layer_bytes(state, {.tensor_parallel = tp}); };
  EXPECT_EQ(bytes(1), (4096 + 256) * 3 * 2 + 64 * 64 * 128 * 4);
  EXPECT_EQ(bytes(4), (1024 + 256) * 3 * 2 + 16 * 64 * 128 * 4);
}

// Gemma 4: windows of 8 heads x 256, global layers of 2 heads x 512: the global block takes 32 tokens.
TEST(KvPages, TheSmallerPageTakesMoreTokens) {
  const std::vector<KvLayers> layers{{model::SlidingWindowKv{FullAttentionKv{8, 256, 256}, 1024}, 25},
                                     {FullAttentionKv{2, 512, 512}, 5}};
  const auto layout = *make_kv_layout(layers, {});
  ASSERT_EQ(layout.groups.size(), 6U);
  EXPECT_EQ(layout.groups[0].block_size, 16);
  EXPECT_EQ(layout.groups[5].block_size, 32);
  EXPECT_EQ(layout.groups[5].page_size_bytes, layout.groups[0].page_size_bytes);
  EXPECT_EQ(layout.bytes_per_block, int64_t{5} * 16 * 8 * 512 * 2);
  EXPECT_EQ(kv_bytes_per_token(layout), 5 * 2 * 1024 * 2);
}

TEST(KvPages, LatentVectorsAndTheIndexersKey) {
  const model::LatentKv latent{512, 64};
  EXPECT_EQ(*layer_bytes(latent, {}), 1152);
  EXPECT_EQ(*layer_bytes(latent, {.tensor_parallel = 8}), 1152);  // every rank keeps all of it
  EXPECT_EQ(*layer_bytes(latent, {.kv_dtype = KvDType::kFP8E4M3}), 576);
  EXPECT_EQ(*layer_bytes(latent, {.kv_dtype = KvDType::kFP8DsMla}), 656);
  EXPECT_EQ(*layer_bytes(latent, {.latent_padding = 128}), 1280);
  EXPECT_EQ(*layer_bytes(model::IndexerKv{128}, {.kv_dtype = KvDType::kFP8DsMla}), 132);
  // DeepSeek V3.2: one group of unlike pages.
  const auto layout = *make_kv_layout(std::vector<KvLayers>{{latent, 61}, {model::IndexerKv{128}, 61}},
                                      {.block_size = 64, .kv_dtype = KvDType::kFP8DsMla});
  ASSERT_EQ(layout.groups.size(), 1U);
  EXPECT_EQ(layout.bytes_per_block, 61 * 64 * (656 + 132));
  EXPECT_EQ(kv_bytes_per_token(layout), 61 * (656 + 132));
}

TEST(KvPages, NarrowFormats) {
  const FullAttentionKv kv{8, 128, 128};
  const struct {
    KvDType dtype;
    int64_t bytes;  // of a head's key and value
  } rows[] = {{KvDType::kF32, 1024},
              {KvDType::kBF16, 512},
              {KvDType::kFP8E4M3, 256},
              {KvDType::kINT8PerTokenHead, 256 + 8},
              {KvDType::kINT4PerTokenHead, 128 + 8},
              {KvDType::kNVFP4, 2 * (64 + 8)},
              {KvDType::kQ8_0, 2 * 4 * 34},
              {KvDType::kQ4_0, 2 * 4 * 18}};
  for (const auto& row : rows) {
    EXPECT_EQ(*layer_bytes(kv, {.kv_dtype = row.dtype}), 8 * row.bytes) << model::kv_dtype_name(row.dtype);
    EXPECT_EQ(*model::parse_kv_dtype(model::kv_dtype_name(row.dtype), "x"), row.dtype);
  }
  EXPECT_EQ(model::kv_head_bytes(KvDType::kFP8DsMla, 576), 656);
  EXPECT_FALSE(model::parse_kv_dtype("auto", "--kv-cache-dtype"));
  EXPECT_FALSE(model::parse_kv_dtype("", "--kv-cache-dtype"));
}

TEST(KvPages, RanksHaveAtLeastOneHead) {
  const FullAttentionKv kv{8, 128, 128};
  EXPECT_EQ(*layer_bytes(kv, {.tensor_parallel = 4}), 2 * 512);
  EXPECT_EQ(*layer_bytes(kv, {.tensor_parallel = 16}), 512);
}

TEST(KvRequests, FixedPerTokenAndWindowedBytes) {
  const FullAttentionKv kv{8, 128, 128};  // 4,096 bytes a token
  const std::vector<KvLayers> layers{{kv, 2},
                                     {model::SlidingWindowKv{kv, 1024}, 3},
                                     {model::ChunkedLocalKv{kv, 8192}, 1},
                                     {gated_delta(), 4},
                                     {model::CrossAttentionKv{kv, 1500}, 1},
                                     {model::SharedKv{0}, 5}};
  const auto request = *request_bytes(layers, {}, 10000);
  EXPECT_EQ(request.per_token_bytes, 2 * 4096);
  EXPECT_EQ(request.windowed_bytes, 4096 * (3 * 1024 + 8192));
  EXPECT_EQ(request.fixed_bytes, 4 * (8192 * 3 * 2 + 32 * 128 * 128 * 4) + 1500 * 4096);
  EXPECT_EQ(request.total(), request.fixed_bytes + request.windowed_bytes + 10000 * 2 * 4096);
  EXPECT_EQ((*request_bytes(layers, {}, 100)).windowed_bytes, 4096 * (3 * 100 + 100));
  EXPECT_EQ(*kv_bytes_per_token(layers, {}), 2 * 4096);
  EXPECT_EQ((*request_bytes(layers, {.is_hybrid_disabled = true}, 10000)).per_token_bytes, 6 * 4096);
}

TEST(KvRequests, RequestsThatFitLeaveTheNullBlockOut) {
  const auto layout = *make_kv_layout(std::vector<KvLayers>{{FullAttentionKv{8, 128, 128}, 32}}, {});
  EXPECT_EQ(requests_that_fit(layout, 101, 160), 10);
  EXPECT_EQ(requests_that_fit(layout, 100, 160), 9);
  EXPECT_EQ(requests_that_fit(layout, 0, 160), 0);
}

TEST(KvRequests, ContextParallelRanksShareARequestsTokens) {
  const auto layout = *make_kv_layout(std::vector<KvLayers>{{model::LatentKv{512, 64}, 61}},
                                      {.block_size = 64, .tensor_parallel = 8, .decode_context = 4});
  EXPECT_EQ(blocks_per_request(layout, 1000), 4);  // 250 tokens a rank
  EXPECT_EQ(kv_capacity(layout, 101, 1024).usable_tokens, 100 * 64 * 4);
  EXPECT_EQ(kv_capacity(layout, 101, 1024).size_tokens_by_groups, 101 * 64 * 4);
}

// vLLM 0.19 printed gpt-oss's tokens by groups, 0.22 derives them.
TEST(KvCapacity, TokensByGroupsAreTheOldRule) {
  const FullAttentionKv kv{8, 64, 64};
  const auto layout = *make_kv_layout(std::vector<KvLayers>{{kv, 12}, {model::SlidingWindowKv{kv, 128}, 12}}, {});
  const KvCapacity capacity = kv_capacity(layout, 35329, 8192, {2048, 1});
  EXPECT_EQ(capacity.size_tokens_by_groups, 282624);  // a log of 0.13.0: 282,624 tokens, 54.44x
  EXPECT_NEAR(capacity.max_concurrency, 54.44, 5e-3);
}

TEST(VllmRules, VersionsAreOrdered) {
  EXPECT_EQ(version_number("0.20.2"), 20'002);
  EXPECT_EQ(version_number("v0.19.2rc1.dev134+gfe9c3d6c5"), 19'002);
  EXPECT_EQ(version_number("0.7"), 7'000);
  EXPECT_EQ(version_number("1.2.3.4"), 1'002'003);
  EXPECT_EQ(version_number("0.1.dev1+gda1daf40b"), -1);
  EXPECT_EQ(version_number("nightly"), -1);
  EXPECT_EQ(version_number(""), -1);
  EXPECT_EQ(version_number("99999999999999999999"), -1);
}

TEST(VllmRules, EachVersionHasItsOwn) {
  EXPECT_FALSE(vllm_layout_rules("0.20.1").prints_derived_tokens);
  EXPECT_TRUE(vllm_layout_rules("0.20.2").prints_derived_tokens);
  EXPECT_EQ(vllm_layout_rules("0.11.2").group_size_percent, 0);
  EXPECT_EQ(vllm_layout_rules("0.17.1").group_size_percent, 125);
  EXPECT_EQ(vllm_layout_rules("0.19.0").group_size_percent, 150);
  EXPECT_EQ(vllm_layout_rules("0.25.1").max_concurrent_batches, 1);
  EXPECT_EQ(vllm_layout_rules("0.26.0").max_concurrent_batches, 2);
  EXPECT_EQ(vllm_layout_rules("0.7.3").latent_padding, 128);
  EXPECT_EQ(vllm_layout_rules("unknown").from, vllm_layout_rules("99.0").from);

  // 12 and 13 layers: one group of 13 each, or 12 and twice 7.
  const FullAttentionKv kv{8, 64, 64};
  const std::vector<KvLayers> layers{{kv, 13}, {model::SlidingWindowKv{kv, 128}, 12}};
  KvLayoutOptions options;
  apply(vllm_layout_rules("0.11.2"), false, options);
  EXPECT_EQ(make_kv_layout(layers, options)->groups.size(), 3U);
  apply(vllm_layout_rules("0.12.0"), false, options);
  EXPECT_EQ(make_kv_layout(layers, options)->groups.size(), 2U);
}

}  // namespace
}  // namespace ullage::memory
