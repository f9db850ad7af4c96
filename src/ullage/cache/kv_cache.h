// The KV-cache manager: which block of the pool holds which tokens of which request.
//
// It puts together the pool (block_pool.h), the prefix index (prefix_index.h) and one block table a request and layer
// group. Decisions (ids, order of the free queue, hits, evictions) are those of vLLM V1's KVCacheManager.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ullage/base/hash.h"
#include "ullage/base/ids.h"
#include "ullage/cache/block_pool.h"
#include "ullage/cache/prefix_index.h"

namespace ullage::cache {

struct KvCacheOptions {
  int64_t num_blocks = 0;   // the pool, the null block included; >= 2
  int64_t block_size = 16;  // tokens; >= 1
  int64_t num_groups = 1;   // layer groups with a table of their own; 1 for now
  bool enable_prefix_caching = true;
  bool enable_partial_hits = false;     // reuse part of a block by copying it (see PrefixHit); false = as vLLM
  KeyFunction key_function = &hash128;  // tests inject poor ones to force collisions
};

// A request's place in the cache, from add() to remove(); the index is reused after that.
using CacheHandle = StrongId<struct CacheHandleTag, int32_t>;

// What entered or left the prefix index, in order.
struct CacheEvent {
  enum class Kind : uint8_t { kStored, kEvicted };
  Kind kind = Kind::kStored;
  BlockId block;
  Hash128 key;
  Hash128 parent_key;  // of kStored; zero for a chain's first
};

// The longest cached prefix of a request: whole blocks, then (with enable_partial_hits) the first `num_partial_tokens`
// slots of one more block that has the same parent. At most num_tokens - 1, so that something is left to compute.
struct PrefixHit {
  int64_t num_tokens = 0;           // blocks.size() * block_size + num_partial_tokens
  std::span<const BlockId> blocks;  // valid until the next non-const call
  BlockId partial_source;           // kNullBlock = none
  int64_t num_partial_tokens = 0;
};

// The first num_tokens slots of source are to be copied to destination in this step (sched::BlockCopy).
struct PartialCopy {
  BlockId source;
  BlockId destination;
  int64_t num_tokens = 0;
};

struct AllocateParams {
  int64_t num_computed_tokens = 0;   // before this step; without the hit
  int64_t num_new_tokens = 0;        // computed in this step; >= 1
  int64_t num_lookahead_tokens = 0;  // slots beyond them, for speculative tokens
  bool must_fit_whole = false;       // also demand room for all of the request's tokens
  int64_t num_reserved_blocks = 0;   // blocks to leave free (the watermark)
};

// One owner thread. Costs are in blocks of the one request; nothing is proportional to the pool but construction,
// reset_prefix_cache() and check_invariants(). No heap allocation in allocate() and free() once a request's table and
// keys have their capacity.
//
// A full block enters the prefix index when it is allocated for the step that will fill it, so that a second request of
// the same step hits it; end_step() must follow once the step is computed. A request that was allocated in the running
// step and is then not computed after all must be freed by free_uncomputed().
class KvCache {
 public:
  explicit KvCache(const KvCacheOptions& options);

  // Takes a request in, with an empty table. Salt and adapter are part of the keys of all its blocks.
  // `max_tokens` reserves capacity (no effect on decisions).
  CacheHandle add(const std::string& salt, const std::string& adapter, int64_t max_tokens = 0);
  // Frees its blocks and forgets it.
  void remove(CacheHandle request);

  // The longest cached prefix of `tokens` (all known tokens). REQUIRES: the request's table is empty. Changes nothing
  // that is visible; keys of full blocks are computed once.
  PrefixHit find_prefix(CacheHandle request, std::span<const TokenId> tokens);
  // Gives the request the hit's blocks and as many new ones as its computed + hit + new + lookahead tokens need, and
  // puts the full ones among computed + hit + new into the prefix index. False, with nothing changed, when the pool
  // cannot. `tokens`: all known tokens. `hit`: {} or the answer of the last find_prefix() for this request, with no
  // other call between. A partial hit that the pool has no room for is a false; try again with drop_partial(hit).
  bool allocate(CacheHandle request, std::span<const TokenId> tokens, const PrefixHit& hit,
                const AllocateParams& params);
  // The same hit, whole blocks only.
  static PrefixHit drop_partial(PrefixHit hit);
  // Frees a request's blocks, last first. Its handle and keys stay (a preempted request comes back).
  void free(CacheHandle request);
  // The same for a request allocated in the running step that will not be computed: what entered the prefix index
  // beyond its first `num_computed_tokens` leaves it again.
  void free_uncomputed(CacheHandle request, int64_t num_computed_tokens);
  // The step is computed: sources of its copies may be evicted again.
  void end_step();

  // This step's copies, in order of allocation. Sources are never destinations of the same step.
  std::span<const PartialCopy> copies() const { return copies_; }
  std::span<const BlockId> table(CacheHandle request, int64_t group = 0) const;
  // Appended to by every call that stores or evicts; the caller takes what it wants and clears.
  std::vector<CacheEvent>& events() { return events_; }

  // Forgets every cached prefix (an eviction event each, in order of id). False while any block is in use.
  bool reset_prefix_cache();

  int64_t num_free_blocks() const { return pool_.num_free(); }          // free or cached-idle
  int64_t num_usable_blocks() const { return pool_.num_blocks() - 1; }  // without the null block
  int64_t num_cached_keys() const { return index_.num_keys(); }
  int64_t block_size() const { return options_.block_size; }
  // Used share of the usable blocks, in [0, 1].
  double usage() const;
  // Leading blocks of the request that every request with blocks has, too (vLLM's num_common_prefix_blocks); 0 without
  // prefix caching.
  int64_t num_common_prefix_blocks(CacheHandle request) const;
  const BlockPool& pool() const { return pool_; }
  const PrefixIndex& index() const { return index_; }

  // Stops the program if any invariant of cache/ is broken: invariant 1 of ARCHITECTURE.md, links, index. O(pool).
  void check_invariants() const;

 private:
  struct Request {
    bool is_live = false;
    DomainId domain;
    int64_t num_indexed_blocks = 0;  // leading blocks of the table that are in the prefix index
    std::vector<BlockId> table;
    std::vector<Hash128> keys;  // of the leading full blocks, as far as they were needed
  };

  Request& at(CacheHandle request);
  const Request& at(CacheHandle request) const;
  void extend_keys(Request& request, std::span<const TokenId> tokens, int64_t num_blocks);
  void store_full_blocks(Request& request, std::span<const TokenId> tokens, int64_t num_tokens);
  BlockId take_block();
  bool is_indexed(BlockId block) const;
  void release(BlockId block);
  void evict_key(BlockId block);

  KvCacheOptions options_;
  BlockPool pool_;
  PrefixIndex index_;
  std::vector<Request> requests_;
  std::vector<int32_t> free_handles_;
  int64_t num_tables_ = 0;  // requests that have blocks
  std::vector<BlockId> hit_blocks_;
  std::vector<PartialCopy> copies_;
  std::vector<BlockId> copy_destinations_;  // scratch
  std::vector<CacheEvent> events_;
};

}  // namespace ullage::cache
