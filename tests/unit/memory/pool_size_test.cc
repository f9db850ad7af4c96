// This engine's pool: the one function that serve and plan ask.
#include "ullage/memory/pool_size.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ullage::memory {
namespace {

// 2 layers of 4 KV heads of 64 in BF16: 2 KiB a token, 32 KiB a block of 16.
KvLayout layout() {
  const std::vector<KvLayers> layers{{model::FullAttentionKv{4, 64, 64}, 2}};
  const auto made = make_kv_layout(layers, {});
  EXPECT_TRUE(made);
  return *made;
}

PoolRequest request() {
  PoolRequest r;
  r.share = Bytes(1 * kGiB);
  r.limit = Bytes(2 * kGiB);
  r.max_num_seqs = 4;
  r.max_model_len = 1000;
  return r;
}

TEST(PoolSize, IsWhatRequestsCanUseAndTheNullBlock) {
  // 4 requests of 63 blocks are fewer than the 32,768 that fit.
  const auto pool = size_pool(layout(), request());
  ASSERT_TRUE(pool);
  EXPECT_EQ(pool->num_blocks, 4 * 63 + 1);
  EXPECT_EQ(pool->max_model_len, 1000);
}

TEST(PoolSize, IsTheLeastOfShareAndGivenMemory) {
  PoolRequest r = request();
  r.max_num_seqs = 1 << 20;
  EXPECT_EQ(size_pool(layout(), r)->num_blocks, 32768);
  r.kv_memory = Bytes(512 * kMiB);
  EXPECT_EQ(size_pool(layout(), r)->num_blocks, 16384);
  EXPECT_FALSE(size_pool(layout(), r)->is_capped);
  r.kv_memory = Bytes(2 * kGiB);
  EXPECT_EQ(size_pool(layout(), r)->num_blocks, 32768);
  EXPECT_TRUE(size_pool(layout(), r)->is_capped);
}

TEST(PoolSize, OverrideIsHeldAgainstWhatThereIs) {
  PoolRequest r = request();
  r.num_blocks = 65536;
  EXPECT_EQ(size_pool(layout(), r)->num_blocks, 65536);
  r.num_blocks = 65537;
  const auto pool = size_pool(layout(), r);
  ASSERT_FALSE(pool);
  EXPECT_EQ(pool.error().code, ErrorCode::kTooLarge);
  EXPECT_NE(pool.error().message.find("give 65536 or fewer"), std::string::npos) << pool.error().message;
  // Weights that leave nothing leave no blocks either.
  r.limit = Bytes(-5 * kGiB);
  EXPECT_FALSE(size_pool(layout(), r));
}

TEST(PoolSize, ARequestThatDoesNotFitIsRefusedOrShortened) {
  PoolRequest r = request();
  r.share = Bytes(32 * kKiB * 11);
  const auto refused = size_pool(layout(), r);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "--max-model-len");
  r.may_shorten = true;
  ASSERT_TRUE(size_pool(layout(), r));
  EXPECT_EQ(size_pool(layout(), r)->max_model_len, 160);
  r.share = Bytes(32 * kKiB);
  EXPECT_EQ(size_pool(layout(), r).error().where, "KV pool");
  r.share = Bytes(-1);
  EXPECT_EQ(size_pool(layout(), r).error().where, "KV pool");
}

}  // namespace
}  // namespace ullage::memory
