#include "ullage/cache/prefix_index.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ullage/base/check.h"

namespace ullage::cache {
namespace {

size_t at(int32_t i) { return static_cast<size_t>(i); }

std::byte* put_u32(std::byte* out, uint32_t v) {
  for (int i = 0; i < 4; ++i) *out++ = static_cast<std::byte>(v >> (8 * i));
  return out;
}
std::byte* put_u64(std::byte* out, uint64_t v) {
  return put_u32(put_u32(out, static_cast<uint32_t>(v)), static_cast<uint32_t>(v >> 32));
}
std::byte* put_string(std::byte* out, const std::string& s) {
  out = put_u32(out, static_cast<uint32_t>(s.size()));
  if (!s.empty()) std::memcpy(out, s.data(), s.size());
  return out + s.size();
}

}  // namespace

PrefixIndex::PrefixIndex(int64_t num_blocks, int64_t block_size, KeyFunction key_function)
    : block_size_(block_size), key_function_(key_function) {
  ULLAGE_CHECK(num_blocks >= 1 && block_size >= 1 && key_function != nullptr);
  const auto n = static_cast<size_t>(num_blocks);
  nodes_.reserve(n);
  tokens_.reserve(n * static_cast<size_t>(block_size));
  buckets_.assign(std::bit_ceil(n), kNone);
  node_of_.assign(n, kNone);
  prev_same_.assign(n, 0);
  next_same_.assign(n, 0);
}

DomainId PrefixIndex::acquire_domain(const std::string& salt, const std::string& adapter) {
  const auto [it, is_new] = domain_ids_.try_emplace({salt, adapter}, kNone);
  if (is_new) {
    if (free_domains_.empty()) {
      it->second = static_cast<int32_t>(domains_.size());
      domains_.emplace_back();
    } else {
      it->second = free_domains_.back();
      free_domains_.pop_back();
    }
    domains_[at(it->second)] = Domain{.salt = salt, .adapter = adapter};
  }
  ++domains_[at(it->second)].num_refs;
  return DomainId(it->second);
}

void PrefixIndex::release_domain(DomainId domain) {
  Domain& d = domains_[at(domain.value)];
  ULLAGE_CHECK(d.num_refs > 0);
  if (--d.num_refs > 0) return;
  ULLAGE_CHECK(d.first_child == kNone);
  domain_ids_.erase({d.salt, d.adapter});
  d = Domain{};
  free_domains_.push_back(domain.value);
}

Hash128 PrefixIndex::key(const Hash128& parent_key, std::span<const TokenId> tokens, DomainId domain) {
  const Domain& d = domains_[at(domain.value)];
  key_bytes_.resize(4 + 16 + 4 + 4 * tokens.size() + 4 + d.salt.size() + 4 + d.adapter.size());
  std::byte* out = key_bytes_.data();
  std::memcpy(out, "UKV1", 4);
  out = put_u64(put_u64(out + 4, parent_key.low), parent_key.high);
  out = put_u32(out, static_cast<uint32_t>(tokens.size()));
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(out, tokens.data(), tokens.size_bytes());
    out += tokens.size_bytes();
  } else {
    for (const TokenId token : tokens) out = put_u32(out, static_cast<uint32_t>(token));
  }
  put_string(put_string(out, d.salt), d.adapter);
  return key_function_(key_bytes_, 0);
}

std::span<const TokenId> PrefixIndex::tokens_of(int32_t node) const {
  return {tokens_.data() + node * block_size_, static_cast<size_t>(block_size_)};
}

bool PrefixIndex::is_equal(int32_t node, const BlockContent& content) const {
  const Node& n = nodes_[at(node)];
  return n.key == content.key && n.parent == content.parent.value && n.domain == content.domain.value &&
         std::ranges::equal(tokens_of(node), content.tokens);
}

int32_t PrefixIndex::find_node(const BlockContent& content) const {
  int32_t node = buckets_[bucket_of(content.key)];
  while (node != kNone && !is_equal(node, content)) node = nodes_[at(node)].next_in_bucket;
  return node;
}

NodeId PrefixIndex::find(const BlockContent& content) const {
  const int32_t node = find_node(content);
  return node == kNone || nodes_[at(node)].first_block == 0 ? kNoNode : NodeId(node);
}

int32_t& PrefixIndex::first_child_of(int32_t parent, int32_t domain) {
  return parent == kNone ? domains_[at(domain)].first_child : nodes_[at(parent)].first_child;
}

int32_t PrefixIndex::make_node(const BlockContent& content) {
  int32_t node = free_node_;
  if (node == kNone) {
    node = static_cast<int32_t>(nodes_.size());
    nodes_.emplace_back();
    tokens_.resize(nodes_.size() * static_cast<size_t>(block_size_));
  } else {
    free_node_ = nodes_[at(node)].next_in_bucket;
  }
  std::ranges::copy(content.tokens, tokens_.begin() + static_cast<ptrdiff_t>(node * block_size_));
  int32_t& bucket = buckets_[bucket_of(content.key)];
  int32_t& first_child = first_child_of(content.parent.value, content.domain.value);
  nodes_[at(node)] = Node{.key = content.key,
                          .parent = content.parent.value,
                          .domain = content.domain.value,
                          .next_sibling = first_child,
                          .next_in_bucket = bucket};
  if (first_child != kNone) nodes_[at(first_child)].prev_sibling = node;
  first_child = node;
  bucket = node;
  ++domains_[at(content.domain.value)].num_refs;
  return node;
}

void PrefixIndex::drop_node_if_unused(int32_t node) {
  while (node != kNone) {
    Node& n = nodes_[at(node)];
    if (n.first_block != 0 || n.first_child != kNone) return;
    int32_t* link = &buckets_[bucket_of(n.key)];
    while (*link != node) link = &nodes_[at(*link)].next_in_bucket;
    *link = n.next_in_bucket;
    (n.prev_sibling == kNone ? first_child_of(n.parent, n.domain) : nodes_[at(n.prev_sibling)].next_sibling) =
        n.next_sibling;
    if (n.next_sibling != kNone) nodes_[at(n.next_sibling)].prev_sibling = n.prev_sibling;
    release_domain(DomainId(n.domain));
    const int32_t parent = n.parent;
    n = Node{};
    n.next_in_bucket = free_node_;
    free_node_ = node;
    node = parent;
  }
}

NodeId PrefixIndex::store(BlockId block, const BlockContent& content) {
  const int32_t b = block.value;
  ULLAGE_CHECK(b > 0 && node_of_[at(b)] == kNone);
  ULLAGE_DCHECK(static_cast<int64_t>(content.tokens.size()) == block_size_);
  int32_t node = find_node(content);
  if (node == kNone) node = make_node(content);
  node_of_[at(b)] = node;
  int32_t& first = nodes_[at(node)].first_block;
  if (first == 0) {
    first = prev_same_[at(b)] = next_same_[at(b)] = b;
    ++num_keys_;
  } else {
    const int32_t last = prev_same_[at(first)];
    prev_same_[at(b)] = last;
    next_same_[at(b)] = first;
    next_same_[at(last)] = prev_same_[at(first)] = b;
  }
  return NodeId(node);
}

void PrefixIndex::erase(BlockId block) {
  const int32_t b = block.value;
  const int32_t node = node_of_[at(b)];
  ULLAGE_CHECK(node != kNone);
  node_of_[at(b)] = kNone;
  Node& n = nodes_[at(node)];
  const int32_t next = next_same_[at(b)];
  if (next == b) {
    n.first_block = 0;
    --num_keys_;
    drop_node_if_unused(node);
    return;
  }
  next_same_[at(prev_same_[at(b)])] = next;
  prev_same_[at(next)] = prev_same_[at(b)];
  if (n.first_block == b) n.first_block = next;
}

PrefixIndex::Partial PrefixIndex::find_partial(NodeId parent, DomainId domain, std::span<const TokenId> tokens,
                                               std::span<const BlockId> excluded) const {
  Partial best;
  int32_t child = parent == kNoNode ? domains_[at(domain.value)].first_child : nodes_[at(parent.value)].first_child;
  for (int i = 0; child != kNone && i < kMaxPartialCandidates; ++i, child = nodes_[at(child)].next_sibling) {
    const auto mine = tokens_of(child);
    const auto num_equal = std::ranges::mismatch(mine, tokens).in1 - mine.begin();
    if (num_equal <= best.num_tokens) continue;
    const int32_t first = nodes_[at(child)].first_block;
    for (int32_t b = first; b != 0;) {
      if (std::ranges::find(excluded, BlockId(b)) == excluded.end()) {
        best = {BlockId(b), num_equal};
        break;
      }
      b = next_same_[at(b)] == first ? 0 : next_same_[at(b)];
    }
  }
  return best;
}

void PrefixIndex::check_invariants() const {
  std::vector<int64_t> domain_nodes(domains_.size(), 0);
  int64_t num_in_buckets = 0;
  int64_t num_keys = 0;
  int64_t num_blocks = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (int32_t node = buckets_[bucket]; node != kNone; node = nodes_[at(node)].next_in_bucket) {
      const Node& n = nodes_[at(node)];
      ++num_in_buckets;
      ++domain_nodes[at(n.domain)];
      ULLAGE_CHECK(bucket_of(n.key) == bucket);
      ULLAGE_CHECK_MSG(n.first_block != 0 || n.first_child != kNone, "an unused node was kept");
      ULLAGE_CHECK(n.parent == kNone || nodes_[at(n.parent)].domain == n.domain);
      ULLAGE_CHECK(n.first_child == kNone || nodes_[at(n.first_child)].parent == node);
      ULLAGE_CHECK(n.next_sibling == kNone ||
                   (nodes_[at(n.next_sibling)].prev_sibling == node && nodes_[at(n.next_sibling)].parent == n.parent));
      if (n.first_block == 0) continue;
      ++num_keys;
      int32_t b = n.first_block;
      do {
        ULLAGE_CHECK(node_of_[at(b)] == node && prev_same_[at(next_same_[at(b)])] == b);
        ++num_blocks;
        b = next_same_[at(b)];
      } while (b != n.first_block);
    }
  }
  int64_t num_free = 0;
  for (int32_t node = free_node_; node != kNone; node = nodes_[at(node)].next_in_bucket) ++num_free;
  ULLAGE_CHECK(num_in_buckets + num_free == static_cast<int64_t>(nodes_.size()));
  ULLAGE_CHECK(num_keys == num_keys_);
  ULLAGE_CHECK(num_blocks == std::ranges::count_if(node_of_, [](int32_t node) { return node != kNone; }));
  for (size_t d = 0; d < domains_.size(); ++d) ULLAGE_CHECK(domains_[d].num_refs >= domain_nodes[d]);
}

}  // namespace ullage::cache
