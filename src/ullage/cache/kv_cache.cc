#include "ullage/cache/kv_cache.h"

#include <algorithm>

#include "ullage/base/check.h"
#include "ullage/base/units.h"

namespace ullage::cache {

KvCache::KvCache(const KvCacheOptions& options)
    : options_(options),
      pool_(options.num_blocks),
      index_(options.enable_prefix_caching ? options.num_blocks : 1, options.block_size, options.key_function) {
  ULLAGE_CHECK_MSG(options.num_blocks >= 2, "the null block and one more");
  ULLAGE_CHECK_MSG(options.num_groups == 1, "more layer groups than one are not managed yet");
}

KvCache::Request& KvCache::at(CacheHandle request) {
  Request& r = requests_[static_cast<size_t>(request.value)];
  ULLAGE_CHECK(r.is_live);
  return r;
}
const KvCache::Request& KvCache::at(CacheHandle request) const { return const_cast<KvCache*>(this)->at(request); }

CacheHandle KvCache::add(const std::string& salt, const std::string& adapter, int64_t max_tokens) {
  if (free_handles_.empty()) {
    free_handles_.push_back(static_cast<int32_t>(requests_.size()));
    requests_.emplace_back();
  }
  const CacheHandle handle(free_handles_.back());
  free_handles_.pop_back();
  Request& r = requests_[static_cast<size_t>(handle.value)];
  r.is_live = true;
  r.domain = index_.acquire_domain(salt, adapter);
  const int64_t num_blocks =
      std::min(ceil_div(std::max<int64_t>(max_tokens, 0), options_.block_size), num_usable_blocks());
  r.table.reserve(static_cast<size_t>(num_blocks));
  if (options_.enable_prefix_caching) r.keys.reserve(static_cast<size_t>(num_blocks));
  return handle;
}

void KvCache::remove(CacheHandle request) {
  free(request);
  Request& r = at(request);
  index_.release_domain(r.domain);
  r.keys.clear();
  r.is_live = false;
  free_handles_.push_back(request.value);
}

std::span<const BlockId> KvCache::table(CacheHandle request, int64_t group) const {
  ULLAGE_DCHECK(group >= 0 && group < options_.num_groups);
  (void)group;
  return at(request).table;
}

void KvCache::extend_keys(Request& request, std::span<const TokenId> tokens, int64_t num_blocks) {
  for (auto i = static_cast<int64_t>(request.keys.size()); i < num_blocks; ++i) {
    const Hash128 parent = i == 0 ? Hash128{} : request.keys.back();
    request.keys.push_back(index_.key(
        parent, tokens.subspan(static_cast<size_t>(i * options_.block_size), static_cast<size_t>(options_.block_size)),
        request.domain));
  }
}

PrefixHit KvCache::find_prefix(CacheHandle request, std::span<const TokenId> tokens) {
  Request& r = at(request);
  ULLAGE_CHECK(r.table.empty());
  PrefixHit hit;
  if (!options_.enable_prefix_caching || tokens.empty()) return hit;
  const int64_t block_size = options_.block_size;
  const int64_t max_tokens = static_cast<int64_t>(tokens.size()) - 1;
  hit_blocks_.clear();
  NodeId node = kNoNode;
  for (int64_t i = 0; i < max_tokens / block_size; ++i) {
    extend_keys(r, tokens, i + 1);
    const auto content = tokens.subspan(static_cast<size_t>(i * block_size), static_cast<size_t>(block_size));
    const NodeId next = index_.find({r.keys[static_cast<size_t>(i)], node, r.domain, content});
    if (next == kNoNode) break;
    node = next;
    hit_blocks_.push_back(index_.first_block(node));
  }
  hit.blocks = hit_blocks_;
  hit.num_tokens = static_cast<int64_t>(hit_blocks_.size()) * block_size;
  if (!options_.enable_partial_hits) return hit;

  const int64_t num_left = std::min(max_tokens - hit.num_tokens, block_size);
  if (num_left == 0) return hit;
  // A destination of this step's copies gets its first slots while sources are read; it is no source before the next.
  copy_destinations_.clear();
  for (const PartialCopy& copy : copies_) copy_destinations_.push_back(copy.destination);
  const auto partial = index_.find_partial(
      node, r.domain, tokens.subspan(static_cast<size_t>(hit.num_tokens), static_cast<size_t>(num_left)),
      copy_destinations_);
  hit.partial_source = partial.block;
  hit.num_partial_tokens = partial.num_tokens;
  hit.num_tokens += partial.num_tokens;
  return hit;
}

PrefixHit KvCache::drop_partial(PrefixHit hit) {
  hit.num_tokens -= hit.num_partial_tokens;
  hit.num_partial_tokens = 0;
  hit.partial_source = kNullBlock;
  return hit;
}

bool KvCache::allocate(CacheHandle request, std::span<const TokenId> tokens, const PrefixHit& hit,
                       const AllocateParams& params) {
  Request& r = at(request);
  const auto num_tokens = static_cast<int64_t>(tokens.size());
  const int64_t num_computed = params.num_computed_tokens + hit.num_tokens + params.num_new_tokens;
  ULLAGE_CHECK(params.num_new_tokens >= 1 && num_computed <= num_tokens);
  ULLAGE_CHECK(hit.num_tokens == 0 || (r.table.empty() && params.num_computed_tokens == 0));

  // Decide. Blocks of the hit that nobody holds are in the free list and will leave it.
  const auto num_held = static_cast<int64_t>(r.table.size() + hit.blocks.size());
  const int64_t num_slots = num_computed + params.num_lookahead_tokens;
  const int64_t num_new_blocks = std::max<int64_t>(ceil_div(num_slots, options_.block_size) - num_held, 0);
  int64_t num_leaving = std::ranges::count_if(hit.blocks, [&](BlockId b) { return pool_.ref_count(b) == 0; });
  if (hit.num_partial_tokens > 0 && pool_.ref_count(hit.partial_source) == 0) ++num_leaving;
  int64_t num_needed = num_new_blocks;
  if (params.must_fit_whole) num_needed = std::max(num_needed, ceil_div(num_tokens, options_.block_size) - num_held);
  if (num_needed + num_leaving + params.num_reserved_blocks > pool_.num_free()) return false;

  // Change: nothing can fail from here.
  if (r.table.empty() && num_held + num_new_blocks > 0) ++num_tables_;
  for (const BlockId block : hit.blocks) {
    pool_.add_ref(block);
    r.table.push_back(block);
  }
  if (!hit.blocks.empty()) r.num_indexed_blocks = static_cast<int64_t>(hit.blocks.size());
  if (hit.num_partial_tokens > 0) pool_.add_ref(hit.partial_source);
  for (int64_t i = 0; i < num_new_blocks; ++i) r.table.push_back(take_block());
  if (hit.num_partial_tokens > 0)
    copies_.push_back({hit.partial_source, r.table[hit.blocks.size()], hit.num_partial_tokens});
  if (options_.enable_prefix_caching) store_full_blocks(r, tokens, num_computed);
  return true;
}

void KvCache::store_full_blocks(Request& request, std::span<const TokenId> tokens, int64_t num_tokens) {
  const int64_t block_size = options_.block_size;
  const int64_t num_full = num_tokens / block_size;
  extend_keys(request, tokens, num_full);
  for (int64_t i = request.num_indexed_blocks; i < num_full; ++i) {
    const auto index = static_cast<size_t>(i);
    const NodeId parent = i == 0 ? kNoNode : index_.node_of(request.table[index - 1]);
    const Hash128& key = request.keys[index];
    index_.store(request.table[index],
                 {key, parent, request.domain,
                  tokens.subspan(static_cast<size_t>(i * block_size), static_cast<size_t>(block_size))});
    events_.push_back(
        {CacheEvent::Kind::kStored, request.table[index], key, i == 0 ? Hash128{} : request.keys[index - 1]});
  }
  request.num_indexed_blocks = std::max(request.num_indexed_blocks, num_full);
}

BlockId KvCache::take_block() {
  const BlockId block = pool_.take_first();
  if (is_indexed(block)) evict_key(block);
  return block;
}

void KvCache::evict_key(BlockId block) {
  events_.push_back({CacheEvent::Kind::kEvicted, block, index_.key_of(index_.node_of(block)), {}});
  index_.erase(block);
}

bool KvCache::is_indexed(BlockId block) const {
  return options_.enable_prefix_caching && index_.node_of(block) != kNoNode;
}

void KvCache::free(CacheHandle request) {
  Request& r = at(request);
  if (r.table.empty()) return;
  // Last block first: of one request's blocks the tail of the chain is evicted first. vLLM prepends all blocks without
  // a key at once, keeping their order; they are the last ones of a table, so they come first here, and the first of
  // them has to be put first last.
  int64_t num_keyless = 0;
  const auto num_blocks = static_cast<int64_t>(r.table.size());
  while (num_keyless < num_blocks && !is_indexed(r.table[static_cast<size_t>(num_blocks - 1 - num_keyless)]))
    ++num_keyless;
  for (int64_t i = num_blocks - num_keyless; i < num_blocks; ++i) release(r.table[static_cast<size_t>(i)]);
  for (int64_t i = num_blocks - num_keyless - 1; i >= 0; --i) release(r.table[static_cast<size_t>(i)]);
  r.table.clear();
  r.num_indexed_blocks = 0;
  --num_tables_;
}

void KvCache::release(BlockId block) {
  if (!pool_.drop_ref(block)) return;
  if (is_indexed(block)) {
    pool_.put_last(block);
  } else {
    pool_.put_first(block);
  }
}

void KvCache::free_uncomputed(CacheHandle request, int64_t num_computed_tokens) {
  Request& r = at(request);
  const int64_t num_full = num_computed_tokens / options_.block_size;
  for (; r.num_indexed_blocks > num_full; --r.num_indexed_blocks)
    evict_key(r.table[static_cast<size_t>(r.num_indexed_blocks - 1)]);
  free(request);
}

void KvCache::end_step() {
  for (const PartialCopy& copy : copies_) release(copy.source);
  copies_.clear();
}

bool KvCache::reset_prefix_cache() {
  if (num_free_blocks() != num_usable_blocks()) return false;
  if (!options_.enable_prefix_caching) return true;
  for (int32_t b = 1; b < pool_.num_blocks(); ++b)
    if (is_indexed(BlockId(b))) evict_key(BlockId(b));
  return true;
}

double KvCache::usage() const {
  return 1.0 - static_cast<double>(num_free_blocks()) / static_cast<double>(num_usable_blocks());
}

int64_t KvCache::num_common_prefix_blocks(CacheHandle request) const {
  if (!options_.enable_prefix_caching) return 0;
  int64_t n = 0;
  for (const BlockId block : at(request).table) {
    if (pool_.ref_count(block) != num_tables_) break;
    ++n;
  }
  return n;
}

void KvCache::check_invariants() const {
  pool_.check_invariants();
  index_.check_invariants();
  std::vector<int32_t> num_holders(static_cast<size_t>(pool_.num_blocks()), 0);
  int64_t num_tables = 0;
  for (const Request& r : requests_) {
    if (!r.is_live) {
      ULLAGE_CHECK(r.table.empty());
      continue;
    }
    num_tables += r.table.empty() ? 0 : 1;
    ULLAGE_CHECK(r.num_indexed_blocks <= static_cast<int64_t>(r.table.size()));
    for (size_t i = 0; i < r.table.size(); ++i) {
      const BlockId block = r.table[i];
      ++num_holders[static_cast<size_t>(block.value)];
      ULLAGE_CHECK_MSG(is_indexed(block) == (static_cast<int64_t>(i) < r.num_indexed_blocks),
                       "full blocks of a table, and no others, are in the prefix index");
    }
  }
  for (const PartialCopy& copy : copies_) ++num_holders[static_cast<size_t>(copy.source.value)];
  ULLAGE_CHECK(num_tables == num_tables_);
  for (int32_t b = 0; b < pool_.num_blocks(); ++b)
    ULLAGE_CHECK_MSG(pool_.ref_count(BlockId(b)) == num_holders[static_cast<size_t>(b)],
                     "a block's references are the tables that name it");
}

}  // namespace ullage::cache
