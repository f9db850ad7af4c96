// `ullage check` as a function: what an engine's log or metrics say, against what a plan says.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ullage/api/plan.h"
#include "ullage/base/result.h"
#include "ullage/observe/comparison.h"
#include "ullage/observe/diagnosis.h"
#include "ullage/observe/reference.h"
#include "ullage/observe/startup_log.h"
#include "ullage/observe/steady_state.h"

namespace ullage::api {

struct CheckInput {
  PlanInput plan;                               // what is known beside the log; its levers win over the log's
  std::string log;                              // a start-up log, lines of a serving engine, or both
  std::string log_where;                        // its name in errors
  std::optional<observe::SteadyState> metrics;  // scraped already
};

struct CheckAnswer {
  std::optional<observe::StartupLog> startup;
  std::optional<observe::SteadyState> steady;
  std::optional<PlanScenario> asked;  // when model and device are known
  std::optional<plan::Evaluation> evaluation;
  std::optional<observe::Comparison> comparison;
  std::optional<observe::Diagnosis> diagnosis;
  std::vector<std::string> notes;  // why there is no comparison, what was taken from the log
};

// Levers that a start-up log states, for those that are not set.
void add_levers_of_log(const observe::StartupLog& log, LeverSettings* levers);

// kUnsupported when neither the log nor the metrics say anything that is known.
Result<CheckAnswer> check(const CheckInput& input);

std::string check_json(const CheckAnswer& answer, int indent = 2);
std::string check_text(const CheckAnswer& answer, const TextStyle& style);
std::string reference_json(const observe::ReferenceReport& report, int indent = 2);

}  // namespace ullage::api
