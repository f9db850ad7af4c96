#include "ullage/api/explain.h"

#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "ullage/api/text_table.h"
#include "ullage/base/json.h"
#include "ullage/base/units.h"

namespace ullage::api {
namespace {

std::string signed_count(int64_t value) { return (value > 0 ? "+" : "") + format_thousands(value); }

std::string signed_ms(double seconds) {
  if (std::abs(seconds) < 5e-7) return "";
  return fmt::format("{:+.2f} ms", seconds * 1e3);
}

std::string signed_rate(double rate) {
  if (std::abs(rate) < 0.5) return "";
  return signed_count(static_cast<int64_t>(std::floor(rate + 0.5)));
}

// Over all replicas, as the terms are.
int64_t total_tokens(const PlanScenario& asked, const plan::Evaluation& evaluation) {
  return evaluation.capacity.usable_tokens * asked.scenario.parallelism.data;
}

Json side_json(const PlanScenario& asked, const plan::Evaluation& evaluation) {
  return {{"model", asked.model->name},
          {"device", asked.device->name},
          {"num_devices", asked.scenario.parallelism.num_devices()},
          {"policy", std::string(asked.scenario.profile->name)},
          {"verdict", plan::verdict(asked.scenario, evaluation)},
          {"fit", fit_name(evaluation.fit)},
          {"kv_pool_bytes", evaluation.budget.kv_pool.bytes.value},
          {"usable_tokens", total_tokens(asked, evaluation)},
          {"users", evaluation.capacity.total_expected_requests},
          {"ttft_seconds", evaluation.timing.ttft_seconds},
          {"itl_seconds", evaluation.timing.itl_seconds},
          {"output_tokens_per_second", evaluation.timing.output_tokens_per_second},
          {"tier", plan::tier_name(evaluation.timing.tier)}};
}

void add_side(const char* name, const PlanScenario& asked, const plan::Evaluation& evaluation, TextTable* table) {
  table->add({name, "", format_thousands(total_tokens(asked, evaluation)),
              format_thousands(evaluation.capacity.total_expected_requests),
              fmt::format("{:.2f} ms", evaluation.timing.ttft_seconds * 1e3),
              fmt::format("{:.2f} ms", evaluation.timing.itl_seconds * 1e3),
              format_thousands(std::llround(evaluation.timing.output_tokens_per_second))});
}

}  // namespace

Result<ExplainAnswer> explain(const PlanInput& before, const PlanInput& after) {
  ExplainAnswer answer;
  DeviceShelf shelf_before;
  DeviceShelf shelf_after;
  ULLAGE_TRY(answer.before, make_scenario(before, shelf_before));
  ULLAGE_TRY(answer.after, make_scenario(after, shelf_after));
  plan::Planner planner;
  ULLAGE_TRY(answer.explanation, plan::explain(planner, answer.before.scenario, answer.after.scenario));
  return answer;
}

std::string explain_json(const ExplainAnswer& answer, int indent) {
  const plan::Explanation& explanation = answer.explanation;
  Json json = {{"schema_version", kPlanSchemaVersion}, {"kind", "explain"}, {"sentence", explanation.sentence}};
  json["before"] = side_json(answer.before, explanation.before);
  json["after"] = side_json(answer.after, explanation.after);
  Json terms = Json::array();
  for (const plan::WaterfallTerm& term : explanation.terms) {
    terms.push_back({{"name", term.name},
                     {"change", term.change},
                     {"tokens", term.tokens},
                     {"users", term.users},
                     {"ttft_seconds", term.ttft_seconds},
                     {"itl_seconds", term.itl_seconds},
                     {"output_tokens_per_second", term.output_tokens_per_second}});
  }
  json["terms"] = std::move(terms);
  json["notes"] = answer.after.notes;
  return dump_json(json, indent);
}

std::string explain_text(const ExplainAnswer& answer, const TextStyle& style) {
  const plan::Explanation& explanation = answer.explanation;
  std::string out = wrap_text(explanation.sentence, style.width, 0) + "\n";
  TextTable table({2, 3, 4, 5, 6});
  table.add({"", "", "usable tokens", "users", "TTFT", "ITL", "output tok/s"});
  add_side("A", answer.before, explanation.before, &table);
  for (const plan::WaterfallTerm& term : explanation.terms) {
    table.add({term.name, term.change, term.tokens != 0 ? signed_count(term.tokens) : "",
               term.users != 0 ? signed_count(term.users) : "", signed_ms(term.ttft_seconds),
               signed_ms(term.itl_seconds), signed_rate(term.output_tokens_per_second)});
  }
  add_side("B", answer.after, explanation.after, &table);
  out += table.text();
  for (const std::string& note : answer.after.notes) out += wrap_text(note, style.width, 2, "  note: ");
  return out;
}

std::string explain_document(std::string_view text) {
  const auto answer = [&]() -> Result<std::string> {
    ULLAGE_TRY(const Json document, parse_json(text, "", {.max_bytes = 16 * kMiB}));
    const auto before = document.find("before");
    const auto after = document.find("after");
    if (!document.is_object() || before == document.end() || after == document.end()) {
      return Error{ErrorCode::kInvalidArgument, "needs two plan documents, \"before\" and \"after\"", ""};
    }
    Json whole = *before;
    if (whole.is_object() && after->is_object()) {
      for (const auto& [key, value] : after->items()) whole[key] = value;
    } else {
      whole = *after;
    }
    ULLAGE_TRY(const PlanInput from, parse_plan_document(dump_json(*before), "/before"));
    ULLAGE_TRY(const PlanInput to, parse_plan_document(dump_json(whole), "/after"));
    ULLAGE_TRY(const ExplainAnswer explained, explain(from, to));
    return explain_json(explained);
  }();
  return answer ? *answer : error_json(answer.error());
}

}  // namespace ullage::api
