// Replays sessions recorded from vLLM V1's own KV-cache manager, full attention in one group, and compares every
// answer: hits, block ids, evictions, the free queue's order, tables, reference counts. tests/data/vllm/README.md says
// whence.
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/cache/recorded_sessions.h"
#include "ullage/cache/kv_cache.h"

namespace ullage::cache {
namespace {

struct Live {
  CacheHandle handle;
  std::vector<TokenId> tokens;
  int64_t num_computed = 0;
};

class Replay {
 public:
  explicit Replay(const Json& config)
      : cache_({.num_blocks = config.at("num_blocks").get<int64_t>(),
                .block_size = config.at("block_size").get<int64_t>(),
                .enable_prefix_caching = config.value("caching", true)}) {}

  Json answer(const Json& op) {
    const auto name = op.at("op").get<std::string>();
    if (name == "reset") return {{"ok", cache_.reset_prefix_cache()}};
    if (name == "state") return state();
    const auto id = op.at("id").get<std::string>();
    if (name == "new") {
      const auto salt = op.at("salt").is_null() ? "" : op.at("salt").get<std::string>();
      live_[id] = {cache_.add(salt, ""), test::tokens_of(op), 0};
    } else if (name == "append") {
      for (const TokenId token : test::tokens_of(op)) live_[id].tokens.push_back(token);
    } else if (name == "alloc") {
      return allocate(live_[id], op);
    } else {  // free, and forget of a request that was refused
      cache_.remove(live_[id].handle);
      live_.erase(id);
      return {{"free", cache_.num_free_blocks()}};
    }
    return {};
  }
  void check() { cache_.check_invariants(); }

 private:
  Json allocate(Live& r, const Json& op) {
    cache_.events().clear();
    PrefixHit hit;
    if (r.num_computed == 0 && cache_.table(r.handle).empty()) hit = cache_.find_prefix(r.handle, r.tokens);
    const int64_t num_left = static_cast<int64_t>(r.tokens.size()) - r.num_computed - hit.num_tokens;
    const int64_t num_new = std::min(num_left, op.value("n", num_left));
    const size_t num_held = cache_.table(r.handle).size() + hit.blocks.size();
    const bool ok = cache_.allocate(r.handle, r.tokens, hit,
                                    {.num_computed_tokens = r.num_computed,
                                     .num_new_tokens = num_new,
                                     .must_fit_whole = op.value("must_fit", false)});
    Json out = {{"ok", ok}, {"hit", hit.num_tokens}};
    if (ok) {
      r.num_computed += hit.num_tokens + num_new;
      Json new_blocks = Json::array();
      for (const BlockId block : cache_.table(r.handle).subspan(num_held)) new_blocks.push_back(block.value);
      Json evicted = Json::array();
      for (const CacheEvent& e : cache_.events())
        if (e.kind == CacheEvent::Kind::kEvicted) evicted.push_back(e.block.value);
      num_evictions_ += static_cast<int64_t>(evicted.size());
      out["computed"] = num_new;
      out["new"] = Json::array({new_blocks});
      out["evicted"] = evicted;
    }
    out["free"] = cache_.num_free_blocks();
    return out;
  }

  Json state() const {
    Json queue = Json::array();
    for (BlockId b = cache_.pool().first_free(); b != kNullBlock; b = cache_.pool().next_free(b))
      queue.push_back(b.value);
    Json tables = Json::object();
    for (const auto& [id, r] : live_) {
      Json table = Json::array();
      for (const BlockId block : cache_.table(r.handle)) table.push_back(block.value);
      tables[id] = Json::array({table});
    }
    Json refs = Json::object();
    for (int32_t b = 1; b < cache_.pool().num_blocks(); ++b)
      if (const int32_t n = cache_.pool().ref_count(BlockId(b))) refs[std::to_string(b)] = n;
    return {{"free_queue", queue},     {"cached", cache_.num_cached_keys()}, {"tables", tables}, {"refs", refs},
            {"usage", cache_.usage()}, {"evictions", num_evictions_}};
  }

  KvCache cache_;
  std::map<std::string, Live> live_;
  int64_t num_evictions_ = 0;
};

TEST(VllmManagerSessions, EveryAnswerIsVllms) {
  int num_sessions = 0;
  for (const Json& session : test::read_sessions("manager.jsonl")) {
    if (session.at("config").contains("groups")) continue;
    ++num_sessions;
    Replay replay(session.at("config"));
    int index = 0;
    for (const Json& op : session.at("ops")) {
      const Json answer = replay.answer(op);
      replay.check();
      if (op.contains("expect")) {
        // As unordered JSON: the order of keys is no part of the answer.
        const nlohmann::json got = answer;
        const nlohmann::json expected = op.at("expect");
        EXPECT_EQ(got, expected) << "session " << session.at("session") << " operation " << index << " " << op.at("op");
        if (got != expected) break;
      }
      ++index;
    }
  }
  EXPECT_GE(num_sessions, 20);
}

}  // namespace
}  // namespace ullage::cache
