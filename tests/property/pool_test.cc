// Invariant 1: a block is free, cached-idle or in use, and its references are the tables that name it.
// Random commands drive the KV-cache manager beside a model made of plain lists; every decision must agree.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/property/commands.h"
#include "ullage/cache/kv_cache.h"

namespace ullage::cache {
namespace {

[[maybe_unused]] const bool kIsWhole = test::pin_rapidcheck(3000, 150);

// All tokens up to and including a block's, and who may share them.
struct Content {
  int64_t domain = 0;
  std::vector<TokenId> prefix;
  friend bool operator==(const Content&, const Content&) = default;
};

struct ModelRequest {
  CacheHandle handle;
  Content all;  // its tokens
  int64_t num_computed = 0;
  std::vector<int32_t> table;
};

// The manager as one would write it without a care for cost.
struct Model {
  int64_t block_size = 0;
  bool is_caching = false;
  std::deque<int32_t> free;
  std::map<int32_t, int> refs;
  std::vector<std::pair<Content, int32_t>> stored;  // in order of storing

  Content content_at(const ModelRequest& r, int64_t index) const {
    return {r.all.domain, {r.all.prefix.begin(), r.all.prefix.begin() + (index + 1) * block_size}};
  }
  auto stored_block(int32_t block) {
    return std::ranges::find(stored, block, [](const auto& entry) { return entry.second; });
  }
  std::vector<int32_t> find(const ModelRequest& r) const {
    std::vector<int32_t> blocks;
    if (!is_caching) return blocks;
    const auto max_blocks = (static_cast<int64_t>(r.all.prefix.size()) - 1) / block_size;
    for (int64_t i = 0; i < max_blocks; ++i) {
      const Content content = content_at(r, i);
      const auto found = std::ranges::find(stored, content, [](const auto& entry) { return entry.first; });
      if (found == stored.end()) break;
      blocks.push_back(found->second);
    }
    return blocks;
  }
  void hold(int32_t block) {
    if (refs[block]++ == 0) free.erase(std::ranges::find(free, block));
  }
  void drop(int32_t block) {
    if (--refs[block] > 0) return;
    stored_block(block) == stored.end() ? free.push_front(block) : free.push_back(block);
  }
  int32_t take() {
    const int32_t block = free.front();
    hold(block);
    if (const auto entry = stored_block(block); entry != stored.end()) stored.erase(entry);
    return block;
  }
  void free_table(ModelRequest& r) {
    // Blocks without a key go left, the table's last leftmost; then those with one right, the table's first rightmost.
    std::vector<int32_t> keyless;
    std::vector<int32_t> keyed;
    for (const int32_t block : r.table) (stored_block(block) == stored.end() ? keyless : keyed).push_back(block);
    for (const int32_t block : keyless) drop(block);
    for (auto it = keyed.rbegin(); it != keyed.rend(); ++it) drop(*it);
    r.table.clear();
    r.num_computed = 0;
  }
  int64_t num_idle(const std::vector<int32_t>& blocks) const {
    return std::ranges::count_if(blocks, [&](int32_t b) { return !refs.contains(b) || refs.at(b) == 0; });
  }
};

class Machine {
 public:
  explicit Machine(const KvCacheOptions& options) : options_(options), cache_(options) {
    model_.block_size = options.block_size;
    model_.is_caching = options.enable_prefix_caching;
    for (int32_t b = 1; b < options.num_blocks; ++b) model_.free.push_back(b);
  }

  void run(uint64_t command) {
    Bits bits(command);
    const int64_t kind = bits.below(16);
    if (kind < 5 || live_.empty()) {
      arrive(bits);
    } else {
      const auto victim = static_cast<size_t>(bits.below(static_cast<int64_t>(live_.size())));
      ModelRequest& r = live_[victim];
      if (kind < 11) {
        allocate(r, bits, kind == 10);
      } else if (kind < 13) {
        cache_.free(r.handle);
        model_.free_table(r);
      } else if (kind < 15) {
        cache_.remove(r.handle);
        model_.free_table(r);
        live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(victim));
      } else if (bits.below(2) == 0) {
        end_step();
      } else {
        const bool is_idle = model_.free.size() == static_cast<size_t>(options_.num_blocks - 1);
        RC_ASSERT(cache_.reset_prefix_cache() == is_idle);
        if (is_idle) model_.stored.clear();
      }
    }
    compare();
  }

 private:
  using Bits = test::Bits;

  void arrive(Bits& bits) {
    ModelRequest r;
    r.all.domain = bits.below(4);
    r.handle = cache_.add(r.all.domain & 1 ? "salt" : "", r.all.domain & 2 ? "adapter" : "");
    grow(r, 1 + bits.below(3 * options_.block_size), bits);
    live_.push_back(r);
    allocate(live_.back(), bits, false);
  }
  // Two values only, so that prefixes are shared all the time.
  void grow(ModelRequest& r, int64_t num_tokens, Bits& bits) {
    for (int64_t i = 0; i < num_tokens; ++i) r.all.prefix.push_back(bits.below(5) == 0 ? 1 : 0);
  }

  void allocate(ModelRequest& r, Bits& bits, bool is_taken_back) {
    if (r.num_computed == static_cast<int64_t>(r.all.prefix.size())) grow(r, 1 + bits.below(options_.block_size), bits);
    PrefixHit hit;
    if (r.table.empty()) {
      hit = cache_.find_prefix(r.handle, r.all.prefix);
      check_hit(r, hit);
      if (bits.below(4) == 0) hit = KvCache::drop_partial(hit);
    }
    const auto num_tokens = static_cast<int64_t>(r.all.prefix.size());
    const int64_t num_left = num_tokens - r.num_computed - hit.num_tokens;
    AllocateParams params;
    params.num_computed_tokens = r.num_computed;
    params.num_new_tokens = 1 + bits.below(num_left);
    params.must_fit_whole = bits.below(3) == 0;
    params.num_reserved_blocks = bits.below(4) == 0 ? 1 : 0;
    params.num_lookahead_tokens = bits.below(8) == 0 ? bits.below(3) : 0;

    const std::vector<int32_t> blocks = whole_blocks(hit);
    const int64_t num_computed = r.num_computed + hit.num_tokens + params.num_new_tokens;
    const auto num_held = static_cast<int64_t>(r.table.size() + blocks.size());
    const auto num_blocks_for = [&](int64_t n) { return (n + options_.block_size - 1) / options_.block_size; };
    const int64_t num_new = std::max<int64_t>(num_blocks_for(num_computed + params.num_lookahead_tokens) - num_held, 0);
    const int64_t num_needed =
        params.must_fit_whole ? std::max(num_new, num_blocks_for(num_tokens) - num_held) : num_new;
    int64_t num_idle = model_.num_idle(blocks);
    if (hit.num_partial_tokens > 0) num_idle += model_.num_idle({hit.partial_source.value});
    const bool fits = num_needed + num_idle + params.num_reserved_blocks <= static_cast<int64_t>(model_.free.size());
    RC_ASSERT(cache_.allocate(r.handle, r.all.prefix, hit, params) == fits);
    if (!fits) return;

    for (const int32_t block : blocks) {
      model_.hold(block);
      r.table.push_back(block);
    }
    if (hit.num_partial_tokens > 0) {
      model_.hold(hit.partial_source.value);
      held_sources_.push_back(hit.partial_source.value);
    }
    const size_t destination = r.table.size();
    for (int64_t i = 0; i < num_new; ++i) r.table.push_back(model_.take());
    if (hit.num_partial_tokens > 0) destinations_.push_back(r.table[destination]);
    const int64_t num_computed_before = r.num_computed;
    r.num_computed = num_computed;
    if (model_.is_caching)
      for (int64_t i = 0; i < num_computed / options_.block_size; ++i)
        if (model_.stored_block(r.table[static_cast<size_t>(i)]) == model_.stored.end())
          model_.stored.emplace_back(model_.content_at(r, i), r.table[static_cast<size_t>(i)]);
    if (is_taken_back && hit.num_tokens == 0) take_back(r, num_computed_before);
  }

  // The step's share of a request is given up: blocks that it would have filled are not to be found.
  void take_back(ModelRequest& r, int64_t num_computed_before) {
    cache_.free_uncomputed(r.handle, num_computed_before);
    for (size_t i = static_cast<size_t>(num_computed_before / options_.block_size); i < r.table.size(); ++i)
      if (const auto entry = model_.stored_block(r.table[i]); entry != model_.stored.end()) model_.stored.erase(entry);
    model_.free_table(r);
  }

  void check_hit(const ModelRequest& r, const PrefixHit& hit) {
    const std::vector<int32_t> expected = model_.find(r);
    RC_ASSERT(whole_blocks(hit) == expected);
    const int64_t num_whole = static_cast<int64_t>(expected.size()) * options_.block_size;
    RC_ASSERT(hit.num_tokens == num_whole + hit.num_partial_tokens);
    // A partial hit is the longest there is (pools are smaller than the number of candidates looked at).
    int64_t best = 0;
    int64_t of_source = 0;
    for (const auto& [content, block] : model_.stored) {
      if (!options_.enable_partial_hits || content.domain != r.all.domain ||
          static_cast<int64_t>(content.prefix.size()) != num_whole + options_.block_size ||
          !std::equal(content.prefix.begin(), content.prefix.begin() + num_whole, r.all.prefix.begin()) ||
          std::ranges::find(destinations_, block) != destinations_.end())
        continue;
      int64_t n = 0;
      while (n < options_.block_size && num_whole + n < static_cast<int64_t>(r.all.prefix.size()) - 1 &&
             content.prefix[static_cast<size_t>(num_whole + n)] == r.all.prefix[static_cast<size_t>(num_whole + n)])
        ++n;
      best = std::max(best, n);
      if (BlockId(block) == hit.partial_source) of_source = n;
    }
    RC_ASSERT(hit.num_partial_tokens == best);
    RC_ASSERT(hit.num_partial_tokens == of_source);
  }

  static std::vector<int32_t> whole_blocks(const PrefixHit& hit) {
    std::vector<int32_t> blocks;
    for (const BlockId block : hit.blocks) blocks.push_back(block.value);
    return blocks;
  }

  void end_step() {
    cache_.end_step();
    for (const int32_t block : held_sources_) model_.drop(block);
    held_sources_.clear();
    destinations_.clear();
  }

  void compare() {
    std::deque<int32_t> free;
    const BlockPool& pool = cache_.pool();
    RC_ASSERT(pool.num_free() == static_cast<int64_t>(model_.free.size()));
    for (BlockId b = pool.first_free(); b != kNullBlock && free.size() <= model_.free.size(); b = pool.next_free(b))
      free.push_back(b.value);
    RC_ASSERT(free == model_.free);
    for (int32_t b = 1; b < options_.num_blocks; ++b) {
      RC_ASSERT(pool.ref_count(BlockId(b)) == model_.refs[b]);
      if (model_.is_caching)
        RC_ASSERT((cache_.index().node_of(BlockId(b)) != kNoNode) == (model_.stored_block(b) != model_.stored.end()));
    }
    for (const ModelRequest& r : live_) {
      std::vector<int32_t> table;
      for (const BlockId block : cache_.table(r.handle)) table.push_back(block.value);
      RC_ASSERT(table == r.table);
    }
    cache_.check_invariants();
  }

  KvCacheOptions options_;
  KvCache cache_;
  Model model_;
  std::vector<ModelRequest> live_;
  std::vector<int32_t> held_sources_;
  std::vector<int32_t> destinations_;
};

TEST(PoolProperty, BlocksAreFreeCachedIdleOrInUseAsInTheModel) {
  EXPECT_TRUE(rc::check("the manager decides as its model", [] {
    KvCacheOptions options;
    options.num_blocks = test::draw_between(2, 24);
    options.block_size = test::draw_between(1, 5);
    options.enable_prefix_caching = test::draw_between(0, 7) != 0;
    options.enable_partial_hits = test::draw_between(0, 1) == 1;
    if (test::draw_between(0, 2) == 0) options.key_function = &test::poor_key;
    Machine machine(options);
    for (const uint64_t command : test::draw_commands()) machine.run(command);
  }));
}

}  // namespace
}  // namespace ullage::cache
