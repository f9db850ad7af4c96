// Facts of vLLM's own tests (v1/core), each named after the test that states it.
#include <vector>

#include <gtest/gtest.h>

#include "ullage/cache/kv_cache.h"

namespace ullage::cache {
namespace {

using Tokens = std::vector<TokenId>;

Tokens range(int64_t num_tokens, TokenId first = 0) {
  Tokens tokens;
  for (int64_t i = 0; i < num_tokens; ++i) tokens.push_back(first + static_cast<TokenId>(i));
  return tokens;
}
Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Cache : public KvCache {
 public:
  Cache(int64_t num_blocks, int64_t size, bool is_caching = true)
      : KvCache({.num_blocks = num_blocks, .block_size = size, .enable_prefix_caching = is_caching}) {}

  struct Answer {
    CacheHandle handle;
    int64_t hit = 0;
    std::vector<int32_t> new_blocks;
    bool ok = false;
  };
  Answer arrive(const Tokens& tokens, const std::string& salt = "") {
    Answer a{.handle = add(salt, ""), .hit = 0, .new_blocks = {}};
    const PrefixHit hit = find_prefix(a.handle, tokens);
    a.hit = hit.num_tokens;
    const size_t num_hit = hit.blocks.size();
    a.ok = allocate(a.handle, tokens, hit, {.num_new_tokens = static_cast<int64_t>(tokens.size()) - hit.num_tokens});
    if (a.ok)
      for (const BlockId block : table(a.handle).subspan(num_hit)) a.new_blocks.push_back(block.value);
    check_invariants();
    return a;
  }
  std::vector<int32_t> queue() const {
    std::vector<int32_t> blocks;
    for (BlockId b = pool().first_free(); b != kNullBlock; b = pool().next_free(b)) blocks.push_back(b.value);
    return blocks;
  }
};

using Blocks = std::vector<int32_t>;

TEST(KvCacheFacts, Prefill) {  // 1
  Cache cache(11, 16);
  const auto first = cache.arrive(range(48) + range(7, 100));
  EXPECT_EQ(first.new_blocks, (Blocks{1, 2, 3, 4}));
  const auto second = cache.arrive(range(48) + range(5, 200));
  EXPECT_EQ(second.hit, 48);
  EXPECT_EQ(second.new_blocks, (Blocks{5}));
  EXPECT_EQ(cache.pool().ref_count(BlockId(1)), 2);
  cache.remove(first.handle);
  cache.remove(second.handle);
  EXPECT_EQ(cache.queue(), (Blocks{5, 4, 6, 7, 8, 9, 10, 3, 2, 1}));
  // All ten, none of them a hit.
  EXPECT_EQ(cache.arrive(range(160, 1000)).new_blocks, (Blocks{5, 4, 6, 7, 8, 9, 10, 3, 2, 1}));
  EXPECT_EQ(cache.num_free_blocks(), 0);
}

TEST(KvCacheFacts, Evict) {  // 2
  Cache cache(11, 16);
  const auto first = cache.arrive(range(5 * 16 + 7));
  const auto second = cache.arrive(range(3 * 16, 1000));
  cache.remove(first.handle);
  EXPECT_EQ(cache.queue(), (Blocks{6, 10, 5, 4, 3, 2, 1}));
  cache.remove(second.handle);
  EXPECT_EQ(cache.queue(), (Blocks{6, 10, 5, 4, 3, 2, 1, 9, 8, 7}));
  const auto third = cache.arrive(range(2 * 16) + range(3, 2000));
  EXPECT_EQ(third.hit, 32);
  EXPECT_EQ(third.new_blocks, (Blocks{6}));
  EXPECT_EQ(cache.num_free_blocks(), 7);
}

TEST(KvCacheFacts, ComputedBlocksNotEvicted) {  // 3
  Cache cache(3, 16);
  const auto first = cache.arrive(range(16));
  const auto second = cache.arrive(range(16, 100));
  cache.remove(first.handle);
  cache.remove(second.handle);
  const auto third = cache.arrive(range(32));
  EXPECT_EQ(third.hit, 16);
  EXPECT_EQ(third.new_blocks, (Blocks{2}));
}

TEST(KvCacheFacts, PrefixCachingDisabled) {  // 4
  Cache cache(5, 4, false);
  const auto first = cache.arrive(range(10));
  EXPECT_EQ(first.new_blocks.size(), 3u);
  cache.remove(first.handle);
  const auto second = cache.arrive(range(16));
  EXPECT_EQ(second.hit, 0);
  EXPECT_EQ(second.new_blocks.size(), 4u);
  EXPECT_FALSE(cache.arrive(range(4)).ok);
}

TEST(KvCacheFacts, FailedAllocationChangesNothing) {  // 5
  Cache cache(5, 4);
  const auto first = cache.arrive(range(8));
  const auto second = cache.arrive(range(4, 100));
  cache.remove(second.handle);
  const auto before = cache.queue();
  const auto third = cache.arrive(range(20));
  EXPECT_EQ(third.hit, 8);
  EXPECT_FALSE(third.ok);
  EXPECT_EQ(cache.queue(), before);
  EXPECT_EQ(cache.pool().ref_count(BlockId(1)), 1);
  EXPECT_EQ(cache.pool().ref_count(BlockId(3)), 0);
  EXPECT_TRUE(cache.table(third.handle).empty());
  EXPECT_EQ(cache.table(first.handle).size(), 2u);
}

TEST(KvCacheFacts, SaltSeparates) {  // 6
  Cache cache(20, 16);
  Tokens tokens = range(59);
  const auto first = cache.arrive(tokens, "salt1");
  tokens = range(64);
  ASSERT_TRUE(cache.allocate(first.handle, tokens, {}, {.num_computed_tokens = 59, .num_new_tokens = 5}));
  EXPECT_EQ(cache.num_cached_keys(), 4);
  EXPECT_EQ(cache.arrive(range(59), "salt1").hit, 48);
  EXPECT_EQ(cache.arrive(range(65), "salt1").hit, 64);
  EXPECT_EQ(cache.arrive(range(59), "salt2").hit, 0);
  EXPECT_EQ(cache.arrive(range(59)).hit, 0);
}

TEST(KvCacheFacts, DecodeTakesABlockAtTheBoundaryOnly) {  // 7
  Cache cache(11, 16);
  const auto first = cache.arrive(range(55));
  Tokens tokens = range(59);
  ASSERT_TRUE(cache.allocate(first.handle, tokens, {}, {.num_computed_tokens = 55, .num_new_tokens = 4}));
  EXPECT_EQ(cache.table(first.handle).size(), 4u);
  EXPECT_EQ(cache.index().node_of(BlockId(4)), kNoNode);
  tokens = range(69);
  ASSERT_TRUE(cache.allocate(first.handle, tokens, {}, {.num_computed_tokens = 59, .num_new_tokens = 10}));
  EXPECT_EQ(cache.table(first.handle).size(), 5u);
  EXPECT_NE(cache.index().node_of(BlockId(4)), kNoNode);
}

TEST(KvCacheFacts, ReusedBlockLosesItsKey) {  // 8
  Cache cache(2, 16);
  const auto first = cache.arrive(range(16));
  EXPECT_NE(cache.index().node_of(BlockId(1)), kNoNode);
  cache.remove(first.handle);
  EXPECT_TRUE(cache.arrive(range(15, 100)).ok);
  EXPECT_EQ(cache.index().node_of(BlockId(1)), kNoNode);
}

TEST(KvCacheFacts, ResetIsRefusedWhileABlockIsInUse) {  // 10
  Cache cache(11, 16);
  const auto first = cache.arrive(range(55));
  EXPECT_FALSE(cache.reset_prefix_cache());
  EXPECT_EQ(cache.num_cached_keys(), 3);
  cache.remove(first.handle);
  EXPECT_TRUE(cache.reset_prefix_cache());
  EXPECT_EQ(cache.num_cached_keys(), 0);
  EXPECT_EQ(cache.arrive(range(55)).hit, 0);
}

TEST(KvCacheFacts, EventsNameParentsInOrder) {  // 11
  Cache cache(4, 4);
  const auto first = cache.arrive(range(10));
  ASSERT_EQ(cache.events().size(), 2u);
  EXPECT_EQ(cache.events()[0].block, BlockId(1));
  EXPECT_EQ(cache.events()[0].parent_key, Hash128{});
  EXPECT_EQ(cache.events()[1].parent_key, cache.events()[0].key);
  const Hash128 tail_key = cache.events()[1].key;
  cache.events().clear();
  cache.remove(first.handle);
  EXPECT_TRUE(cache.events().empty());
  cache.arrive(range(8, 100));  // takes 3, then 2, the cached chain's tail
  ASSERT_EQ(cache.events().size(), 3u);
  EXPECT_EQ(cache.events()[0].kind, CacheEvent::Kind::kEvicted);
  EXPECT_EQ(cache.events()[0].block, BlockId(2));
  EXPECT_EQ(cache.events()[0].key, tail_key);
  EXPECT_EQ(cache.events()[1].kind, CacheEvent::Kind::kStored);
}

TEST(KvCacheFacts, IdenticalBlocksAreKeptAndTheFirstWins) {  // 20
  Cache cache(8, 4);
  // Both compute the same two blocks: a hit leaves at least one token, so the last is computed twice.
  const auto first = cache.arrive(range(8));
  const auto second = cache.arrive(range(8));
  EXPECT_EQ(second.hit, 4);
  EXPECT_EQ(second.new_blocks, (Blocks{3}));
  EXPECT_EQ(cache.num_cached_keys(), 2);
  EXPECT_EQ(cache.index().node_of(BlockId(2)), cache.index().node_of(BlockId(3)));
  EXPECT_EQ(cache.index().first_block(cache.index().node_of(BlockId(3))), BlockId(2));
  cache.free_uncomputed(first.handle, 4);  // block 2 leaves the index, 3 stays
  EXPECT_EQ(cache.num_cached_keys(), 2);
  EXPECT_EQ(cache.arrive(range(9)).hit, 8);
}

TEST(KvCacheFacts, LookaheadSlots) {  // 24
  for (const int64_t lookahead : {2, 4}) {
    Cache cache(10, 4);
    const CacheHandle request = cache.add("", "");
    ASSERT_TRUE(cache.allocate(request, range(3), {}, {.num_new_tokens = 3, .num_lookahead_tokens = lookahead}));
    EXPECT_EQ(cache.table(request).size(), 2u);
  }
}

TEST(BlockPool, QueueOperations) {  // 21
  BlockPool pool(5);
  EXPECT_EQ(pool.num_free(), 4);
  EXPECT_EQ(pool.take_first(), BlockId(1));
  pool.add_ref(BlockId(3));  // from the middle
  EXPECT_EQ(pool.first_free(), BlockId(2));
  EXPECT_EQ(pool.next_free(BlockId(2)), BlockId(4));
  pool.add_ref(BlockId(3));
  EXPECT_FALSE(pool.drop_ref(BlockId(3)));
  EXPECT_TRUE(pool.drop_ref(BlockId(3)));
  pool.put_last(BlockId(3));
  EXPECT_TRUE(pool.drop_ref(BlockId(1)));
  pool.put_first(BlockId(1));
  pool.check_invariants();
  for (const int32_t b : {1, 2, 4, 3}) EXPECT_EQ(pool.take_first(), BlockId(b));
  EXPECT_EQ(pool.first_free(), kNullBlock);
  EXPECT_EQ(pool.num_free(), 0);
}

// Keys are part of the outside world (other machines, restarts, routers): this one may never change without a new
// version.
TEST(PrefixIndex, KeysFollowTheDocumentedLayout) {
  PrefixIndex index(4, 2, &hash128);
  const DomainId domain = index.acquire_domain("ab", "c");
  const Tokens tokens = {258, -1};
  const unsigned char bytes[] = {'U', 'K', 'V', '1', 2, 0, 0,   0,   0,   0,   0, 0, 1, 0, 0,   0,   0, 0, 0, 0, 2,  0,
                                 0,   0,   2,   1,   0, 0, 255, 255, 255, 255, 2, 0, 0, 0, 'a', 'b', 1, 0, 0, 0, 'c'};
  EXPECT_EQ(index.key({.high = 1, .low = 2}, tokens, domain), hash128(std::as_bytes(std::span(bytes))));
}

TEST(PartialHits, CopyHalfABlock) {
  KvCache cache({.num_blocks = 6, .block_size = 4, .enable_partial_hits = true});
  const CacheHandle first = cache.add("", "");
  const Tokens tokens = range(8);
  ASSERT_TRUE(cache.allocate(first, tokens, {}, {.num_new_tokens = 8}));
  // The same prompt again: all but the last token are there.
  const CacheHandle second = cache.add("", "");
  const PrefixHit hit = cache.find_prefix(second, tokens);
  EXPECT_EQ(hit.num_tokens, 7);
  EXPECT_EQ(hit.partial_source, BlockId(2));
  ASSERT_TRUE(cache.allocate(second, tokens, hit, {.num_new_tokens = 1}));
  ASSERT_EQ(cache.copies().size(), 1u);
  EXPECT_EQ(cache.copies()[0].destination, BlockId(3));
  cache.remove(first);
  EXPECT_FALSE(cache.pool().is_free(BlockId(2))) << "the source is held until the step is computed";
  cache.check_invariants();
  cache.end_step();
  EXPECT_TRUE(cache.pool().is_free(BlockId(2)));
  EXPECT_TRUE(cache.copies().empty());
}

}  // namespace
}  // namespace ullage::cache
