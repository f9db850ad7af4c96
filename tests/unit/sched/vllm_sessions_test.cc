// Replays sessions recorded from vLLM V1's own scheduler (synchronous; full attention in one group) and compares every
// step: scheduled tokens, admitted requests with their blocks, preemptions, both queues, free blocks.
// tests/data/vllm/README.md says whence. In them a request that reaches its last known token samples token 7.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/cache/recorded_sessions.h"
#include "tests/unit/sched/requests.h"
#include "ullage/sched/scheduler.h"

namespace ullage::sched {
namespace {

SchedulerOptions options_of(const Json& config) {
  return {.num_blocks = config.at("num_blocks").get<int64_t>(),
          .block_size = config.at("block_size").get<int64_t>(),
          .max_model_len = config.at("max_model_len").get<int64_t>(),
          .max_num_seqs = config.at("max_num_seqs").get<int64_t>(),
          .max_num_batched_tokens = config.at("max_num_batched_tokens").get<int64_t>(),
          .enable_prefix_caching = config.at("caching").get<bool>(),
          .is_priority_policy = config.at("policy").get<std::string>() == "priority",
          .long_prefill_token_threshold = config.at("long_prefill").get<int64_t>(),
          .watermark = config.at("watermark").get<double>()};
}

class Replay {
 public:
  explicit Replay(const Json& config) : scheduler_(options_of(config)) {}

  void add(const Json& op) {
    names_.push_back(op.at("id").get<std::string>());
    const auto arrival = static_cast<Nanos>(op.at("arrival").get<double>() * 1e9);
    ASSERT_TRUE(
        scheduler_
            .add(test::make_request(static_cast<int64_t>(names_.size()), test::tokens_of(op),
                                    op.at("max_tokens").get<int64_t>(), op.at("priority").get<int64_t>(), arrival),
                 arrival, events_)
            .has_value());
  }

  Json step() {
    const StepPlan& plan = scheduler_.plan(0, events_);
    scheduler_.check_invariants();
    Json scheduled = Json::object();
    Json admitted = Json::array();
    for (const ScheduledRequest& r : plan.requests) {
      scheduled[name(r.id)] = r.num_tokens;
      if (seen_.insert(r.id).second) {
        Json table = Json::array();
        for (const BlockId block : r.block_tables[0]) table.push_back(block.value);
        admitted.push_back({{"id", name(r.id)}, {"computed", r.first_position}, {"blocks", Json::array({table})}});
      }
    }
    Json preempted = Json::array();
    std::set<std::string> sorted;
    for (const RequestId id : plan.preempted) sorted.insert(name(id));
    for (const std::string& id : sorted) preempted.push_back(id);
    Json out = {{"scheduled", scheduled}, {"new", admitted}, {"preempted", preempted}};
    std::vector<RequestId> ids;
    scheduler_.running_ids(ids);
    out["running"] = names(ids);
    out["common_prefix"] = Json::array({ids.empty() ? 0 : scheduler_.num_common_prefix_blocks(ids[0])});
    ids.clear();
    scheduler_.waiting_ids(ids);
    out["waiting"] = names(ids);
    scheduler_.commit(test::make_result(plan, 7), 0, events_);
    scheduler_.check_invariants();
    out["free_after"] = scheduler_.num_free_blocks();
    events_.clear();
    return out;
  }

 private:
  const std::string& name(RequestId id) const { return names_[static_cast<size_t>(id.value - 1)]; }
  Json names(const std::vector<RequestId>& ids) const {
    Json out = Json::array();
    for (const RequestId id : ids) out.push_back(name(id));
    return out;
  }

  Scheduler scheduler_;
  std::vector<Event> events_;
  std::vector<std::string> names_;
  std::set<RequestId> seen_;
};

TEST(VllmSchedulerSessions, EveryStepIsVllms) {
  int num_sessions = 0;
  for (const Json& session : test::read_sessions("scheduler.jsonl")) {
    if (session.at("config").contains("groups")) continue;
    ++num_sessions;
    Replay replay(session.at("config"));
    int index = 0;
    for (const Json& op : session.at("ops")) {
      if (op.at("op").get<std::string>() == "add") {
        replay.add(op);
      } else {
        const nlohmann::json answer = replay.step();
        const nlohmann::json expected = op.at("expect");
        EXPECT_EQ(answer, expected) << "session " << session.at("session") << " operation " << index;
        if (answer != expected) break;
      }
      ++index;
    }
  }
  EXPECT_GE(num_sessions, 20);
}

}  // namespace
}  // namespace ullage::sched
