// A goal against one scenario, and the changes that may help. Internal to plan/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ullage/plan/inverse.h"

namespace ullage::plan {

// The scenario with what the goal says of its requests: as many clients as users, of the context asked for.
Scenario aimed_at(const Scenario& scenario, const Goal& goal);

struct GoalCheck {
  Evaluation evaluation;
  std::vector<GoalState> states;
  bool is_met = true;
  double shortfall = 0;
};
// REQUIRES: `scenario` is aimed_at the goal.
Result<GoalCheck> check_goal(Planner& planner, const Scenario& scenario, const Goal& goal);

// One lever moved.
struct Lever {
  std::string flag;  // "--kv-cache-dtype fp8_e4m3"
  Scenario scenario;
};
// Every single move that could help, the least costly first.
std::vector<Lever> levers(const Scenario& scenario, const Evaluation& now, const Goal& goal);

// The KV dtypes and weight formats that are worth a try, the widest first, what is in use among them.
std::vector<model::KvDType> kv_choices(const Scenario& scenario, model::KvDType now);
std::vector<WeightPrecision> weight_choices(const Scenario& scenario);

}  // namespace ullage::plan
