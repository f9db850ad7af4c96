// `ullage plan` as a function: an input or a JSON document in, an answer, JSON or text out. Deterministic: the same
// question gives the same bytes on every platform. The command line, the server and WebAssembly all call these.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/api/plan_input.h"
#include "ullage/base/result.h"
#include "ullage/memory/budget.h"
#include "ullage/memory/kv_layout.h"
#include "ullage/plan/evaluate.h"
#include "ullage/plan/inverse.h"

namespace ullage::api {

inline constexpr int64_t kPlanSchemaVersion = 1;

// One line of the derivation: how a figure comes about.
struct DerivationStep {
  std::string symbol;   // "K"
  std::string meaning;  // "KV pool of one device"
  std::string formula;  // "U - W - A - G - R"
  std::string values;   // "73.28 - 15.26 - 1.42 - 0.65 - 0.60"
  std::string result;   // "55.35 GiB"
  memory::Tier tier = memory::Tier::kExact;
};

// Layers that keep the same, for the answer's table.
struct KvGroupAnswer {
  std::string kind;  // "full attention", "sliding window", ...
  int64_t num_layers = 0;
  int64_t block_size = 0;
  int64_t bytes_per_token = 0;  // of one rank, all its layers; 0 for states
  int64_t fixed_bytes = 0;      // of a request's states
  int64_t window = 0;           // tokens kept at most; 0 = all
};

struct PlanOptions {
  bool has_derivation = false;  // --explain
};

struct PlanAnswer {
  PlanScenario asked;
  plan::Evaluation evaluation;
  plan::Crossovers crossovers;
  memory::MemoryBudget budget;  // with the rules in words
  int64_t num_parameters = 0;
  std::vector<KvGroupAnswer> kv_groups;
  std::optional<plan::InverseAnswer> inverse;  // with targets
  std::vector<plan::Warning> warnings;
  std::vector<std::string> log_lines;  // what the engine would print
  std::vector<DerivationStep> derivation;
  std::string verdict;
};

Result<PlanAnswer> plan(const PlanInput& input, const PlanOptions& options = {});

// JSON text, one object, stable keys, "schema_version" first: docs/plan-json.md.
std::string plan_json(const PlanAnswer& answer, int indent = 2);

// How text may look: what the terminal can show.
struct TextStyle {
  int width = 80;           // columns
  bool has_unicode = true;  // block characters; else ASCII
  bool has_colour = false;
};
// Several lines, each ended by a newline.
std::string plan_text(const PlanAnswer& answer, const TextStyle& style);

// A plan document (docs/plan-json.md) as an input. `where` names it in errors, which point at a key.
Result<PlanInput> parse_plan_document(std::string_view json, std::string_view where);
// Document in, answer out; an Error becomes {"schema_version", "error": {"code", "message", "where"}}.
std::string plan_document(std::string_view json);
std::string error_json(const Error& error);

// In pieces for other answers of this folder.
const char* fit_name(plan::Fit fit);  // "fits", "weights_too_large", "request_too_large"
std::vector<DerivationStep> derive(const PlanAnswer& answer, const plan::Planner::Parts& parts);
std::vector<std::string> engine_log_lines(const PlanAnswer& answer, const memory::KvLayout& layout);
std::vector<KvGroupAnswer> describe_kv_groups(const memory::KvLayout& layout);

}  // namespace ullage::api
