// A small world around a Scheduler: random requests arrive, are cancelled and finished, and each step runs on a
// pretended executor whose memory says, slot by slot, which tokens' keys and values it holds. Properties of the
// scheduler are checked against what the world itself knows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/property/commands.h"
#include "tests/unit/sched/requests.h"
#include "ullage/sched/scheduler.h"

namespace ullage::test {

// Small enough that everything happens: full pools, preemptions, evictions, full queues, refusals.
inline sched::SchedulerOptions draw_scheduler_options() {
  sched::SchedulerOptions o;
  o.num_blocks = draw_between(2, 20);
  o.block_size = draw_between(1, 5);
  o.max_model_len = draw_between(2, 48);
  o.max_num_seqs = draw_between(1, 6);
  o.max_num_batched_tokens = draw_between(1, 24);
  o.max_queue_len = draw_between(1, 12);
  o.enable_prefix_caching = draw_between(0, 7) != 0;
  o.enable_partial_prefix_hits = draw_between(0, 1) == 1;
  o.enable_chunked_prefill = draw_between(0, 4) != 0;
  o.is_priority_policy = draw_between(0, 1) == 1;
  o.reserve_full_prompt = draw_between(0, 3) != 0;
  if (o.enable_chunked_prefill && draw_between(0, 2) == 0) o.long_prefill_token_threshold = draw_between(1, 8);
  if (draw_between(0, 2) == 0) o.watermark = 0.2;
  if (draw_between(0, 2) == 0) o.key_function = &poor_key;
  RC_ASSERT(sched::validate(o).has_value());
  return o;
}

// What happened in all worlds so far: a test that never preempts proves little.
struct WorldTotals {
  int64_t num_steps = 0;
  int64_t num_preempted = 0;
  int64_t num_hit_tokens = 0;
  int64_t num_copies = 0;
  int64_t num_refused = 0;
};
inline WorldTotals totals;

// A property that met too little of what it is about holds for the wrong reason.
inline void expect_hard_work() {
  EXPECT_GT(totals.num_steps, 10000);
  EXPECT_GT(totals.num_preempted, 500);
  EXPECT_GT(totals.num_hit_tokens, 1000);
  EXPECT_GT(totals.num_copies, 500);
  EXPECT_GT(totals.num_refused, 500);
}

class SchedulerWorld {
 public:
  // Which properties are asserted; the rest of the world runs all the same.
  struct Checks {
    bool contents = false;  // every slot that is read holds what its request expects (invariant 2, and hits, copies)
    bool progress = false;  // refusals are right, and whatever is accepted ends as it should (invariant 3)
    bool limits = false;    // token budget, max_num_seqs, pool (invariant 4)
  };

  SchedulerWorld(const sched::SchedulerOptions& options, Checks checks)
      : options_(options), checks_(checks), scheduler_(options) {
    memory_.assign(static_cast<size_t>(options.num_blocks * options.block_size), kNothing);
  }

  void run(uint64_t command) {
    Bits bits(command);
    const int64_t kind = bits.below(32);
    if (kind < 10) {
      arrive(bits);
    } else if (kind < 12 && !live_.empty()) {
      end_early(bits);
    } else if (kind == 12) {
      scheduler_.reset_prefix_cache(now_, events_);
    } else if (kind == 13 && bits.below(8) == 0) {
      cancel_all(bits);
    } else if (scheduler_.has_work()) {
      step();
    }
    scheduler_.check_invariants();
    events_.clear();
  }

  // Steps until nothing is live, then looks for leaks.
  void drain() {
    int64_t num_steps = 0;
    while (scheduler_.has_work()) {
      step();
      events_.clear();
      // Longest outcomes times requests, with room for recomputation after preemptions.
      if (++num_steps > 20000) RC_FAIL("requests that never end");
    }
    if (checks_.progress) RC_ASSERT(live_.empty());
    RC_ASSERT(scheduler_.num_free_blocks() == scheduler_.num_usable_blocks());
    scheduler_.check_invariants();
  }

 private:
  static constexpr int64_t kNothing = -1;
  static constexpr TokenId kEos = 2;
  static constexpr TokenId kStopToken = 3;

  struct Live {
    sched::RequestParams params;
    std::vector<TokenId> tokens;
    std::vector<int64_t> contents;  // of each token: names the domain and all tokens up to it
    int64_t num_prompt = 0;
    int64_t num_computed = 0;
    bool is_running = false;
    bool was_admitted = false;
  };

  int64_t content(int64_t parent, TokenId token) {
    return contents_.try_emplace({parent, token}, static_cast<int64_t>(contents_.size())).first->second;
  }
  void append(Live& r, TokenId token) {
    // Domains are the contents of pretended tokens before the first.
    const int64_t parent = r.tokens.empty()
                               ? content(-1, (r.params.cache_salt.empty() ? 0 : 1) + (r.params.adapter.empty() ? 0 : 2))
                               : r.contents.back();
    r.contents.push_back(content(parent, token));
    r.tokens.push_back(token);
  }

  void arrive(Bits& bits) {
    Live r;
    r.params = make_request(++last_id_, {}, 1 + bits.below(20), bits.below(3), now_ - bits.below(2));
    if (bits.below(4) == 0) r.params.cache_salt = "salt";
    if (bits.below(4) == 0) r.params.adapter = "adapter";
    r.params.stop.eos_token_ids = {kEos};
    r.params.stop.stop_token_ids = {kStopToken};
    r.params.stop.ignore_eos = bits.below(2) == 0;
    r.params.stop.min_tokens = bits.below(3) == 0 ? std::min<int64_t>(r.params.stop.max_tokens, bits.below(6)) : 0;
    const int64_t num_prompt = 1 + bits.below(bits.below(4) == 0 ? 56 : 16);
    for (int64_t i = 0; i < num_prompt; ++i) append(r, bits.below(6) == 0 ? 1 : 0);
    r.params.prompt = r.tokens;
    r.num_prompt = num_prompt;

    const bool is_queue_full = scheduler_.num_waiting() >= options_.max_queue_len;
    const auto added = scheduler_.add(r.params, now_, events_);
    if (checks_.progress) {
      // Alone in the engine its longest outcome needs all of its tokens but the last in blocks.
      const int64_t num_longest = std::min(num_prompt + r.params.stop.max_tokens, options_.max_model_len);
      const int64_t num_needed = (num_longest - 1 + options_.block_size - 1) / options_.block_size;
      const bool never = num_prompt >= options_.max_model_len || num_needed > options_.num_blocks - 1 ||
                         (!options_.enable_chunked_prefill && num_prompt > options_.max_num_batched_tokens);
      RC_ASSERT(added.has_value() == (!never && !is_queue_full));
      if (never) RC_ASSERT(added.error().code == ErrorCode::kTooLarge);
      if (!never && is_queue_full) RC_ASSERT(added.error().code == ErrorCode::kUnavailable);
    }
    if (added) {
      live_.emplace(r.params.id, std::move(r));
    } else {
      ++totals.num_refused;
    }
  }

  void end_early(Bits& bits) {
    auto it = live_.begin();
    std::advance(it, bits.below(static_cast<int64_t>(live_.size())));
    const bool is_live = bits.below(2) == 0 ? scheduler_.cancel(it->first, now_, events_)
                                            : scheduler_.finish(it->first, sched::FinishReason::kStop, now_, events_);
    RC_ASSERT(is_live);
    RC_ASSERT(!scheduler_.cancel(it->first, now_, events_));
    live_.erase(it);
  }

  // As after a failed executor: the plan, if any, is dropped.
  void cancel_all(Bits& bits) {
    if (bits.below(2) == 0 && scheduler_.has_work()) scheduler_.plan(now_, events_);
    scheduler_.cancel_all(now_, events_);
    live_.clear();
    RC_ASSERT(scheduler_.num_free_blocks() == scheduler_.num_usable_blocks());
    RC_ASSERT(scheduler_.kv_cache().num_cached_keys() == 0);
  }

  void step() {
    ++now_;
    ++totals.num_steps;
    const sched::StepPlan& plan = scheduler_.plan(now_, events_);
    totals.num_preempted += static_cast<int64_t>(plan.preempted.size());
    totals.num_copies += static_cast<int64_t>(plan.copies.size());
    for (const RequestId id : plan.preempted) {
      live_.at(id).num_computed = 0;
      live_.at(id).is_running = false;
    }
    if (checks_.limits) check_limits(plan);
    check_shares(plan);
    execute(plan);
    commit(plan);
  }

  void check_limits(const sched::StepPlan& plan) {
    int64_t num_tokens = 0;
    std::set<RequestId> ids;
    std::set<BlockId> blocks;
    for (const sched::ScheduledRequest& r : plan.requests) {
      num_tokens += r.num_tokens;
      RC_ASSERT(ids.insert(r.id).second);
      for (const BlockId block : r.block_tables[0]) {
        RC_ASSERT(block.value > 0 && block.value < options_.num_blocks);
        blocks.insert(block);
      }
      if (options_.long_prefill_token_threshold > 0) RC_ASSERT(r.num_tokens <= options_.long_prefill_token_threshold);
    }
    RC_ASSERT(num_tokens == plan.num_tokens);
    RC_ASSERT(num_tokens <= options_.max_num_batched_tokens);
    RC_ASSERT(scheduler_.num_running() <= options_.max_num_seqs);
    RC_ASSERT(static_cast<int64_t>(plan.requests.size()) <= scheduler_.num_running());
    RC_ASSERT(static_cast<int64_t>(blocks.size()) <= options_.num_blocks - 1 - scheduler_.num_free_blocks());
  }

  // Each share follows on what its request has computed, and its table covers it exactly.
  void check_shares(const sched::StepPlan& plan) {
    if (checks_.progress) RC_ASSERT(!plan.requests.empty() || !plan.preempted.empty());
    bool is_admitting = false;
    for (const sched::ScheduledRequest& share : plan.requests) {
      Live& r = live_.at(share.id);
      RC_ASSERT(std::ranges::equal(share.tokens, r.tokens));
      RC_ASSERT(share.num_tokens >= 1);
      const auto num_known = static_cast<int64_t>(r.tokens.size());
      const int64_t end = share.first_position + share.num_tokens;
      RC_ASSERT(end <= num_known && share.is_sampled == (end == num_known));
      RC_ASSERT(static_cast<int64_t>(share.block_tables[0].size()) ==
                (end + options_.block_size - 1) / options_.block_size);
      if (r.is_running) {
        RC_ASSERT(!is_admitting && share.first_position == r.num_computed);
      } else {
        RC_ASSERT(plan.preempted.empty());  // nobody is admitted in a step that preempts
        is_admitting = true;
        totals.num_hit_tokens += share.first_position;
        if (!options_.enable_chunked_prefill && !r.was_admitted) RC_ASSERT(share.is_sampled);
        r.is_running = r.was_admitted = true;
      }
      r.num_computed = end;
    }
  }

  int64_t& slot(BlockId block, int64_t index) {
    return memory_[static_cast<size_t>(block.value * options_.block_size + index)];
  }
  int64_t& slot(const sched::ScheduledRequest& share, int64_t position) {
    return slot(share.block_tables[0][static_cast<size_t>(position / options_.block_size)],
                position % options_.block_size);
  }

  // Write, then copy, then attend.
  void execute(const sched::StepPlan& plan) {
    std::set<int64_t*> written;
    for (const sched::ScheduledRequest& share : plan.requests) {
      const Live& r = live_.at(share.id);
      for (int64_t p = share.first_position; p < share.first_position + share.num_tokens; ++p) {
        slot(share, p) = r.contents[static_cast<size_t>(p)];
        const bool is_first = written.insert(&slot(share, p)).second;
        if (checks_.contents) RC_ASSERT(is_first);
      }
    }
    // In reverse: the order of copies must not matter.
    for (auto copy = plan.copies.rbegin(); copy != plan.copies.rend(); ++copy) {
      for (int64_t i = 0; i < copy->num_tokens; ++i) {
        const bool is_first = written.insert(&slot(copy->destination, i)).second;
        if (checks_.contents) RC_ASSERT(is_first);
        slot(copy->destination, i) = slot(copy->source, i);
      }
      for (const sched::BlockCopy& other : plan.copies)
        if (checks_.contents) RC_ASSERT(copy->source != other.destination);
    }
    if (!checks_.contents) return;
    for (const sched::ScheduledRequest& share : plan.requests)
      for (int64_t p = 0; p < share.first_position + share.num_tokens; ++p)
        RC_ASSERT(slot(share, p) == live_.at(share.id).contents[static_cast<size_t>(p)]);
  }

  void commit(const sched::StepPlan& plan) {
    sched::StepResult result;
    std::vector<RequestId> ended;
    for (const sched::ScheduledRequest& share : plan.requests) {
      if (!share.is_sampled) continue;
      Live& r = live_.at(share.id);
      // A function of the request's own tokens and number.
      const uint64_t mixed = static_cast<uint64_t>(r.contents.back() * 31 + r.params.id.value) * 0x9E3779B97F4A7C15u;
      const auto token = static_cast<TokenId>((mixed >> 33) % 16);
      append(r, token <= kStopToken ? token : token % 2);
      result.tokens.push_back(make_token(share.id, r.tokens.back()));
      if (is_ended(r)) ended.push_back(share.id);
    }
    scheduler_.commit(result, now_, events_);
    for (const RequestId id : ended) live_.erase(id);
    if (!checks_.progress) {
      std::erase_if(live_, [&](const auto& entry) { return !scheduler_.is_live(entry.first); });
      return;
    }
    RC_ASSERT(static_cast<int64_t>(live_.size()) == scheduler_.num_running() + scheduler_.num_waiting());
    for (const auto& [id, r] : live_) RC_ASSERT(scheduler_.is_live(id));
  }

  bool is_ended(const Live& r) const {
    const int64_t num_output = static_cast<int64_t>(r.tokens.size()) - r.num_prompt;
    if (num_output == r.params.stop.max_tokens) return true;
    if (static_cast<int64_t>(r.tokens.size()) == options_.max_model_len) return true;
    if (num_output < r.params.stop.min_tokens) return false;
    return r.tokens.back() == kStopToken || (r.tokens.back() == kEos && !r.params.stop.ignore_eos);
  }

  sched::SchedulerOptions options_;
  Checks checks_;
  sched::Scheduler scheduler_;
  std::vector<sched::Event> events_;
  Nanos now_ = 100;
  int64_t last_id_ = 0;
  std::map<RequestId, Live> live_;
  std::map<std::pair<int64_t, TokenId>, int64_t> contents_;
  std::vector<int64_t> memory_;  // [num_blocks, block_size]: the content whose keys and values a slot holds
};

}  // namespace ullage::test
