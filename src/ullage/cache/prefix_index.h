// The prefix index: from the content of a full block, and of all blocks before it, to the blocks that hold it.
//
// A *node* is one content: a parent node, block_size tokens, salt and adapter. Identical blocks are not merged (their
// tables already name them); they share a node. A node lives while a block holds its content or a child node lives, so
// that comparing (parent node, tokens, salt and adapter) compares the whole chain exactly: keys only find candidates,
// and a collision of keys, however made, never gives another's block.
//
// Keys are stable across restarts and machines. Version 1: XXH3-128, seed 0, of these bytes (integers little-endian):
//   "UKV1"                    4 bytes
//   parent key                low 64 bits, high 64 bits; zeros for a chain's first block
//   number of tokens          u32
//   tokens                    i32 each
//   length of the salt        u32, then its bytes
//   length of the adapter     u32, then its bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ullage/base/hash.h"
#include "ullage/base/ids.h"

namespace ullage::cache {

using KeyFunction = Hash128 (*)(std::span<const std::byte> bytes, uint64_t seed);

// A salt and an adapter that may share blocks, interned while a request or a node uses them.
using DomainId = StrongId<struct DomainIdTag, int32_t>;
using NodeId = StrongId<struct NodeIdTag, int32_t>;
inline constexpr NodeId kNoNode{-1};

// The content of a full block, as look-ups and stores name it. `parent` is kNoNode for a chain's first block.
struct BlockContent {
  Hash128 key;
  NodeId parent = kNoNode;
  DomainId domain;
  std::span<const TokenId> tokens;  // [block_size]
};

// One owner thread. Every call is O(block_size) or better, on average over keys, unless it says otherwise.
class PrefixIndex {
 public:
  PrefixIndex(int64_t num_blocks, int64_t block_size, KeyFunction key_function);

  // Each acquire needs a release; the same strings give the same id while it is held.
  DomainId acquire_domain(const std::string& salt, const std::string& adapter);
  void release_domain(DomainId domain);

  // The key of a block, in the layout above. Not const: it reuses a buffer.
  Hash128 key(const Hash128& parent_key, std::span<const TokenId> tokens, DomainId domain);

  // The node of exactly this content that has a block, or kNoNode.
  NodeId find(const BlockContent& content) const;
  // Of a node's blocks the one stored first.
  BlockId first_block(NodeId node) const { return BlockId(nodes_[static_cast<size_t>(node.value)].first_block); }
  // The node whose content a block holds; kNoNode when it is not in the index.
  NodeId node_of(BlockId block) const { return NodeId(node_of_[static_cast<size_t>(block.value)]); }
  const Hash128& key_of(NodeId node) const { return nodes_[static_cast<size_t>(node.value)].key; }

  // The block under `parent` with the most leading tokens in common with `tokens` (at least one); of several the most
  // recently stored content. Blocks in `excluded` are no answer. Looks at the latest kMaxPartialCandidates contents
  // only.
  struct Partial {
    BlockId block;  // kNullBlock = none
    int64_t num_tokens = 0;
  };
  Partial find_partial(NodeId parent, DomainId domain, std::span<const TokenId> tokens,
                       std::span<const BlockId> excluded) const;
  static constexpr int kMaxPartialCandidates = 64;

  // The block holds this content from now on. REQUIRES: it is not in the index.
  NodeId store(BlockId block, const BlockContent& content);
  // The block leaves the index. REQUIRES: it is in the index.
  void erase(BlockId block);

  // Contents that have a block: vLLM's number of cached hashes.
  int64_t num_keys() const { return num_keys_; }
  int64_t num_domains() const { return static_cast<int64_t>(domain_ids_.size()); }

  // Stops the program if links and counts disagree. O(pool).
  void check_invariants() const;

 private:
  static constexpr int32_t kNone = -1;
  struct Node {
    Hash128 key;
    int32_t parent = kNone;
    int32_t domain = kNone;
    int32_t first_block = 0;  // its blocks, in order of storing; 0 = none
    int32_t first_child = kNone;
    int32_t prev_sibling = kNone;  // siblings: latest first
    int32_t next_sibling = kNone;
    int32_t next_in_bucket = kNone;  // free nodes are linked through it, too
  };
  struct Domain {
    std::string salt;
    std::string adapter;
    int64_t num_refs = 0;
    int32_t first_child = kNone;  // nodes without a parent
  };

  size_t bucket_of(const Hash128& key) const { return static_cast<size_t>(key.low) & (buckets_.size() - 1); }
  std::span<const TokenId> tokens_of(int32_t node) const;
  bool is_equal(int32_t node, const BlockContent& content) const;
  int32_t find_node(const BlockContent& content) const;
  int32_t make_node(const BlockContent& content);
  void drop_node_if_unused(int32_t node);
  int32_t& first_child_of(int32_t parent, int32_t domain);

  int64_t block_size_ = 0;
  KeyFunction key_function_ = nullptr;
  std::vector<std::byte> key_bytes_;
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;  // [nodes_.size(), block_size]
  int32_t free_node_ = kNone;
  std::vector<int32_t> buckets_;  // first node of each; a power of two
  std::vector<int32_t> node_of_;  // [num_blocks]
  // A node's blocks form a circular list: [num_blocks] each.
  std::vector<int32_t> prev_same_;
  std::vector<int32_t> next_same_;
  int64_t num_keys_ = 0;
  std::vector<Domain> domains_;
  std::vector<int32_t> free_domains_;
  std::map<std::pair<std::string, std::string>, int32_t> domain_ids_;
};

}  // namespace ullage::cache
