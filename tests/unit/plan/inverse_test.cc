#include "ullage/plan/inverse.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>

#include "tests/unit/plan/worlds.h"

namespace ullage::plan {
namespace {

bool has(const std::vector<Warning>& list, std::string_view code) {
  return std::any_of(list.begin(), list.end(), [&](const Warning& w) { return w.code == code; });
}

bool holds(Planner& planner, Scenario s, const Goal& goal) {
  s.concurrency = goal.users > 0 ? goal.users : s.concurrency;
  const auto e = planner.evaluate(s);
  if (!e) return false;
  const int64_t runnable = std::min(e->capacity.total_expected_requests, e->settings.max_num_seqs * s.parallelism.data);
  return runnable >= goal.users && (goal.itl_seconds == 0 || e->timing.itl_seconds <= goal.itl_seconds);
}

// Each of the smallest values meets the goal, and the next smaller does not.
TEST(AnswerGoal, SmallestIsSmallest) {
  Planner planner;
  World world;
  rc::check("smallest meets, smaller misses", [&] {
    const Goal goal{.users = *rc::gen::inRange<int64_t>(1, 400)};
    world.scenario.prompt_tokens = static_cast<double>(*rc::gen::inRange<int64_t>(100, 20000));

    const auto answer = answer_goal(planner, world.scenario, goal);

    RC_ASSERT(answer.has_value());
    RC_ASSERT(answer->is_met == holds(planner, world.scenario, goal));
    if (answer->gpu_memory_utilization) {
      Scenario s = world.scenario;
      s.gpu_memory_utilization = *answer->gpu_memory_utilization;
      RC_ASSERT(holds(planner, s, goal));
      s.gpu_memory_utilization -= 0.01;
      RC_ASSERT(!holds(planner, s, goal));
    }
    RC_ASSERT(answer->kv_memory.has_value());
    Scenario s = world.scenario;
    s.kv_memory = *answer->kv_memory;
    RC_ASSERT(holds(planner, s, goal));
    s.kv_memory = Bytes(s.kv_memory->value - 1);
    RC_ASSERT(!holds(planner, s, goal));
    if (answer->devices) {
      Scenario with = world.scenario;
      with.parallelism = *answer->devices;
      RC_ASSERT(holds(planner, with, goal));
    }
    if (answer->max_num_seqs) {
      Scenario with = world.scenario;
      with.max_num_seqs = *answer->max_num_seqs;
      RC_ASSERT(holds(planner, with, goal));
    }
    for (const Change& change : answer->single_changes) {
      RC_ASSERT(change.meets_goal == holds(planner, change.scenario, goal));
    }
    if (answer->best_pair) {
      RC_ASSERT(answer->best_pair->flags.size() == 2u);
      const auto name = [](const std::string& flag) { return flag.substr(0, flag.find(' ')); };
      RC_ASSERT(name(answer->best_pair->flags[0]) != name(answer->best_pair->flags[1]));
      RC_ASSERT(answer->best_pair->meets_goal == holds(planner, answer->best_pair->scenario, goal));
    }
  });
}

TEST(AnswerGoal, SaysByHowMuchItMisses) {
  Planner planner;
  World world;
  world.scenario.kv_memory = Bytes(272 * 10 * int64_t{2097152} + 2097152);  // ten requests and the reserved block

  const auto answer = answer_goal(planner, world.scenario, {.users = 12});

  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_FALSE(answer->is_met);
  ASSERT_EQ(answer->goals.size(), 1u);
  EXPECT_EQ(answer->goals[0].found, 10);
  EXPECT_GT(answer->goals[0].missing.value, int64_t{2} * 272 * 2097152 - 2 * 2097152);
  ASSERT_FALSE(answer->single_changes.empty());
  EXPECT_TRUE(answer->single_changes[0].meets_goal);
  EXPECT_NE(answer->sentence.find("10 of 12 users"), std::string::npos) << answer->sentence;
}

TEST(AnswerGoal, TimesCanBeGoals) {
  Planner planner;
  World world;
  world.scenario.concurrency = 64;

  const auto now = planner.evaluate(world.scenario);
  const auto answer = answer_goal(planner, world.scenario, {.itl_seconds = now->timing.itl_seconds / 1.8});

  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_FALSE(answer->is_met);
  EXPECT_EQ(answer->goals[0].kind, GoalKind::kItl);
  ASSERT_TRUE(answer->devices);
  EXPECT_GT(answer->devices->num_devices(), 1);
}

TEST(AnswerGoal, ContextIsAskedForOneRequest) {
  Planner planner;
  World world;
  world.scenario.kv_memory = Bytes(4 * kGiB);  // 32,768 tokens

  const auto answer = answer_goal(planner, world.scenario, {.context_tokens = 65536});

  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_FALSE(answer->is_met);
  EXPECT_EQ(answer->goals[0].kind, GoalKind::kContext);
  EXPECT_EQ(answer->goals[0].found, 32752);
  EXPECT_EQ(*answer->kv_memory, Bytes(4097 * int64_t{2097152}));
}

TEST(AnswerGoal, NothingAskedIsAnError) {
  Planner planner;
  World world;
  EXPECT_FALSE(answer_goal(planner, world.scenario, {}));
  EXPECT_FALSE(answer_goal(planner, world.scenario, {.users = -1}));
}

TEST(Warnings, SayWhatAVeteranWould) {
  Planner planner;
  World world;
  const auto of = [&] { return warnings(world.scenario, *planner.evaluate(world.scenario)); };

  EXPECT_FALSE(has(of(), "utilization-high"));
  world.scenario.gpu_memory_utilization = 0.99;
  EXPECT_TRUE(has(of(), "utilization-high"));
  EXPECT_FALSE(has(of(), "pool-above-max-num-seqs"));
  world.scenario.max_num_seqs = 16;
  EXPECT_TRUE(has(of(), "pool-above-max-num-seqs"));
  EXPECT_FALSE(has(of(), "tp-beyond-kv-heads"));
  world.scenario.parallelism.tensor = 16;
  EXPECT_TRUE(has(of(), "tp-beyond-kv-heads"));
  world.scenario.parallelism.tensor = 2;
  EXPECT_FALSE(has(of(), "pcie-all-reduce"));
  world.device.link_bandwidth = 0;
  world.device.host_bandwidth = 64e9;
  EXPECT_TRUE(has(warnings(world.scenario, *evaluate(world.scenario)), "pcie-all-reduce"));
  EXPECT_FALSE(has(of(), "kv-kernel-risk"));
  world.scenario.kv_dtype = model::KvDType::kFP8E4M3;
  EXPECT_TRUE(has(of(), "kv-kernel-risk"));
}

}  // namespace
}  // namespace ullage::plan
