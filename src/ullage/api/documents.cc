#include "ullage/api/documents.h"

#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ullage/api/check.h"
#include "ullage/api/devices.h"
#include "ullage/api/explain.h"
#include "ullage/api/levers.h"
#include "ullage/api/link.h"
#include "ullage/api/models.h"
#include "ullage/api/plan.h"
#include "ullage/api/serve_line.h"
#include "ullage/api/sweep.h"
#include "ullage/base/json.h"
#include "ullage/base/quote.h"
#include "ullage/base/units.h"

namespace ullage::api {
namespace {

constexpr int64_t kMaxDocumentBytes = 64 * kMiB;  // a log may be in it
// A page asks for a chart's points, not for a study: `ullage plan --sweep` has no such limit.
constexpr int64_t kMaxDocumentPoints = 10'000;

Error bad(std::string where, std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), std::move(where)};
}

Result<Json> read_question(std::string_view json) {
  ULLAGE_TRY(Json document, parse_json(json, "", {.max_bytes = kMaxDocumentBytes}));
  if (!document.is_object()) return bad("", "is not a JSON object");
  return document;
}

// The plan document under `key`; none gives defaults.
Result<PlanInput> read_plan(const Json& document, const std::string& key) {
  const auto at = document.find(key);
  return parse_plan_document(at != document.end() ? dump_json(*at) : "{}", "/" + key);
}

template <class Answer>
std::string answered(const Answer& answer) {
  const Result<std::string> text = answer();
  return text ? *text : error_json(text.error());
}

Result<std::string> like(std::string_view json) {
  ULLAGE_TRY(const Json document, read_question(json));
  return get_string(document, "like", "", "");
}

std::string answer_devices(std::string_view json) {
  return answered([&]() -> Result<std::string> {
    ULLAGE_TRY(const std::string text, like(json));
    const std::vector<hardware::Device> known = hardware::known_devices();
    return devices_json(devices_like(text, known), -1);
  });
}

std::string answer_models(std::string_view json) {
  return answered([&]() -> Result<std::string> {
    ULLAGE_TRY(const std::string text, like(json));
    return models_json(model_rows(text), -1);
  });
}

const char* kind_name(LeverKind kind) {
  switch (kind) {
    case LeverKind::kCount:
      return "count";
    case LeverKind::kBytes:
      return "bytes";
    case LeverKind::kRatio:
      return "ratio";
    case LeverKind::kNumber:
      return "number";
    case LeverKind::kDuration:
      return "duration";
    case LeverKind::kBandwidth:
      return "bandwidth";
    case LeverKind::kFlops:
      return "flops";
    case LeverKind::kMoney:
      return "money";
    case LeverKind::kWord:
      return "word";
    case LeverKind::kFlag:
      return "flag";
  }
  return "";
}

std::string answer_levers(std::string_view json) {
  return answered([&]() -> Result<std::string> {
    ULLAGE_TRY_VOID(read_question(json));
    Json all = Json::array();
    for (const Lever& lever : levers()) {
      all.push_back({{"key", lever.key},
                     {"flags", lever.flags},
                     {"kind", kind_name(lever.kind)},
                     {"low", lever.low},
                     {"high", lever.high},
                     {"group", lever.group},
                     {"help", lever.help}});
    }
    return dump_json({{"schema_version", kPlanSchemaVersion}, {"kind", "levers"}, {"levers", std::move(all)}});
  });
}

// The models of an axis.
Result<std::shared_ptr<const PlanModel>> read_axis_model(const std::string& name) {
  ULLAGE_TRY(PlanModel known, catalogue_model(name, "model"));
  return std::make_shared<const PlanModel>(std::move(known));
}

Result<std::vector<SweepAxis>> read_axes(const Json& document) {
  const auto texts = document.find("axes");
  if (texts == document.end() || !texts->is_array() || texts->empty()) {
    return bad("/axes", "is not a list of axes like [\"prompt=1k..128k\"]");
  }
  std::vector<SweepAxis> axes;
  for (size_t i = 0; i < texts->size(); ++i) {
    const std::string where = fmt::format("/axes/{}", i);
    const Json& text = (*texts)[i];
    if (!text.is_string()) return bad(where, "is not a text like \"prompt=1k..128k\"");
    ULLAGE_TRY(SweepAxis axis, parse_sweep_axis(text.get_ref<const std::string&>(), where));
    axes.push_back(std::move(axis));
  }
  return axes;
}

Json cell_json(const SweepCell& cell) {
  if (!cell.is_number) return cell.text;
  const auto number = parse_json(cell.text, "");
  return number ? *number : Json(cell.text);
}

std::string answer_sweep(std::string_view json) {
  return answered([&]() -> Result<std::string> {
    ULLAGE_TRY(const Json document, read_question(json));
    ULLAGE_TRY(PlanInput input, read_plan(document, "scenario"));
    ULLAGE_TRY(std::vector<SweepAxis> axes, read_axes(document));
    ULLAGE_TRY(Sweep sweep, Sweep::make(std::move(input), std::move(axes), read_axis_model));
    if (sweep.num_points() > kMaxDocumentPoints) {
      return Error{ErrorCode::kTooLarge,
                   fmt::format("{} points are more than the {} that a document may ask for",
                               format_thousands(sweep.num_points()), format_thousands(kMaxDocumentPoints)),
                   "/axes"};
    }
    Json rows = Json::array();
    while (!sweep.is_done()) {
      Json row = Json::array();
      for (const SweepCell& cell : sweep.next()) row.push_back(cell_json(cell));
      rows.push_back(std::move(row));
    }
    Json columns = Json::array();
    for (const std::string& column : sweep.columns()) columns.push_back(column);
    return dump_json({{"schema_version", kPlanSchemaVersion},
                      {"kind", "sweep"},
                      {"columns", std::move(columns)},
                      {"rows", std::move(rows)}});
  });
}

std::string answer_check(std::string_view json) {
  return answered([&]() -> Result<std::string> {
    ULLAGE_TRY(const Json document, read_question(json));
    CheckInput input;
    input.log_where = "/log";
    ULLAGE_TRY(input.log, get_string(document, "log", "", ""));
    if (observe::is_metrics(input.log)) {
      ULLAGE_TRY(input.metrics, observe::read_metrics(input.log, input.log_where));
      input.log.clear();
    }
    ULLAGE_TRY(input.plan, read_plan(document, "scenario"));
    ULLAGE_TRY(const CheckAnswer answer, check(input));
    return check_json(answer);
  });
}

std::string answer_lines(std::string_view json) {
  return answered([&]() -> Result<std::string> {
    ULLAGE_TRY(const Json document, read_question(json));
    ULLAGE_TRY(const PlanInput input, read_plan(document, "scenario"));
    const std::string model = input.model != nullptr ? input.model->name : "MODEL";
    Json lines = Json::array();
    for (const char* server : {"vllm", "sglang", "llama-server", "ullage"}) {
      ULLAGE_TRY(const PrintedLine printed, print_serve_line(server, model, input.levers));
      lines.push_back({{"server", server}, {"line", printed.line}, {"notes", printed.notes}});
    }
    return dump_json({{"schema_version", kPlanSchemaVersion}, {"kind", "lines"}, {"lines", std::move(lines)}});
  });
}

constexpr DocumentFunction kFunctions[] = {
    {"plan", "a plan document", plan_document},
    {"explain", "{before, after}: two plan documents, the second with what changes", explain_document},
    {"sweep", "{scenario, axes}: one plan a combination, as columns and rows", answer_sweep},
    {"check", "{log, scenario}: a start-up log, a steady-state log or a scrape against the plan", answer_check},
    {"lines", "{scenario}: the command lines that start servers so", answer_lines},
    {"link", "{scenario} gives its {link}; {link} gives the {scenario}", link_document},
    {"models", "{like}: the catalogue of models", answer_models},
    {"devices", "{like}: the catalogue of devices", answer_devices},
    {"levers", "{}: everything that a plan document may set", answer_levers},
};

}  // namespace

std::span<const DocumentFunction> document_functions() { return kFunctions; }

std::string answer_document(std::string_view function, std::string_view json) {
  std::string known;
  for (const DocumentFunction& one : kFunctions) {
    if (one.name == function) return one.answer(json);
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  }
  return error_json(Error{ErrorCode::kNotFound,
                          fmt::format("no function is called {}; there are {}", quote(function), known), "function"});
}

}  // namespace ullage::api
