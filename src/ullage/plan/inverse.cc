#include "ullage/plan/inverse.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "ullage/plan/goal.h"

namespace ullage::plan {
namespace {

// Device counts that are tried, those that nodes come in.
constexpr std::array<int64_t, 16> kDeviceCounts{1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128};

bool meets(Planner& planner, const Scenario& scenario, const Goal& goal) {
  const Result<GoalCheck> check = check_goal(planner, scenario, goal);
  return check && check->is_met;
}

// Fewest devices; among divisions of as many, tensor parallelism within a node first, then replicas, then stages.
std::optional<model::Parallelism> fewest_devices(Planner& planner, const Scenario& scenario, const Goal& goal) {
  for (const int64_t count : kDeviceCounts) {
    for (int64_t stages = 1; stages <= count; ++stages) {
      if (count % stages != 0) continue;
      for (int64_t tensor = count / stages; tensor >= 1; --tensor) {
        if ((count / stages) % tensor != 0 || tensor > 16) continue;
        Scenario tried = scenario;
        tried.parallelism.tensor = tensor;
        tried.parallelism.data = count / stages / tensor;
        tried.parallelism.pipeline = stages;
        if (tried.parallelism.decode_context > tensor) tried.parallelism.decode_context = 1;
        if (meets(planner, tried, goal)) return tried.parallelism;
      }
    }
  }
  return std::nullopt;
}

// The smallest n in [1, most] whose scenario meets the goal, which larger ones then do, too.
template <class Make>
std::optional<int64_t> smallest(Planner& planner, const Goal& goal, int64_t most, const Make& make) {
  if (!meets(planner, make(most), goal)) return std::nullopt;
  int64_t below = 0;
  int64_t above = most;
  while (above - below > 1) {
    const int64_t middle = below + (above - below) / 2;
    (meets(planner, make(middle), goal) ? above : below) = middle;
  }
  return above;
}

void find_smallest(Planner& planner, const Scenario& scenario, const Goal& goal, const Evaluation& now,
                   InverseAnswer& out) {
  out.devices = fewest_devices(planner, scenario, goal);
  const auto percent = smallest(planner, goal, 100, [&](int64_t n) {
    Scenario tried = scenario;
    tried.gpu_memory_utilization = static_cast<double>(n) / 100;
    tried.kv_memory.reset();
    tried.num_blocks.reset();
    return tried;
  });
  if (percent) out.gpu_memory_utilization = static_cast<double>(*percent) / 100;
  const int64_t block = now.capacity.bytes_per_block;
  if (block > 0 && block < int64_t{1} << 45) {
    // Up to 64 TiB of a rank.
    const int64_t most = std::max<int64_t>(2, (int64_t{1} << 46) / block);
    const auto blocks = smallest(planner, goal, most, [&](int64_t n) {
      Scenario tried = scenario;
      tried.num_blocks.reset();
      tried.kv_memory = Bytes(n * block);
      return tried;
    });
    if (blocks) out.kv_memory = Bytes(*blocks * block);
  }
  for (const model::KvDType dtype : kv_choices(scenario, now.settings.kv_dtype)) {
    Scenario tried = scenario;
    tried.kv_dtype = dtype;
    if (!meets(planner, tried, goal)) continue;
    out.kv_dtype = dtype;
    break;
  }
  for (const WeightPrecision weights : weight_choices(scenario)) {
    Scenario tried = scenario;
    tried.weights = weights;
    if (!meets(planner, tried, goal)) continue;
    out.weights = weights;
    break;
  }
  if (goal.users > 0) {
    Scenario tried = scenario;
    tried.max_num_seqs = ceil_div(goal.users, scenario.parallelism.data);
    if (meets(planner, tried, goal)) out.max_num_seqs = tried.max_num_seqs;
  }
}

Change change_of(Lever lever, const GoalCheck& check) {
  Change out;
  out.flags = {std::move(lever.flag)};
  out.scenario = std::move(lever.scenario);
  out.meets_goal = check.is_met;
  out.shortfall = check.shortfall;
  out.users = check.evaluation.capacity.total_expected_requests;
  out.largest_context = check.evaluation.capacity.largest_context;
  out.ttft_seconds = check.evaluation.timing.ttft_seconds;
  out.itl_seconds = check.evaluation.timing.itl_seconds;
  return out;
}

std::string_view flag_name(const std::string& flag) { return std::string_view(flag).substr(0, flag.find(' ')); }

std::vector<Change> try_single(Planner& planner, const Scenario& scenario, const Goal& goal, const GoalCheck& now) {
  std::vector<Change> out;
  std::vector<Lever> all = levers(scenario, now.evaluation, goal);
  out.reserve(all.size());
  for (Lever& lever : all) {
    const Result<GoalCheck> check = check_goal(planner, lever.scenario, goal);
    if (!check) continue;  // not a legal division, or a dtype that this model has no layout for
    out.push_back(change_of(std::move(lever), *check));
  }
  // Those that meet the goal stay in the order of what they cost.
  std::stable_sort(out.begin(), out.end(), [](const Change& a, const Change& b) {
    if (a.meets_goal != b.meets_goal) return a.meets_goal;
    return !a.meets_goal && a.shortfall < b.shortfall;
  });
  return out;
}

std::optional<Change> try_pairs(Planner& planner, const Goal& goal, const std::vector<Change>& singles) {
  std::optional<Change> best;
  for (const Change& first : singles) {
    const Result<GoalCheck> before = check_goal(planner, first.scenario, goal);
    if (!before) continue;
    for (Lever& lever : levers(first.scenario, before->evaluation, goal)) {
      if (flag_name(lever.flag) == flag_name(first.flags.front())) continue;  // one flag twice is one flag
      const Result<GoalCheck> check = check_goal(planner, lever.scenario, goal);
      if (!check) continue;
      const bool is_better = !best || (check->is_met && !best->meets_goal) ||
                             (check->is_met == best->meets_goal && check->shortfall < best->shortfall);
      if (!is_better) continue;
      best = change_of(std::move(lever), *check);
      best->flags.insert(best->flags.begin(), first.flags.front());
    }
  }
  return best;
}

std::string gib(Bytes bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes.value) / static_cast<double>(kGiB));
}

std::string miss_text(const GoalState& state) {
  switch (state.kind) {
    case GoalKind::kUsers:
      return fmt::format("{:.0f} of {:.0f} users fit, {} are missing on each device", state.found, state.wanted,
                         gib(state.missing));
    case GoalKind::kContext:
      return fmt::format("the longest context is {:.0f} of {:.0f} tokens, {} are missing on each device", state.found,
                         state.wanted, gib(state.missing));
    case GoalKind::kTtft:
      if (state.found <= 0) return "there is no TTFT, nothing runs";
      return fmt::format("TTFT is {:.0f} ms, {:.0f} ms too long", 1e3 * state.found,
                         1e3 * (state.found - state.wanted));
    case GoalKind::kItl:
      if (state.found <= 0) return "there is no ITL, nothing runs";
      return fmt::format("ITL is {:.1f} ms, {:.1f} ms too long", 1e3 * state.found, 1e3 * (state.found - state.wanted));
    case GoalKind::kThroughput:
      return fmt::format("{:.0f} of {:.0f} tokens a second", state.found, state.wanted);
  }
  return "";
}

std::string sentence_of(const InverseAnswer& answer) {
  if (answer.is_met) {
    std::string out = "The goal is met";
    if (answer.devices)
      out += fmt::format("; {} device{} would do", answer.devices->num_devices(),
                         answer.devices->num_devices() == 1 ? "" : "s");
    if (answer.gpu_memory_utilization) {
      out += fmt::format("; a utilisation of {:.2f} is enough", *answer.gpu_memory_utilization);
    }
    return out + ".";
  }
  std::string out = "The goal is missed: ";
  bool is_first = true;
  for (const GoalState& state : answer.goals) {
    if (state.is_met) continue;
    out += (is_first ? "" : "; ") + miss_text(state);
    is_first = false;
  }
  const bool single_does = !answer.single_changes.empty() && answer.single_changes.front().meets_goal;
  if (single_does) return out + fmt::format(". {} meets it.", answer.single_changes.front().flags.front());
  if (answer.best_pair && answer.best_pair->meets_goal) {
    return out + fmt::format(". {} with {} meets it.", answer.best_pair->flags[0], answer.best_pair->flags[1]);
  }
  if (answer.devices) {
    const model::Parallelism& p = *answer.devices;
    return out + fmt::format(". No two changes meet it; {} devices do (TP {}, PP {}, DP {}).", p.num_devices(),
                             p.tensor, p.pipeline, p.data);
  }
  if (!answer.single_changes.empty()) {
    out += fmt::format(". Nothing tried meets it; {} helps most", answer.single_changes.front().flags.front());
  }
  return out + ".";
}

}  // namespace

Result<InverseAnswer> answer_goal(Planner& planner, const Scenario& scenario, const Goal& goal) {
  if (goal.users < 0 || goal.context_tokens < 0 || !(goal.ttft_seconds >= 0) || !(goal.itl_seconds >= 0) ||
      !(goal.output_tokens_per_second >= 0)) {
    return Error{ErrorCode::kInvalidArgument, "a goal is a number above 0; leave out what is not asked", "goal"};
  }
  if (goal.users == 0 && goal.context_tokens == 0 && goal.ttft_seconds == 0 && goal.itl_seconds == 0 &&
      goal.output_tokens_per_second == 0) {
    return Error{ErrorCode::kInvalidArgument, "no goal is given; give users, TTFT, ITL, context or throughput", "goal"};
  }
  const Scenario aimed = aimed_at(scenario, goal);
  ULLAGE_TRY(const GoalCheck now, check_goal(planner, aimed, goal));
  InverseAnswer out;
  out.goals = now.states;
  out.is_met = now.is_met;
  find_smallest(planner, aimed, goal, now.evaluation, out);
  out.single_changes = try_single(planner, aimed, goal, now);
  const bool single_does = !out.single_changes.empty() && out.single_changes.front().meets_goal;
  if (!now.is_met && !single_does) out.best_pair = try_pairs(planner, goal, out.single_changes);
  out.sentence = sentence_of(out);
  return out;
}

}  // namespace ullage::plan
