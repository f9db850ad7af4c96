// `ullage explain A B` as a function: the difference of two scenarios as a waterfall of named terms.
#pragma once

#include <string>

#include "ullage/api/plan.h"
#include "ullage/base/result.h"
#include "ullage/plan/explain.h"

namespace ullage::api {

struct ExplainAnswer {
  PlanScenario before;
  PlanScenario after;
  plan::Explanation explanation;
};

Result<ExplainAnswer> explain(const PlanInput& before, const PlanInput& after);

// JSON text, one object, stable keys: docs/plan-json.md.
std::string explain_json(const ExplainAnswer& answer, int indent = 2);
std::string explain_text(const ExplainAnswer& answer, const TextStyle& style);
// {"before": document, "after": document} in, answer or error out. What `after` does not say is as in `before`.
std::string explain_document(std::string_view json);

}  // namespace ullage::api
