#include "ullage/memory/kv_layout.h"

#include <gtest/gtest.h>

#include <vector>

#include "ullage/memory/footprint.h"

namespace ullage::memory {
namespace {

using model::FullAttentionKv;
using model::KvDType;
using model::KvSpec;

KvLayout uniform(int64_t layers, int64_t heads, int64_t dim, int64_t block_size, KvDType dtype = KvDType::kBF16) {
  const std::vector<KvLayers> specs{{FullAttentionKv{heads, dim, dim}, layers}};
  return *make_kv_layout(specs, {.block_size = block_size, .kv_dtype = dtype});
}

// vLLM V1's own answers (its get_kv_cache_configs and printed capacity), recorded by running it.
TEST(KvCapacity, IsWhatVllmPrints) {
  struct Row {
    const char* name;
    KvLayout layout;
    int64_t available_gib, max_model_len, blocks, tokens;
    double concurrency;
  };
  const Row rows[] = {
      {"Llama-3.1-8B", uniform(32, 8, 128, 16), 50, 131072, 25600, 409600, 3.1250},
      {"Llama-3.1-8B, block 128", uniform(32, 8, 128, 128), 50, 131072, 3200, 409600, 3.1250},
      {"Qwen3-0.6B", uniform(28, 8, 128, 16), 10, 40960, 5851, 93616, 2.2855},
  };
  for (const Row& row : rows) {
    const int64_t blocks = num_blocks(row.layout, Bytes(row.available_gib * kGiB));
    EXPECT_EQ(blocks, row.blocks) << row.name;
    const KvCapacity capacity = kv_capacity(row.layout, blocks, row.max_model_len);
    EXPECT_EQ(capacity.size_tokens, row.tokens) << row.name;
    EXPECT_NEAR(capacity.max_concurrency, row.concurrency, 5e-5) << row.name;
  }
}

TEST(KvCapacity, RoundsInDoubleAsVllmDoes) {
  // A recorded case where exact integer arithmetic gives one token more. 352 blocks a request: as many groups.
  KvLayout layout = uniform(1, 1, 1, 10000);  // one block a group and request
  layout.groups.resize(352, layout.groups[0]);
  EXPECT_EQ(kv_capacity(layout, 1978048, 9999).size_tokens, 56188925);
}

TEST(KvCapacity, UsableLeavesTheNullBlockOut) {
  const KvCapacity capacity = kv_capacity(uniform(1, 1, 64, 4), 11, 44);
  EXPECT_EQ(capacity.size_tokens, 44);
  EXPECT_EQ(capacity.max_concurrency, 1.0);
  EXPECT_EQ(capacity.usable_tokens, 40);
  EXPECT_LT(capacity.usable_max_concurrency, 1.0);
}

TEST(KvLayout, BytesPerToken) {
  EXPECT_EQ(kv_bytes_per_token(uniform(32, 8, 128, 16)), 131072);  // Llama-3.1-8B: 128 KiB
  EXPECT_EQ(kv_bytes_per_token(uniform(30, 3, 64, 16)), 23040);    // SmolLM2-135M
  EXPECT_EQ(kv_bytes_per_token(uniform(30, 3, 64, 16, KvDType::kF32)), 2 * 23040);
  EXPECT_EQ(num_blocks(uniform(30, 3, 64, 16), Bytes(16 * 23040 - 1)), 0);
  EXPECT_EQ(num_blocks(uniform(30, 3, 64, 16), Bytes(16 * 23040)), 1);
  EXPECT_EQ(num_blocks(uniform(30, 3, 64, 16), Bytes(-5)), 0);
}

TEST(KvLayout, NamesWhatItDoesNotDo) {
  const FullAttentionKv full{8, 128, 128};
  const struct {
    std::vector<KvLayers> layers;
    KvLayoutOptions options;
    const char* word;
    const char* where;
  } rows[] = {
      {{{full, 2}, {model::SharedKv{0}, 1}, {model::SlidingWindowKv{FullAttentionKv{8, 192, 192}, 1024}, 2}},
       {.pads_unlike_pages = false},
       "does not divide",
       "layer 0"},
      {{{full, 2}, {model::SlidingWindowKv{full, 1024}, 1}}, {.decode_context = 2}, "a sliding window", "layer 1"},
      {{{model::LatentKv{512, 64}, 2}, {full, 1}}, {.kv_dtype = KvDType::kFP8DsMla}, "fp8_ds_mla", "layer 1"},
      {{{model::NoKv{}, 4}, {model::SharedKv{0}, 2}}, {}, "no KV cache", "layers"},
  };
  for (const auto& row : rows) {
    const auto layout = make_kv_layout(row.layers, row.options);
    ASSERT_FALSE(layout) << row.word;
    EXPECT_EQ(layout.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(layout.error().where, row.where);
    EXPECT_NE(layout.error().message.find(row.word), std::string::npos) << layout.error().message;
  }
}

TEST(KvLayout, RefusesBadNumbers) {
  const std::vector<KvLayers> specs{{FullAttentionKv{8, 128, 128}, 1}};
  EXPECT_FALSE(make_kv_layout(specs, {.block_size = 0}));
  EXPECT_FALSE(make_kv_layout(specs, {.block_size = -16}));
  EXPECT_FALSE(make_kv_layout(specs, {.tensor_parallel = 0}));
  EXPECT_FALSE(make_kv_layout(specs, {.num_speculative_tokens = -1}));
  EXPECT_FALSE(make_kv_layout(std::vector<KvLayers>{{specs[0].spec, 0}}, KvLayoutOptions{}));
  EXPECT_FALSE(make_kv_layout(std::vector<KvLayers>{{specs[0].spec, 1 << 30}}, KvLayoutOptions{}));
  EXPECT_FALSE(make_kv_layout(std::vector<KvLayers>{{model::SlidingWindowKv{{8, 128, 128}, 0}, 1}}, KvLayoutOptions{}));
  EXPECT_FALSE(make_kv_layout(std::vector<KvLayers>{{model::RecurrentState{}, 1}}, KvLayoutOptions{}));
  EXPECT_FALSE(make_kv_layout(std::vector<KvLayers>{}, KvLayoutOptions{}));
  EXPECT_FALSE(make_kv_layout(std::vector<KvLayers>{{FullAttentionKv{0, 128, 128}, 1}}, KvLayoutOptions{}));
  const int64_t huge = int64_t{1} << 60;
  EXPECT_EQ(make_kv_layout(std::vector<KvLayers>{{FullAttentionKv{huge, 128, 128}, 1}}, KvLayoutOptions{}).error().code,
            ErrorCode::kTooLarge);
  EXPECT_EQ(make_kv_layout(std::vector<KvLayers>{{FullAttentionKv{huge / 1024, 128, 128}, 64}}, KvLayoutOptions{})
                .error()
                .code,
            ErrorCode::kTooLarge);
}

TEST(Footprint, RolesSumToTheTotal) {
  const Footprint footprint{Bytes(1), Bytes(20), Bytes(300), Bytes(4000)};
  EXPECT_EQ(total(footprint).value, 4321);
  EXPECT_TRUE(check_sums(footprint, Bytes(4321)));
  const auto off = check_sums(footprint, Bytes(4322));
  ASSERT_FALSE(off);
  EXPECT_EQ(off.error().code, ErrorCode::kInternal);
  EXPECT_EQ(format_role(roles(
                Footprint{.weights = Bytes(3 * kGiB / 2), .repacked_weights = {}, .kv_pool = {}, .workspace = {}})[0]),
            "weights: 1.50 GiB");
}

}  // namespace
}  // namespace ullage::memory
