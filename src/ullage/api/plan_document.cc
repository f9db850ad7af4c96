// Reads a plan document: the levers by their keys, a model, a device.
#include <utility>

#include <fmt/format.h>

#include "ullage/api/plan.h"
#include "ullage/base/json.h"
#include "ullage/base/quote.h"
#include "ullage/base/units.h"
#include "ullage/model/catalogue.h"
#include "ullage/model/config.h"

namespace ullage::api {
namespace {

constexpr int64_t kMaxDocumentBytes = 16 * kMiB;
constexpr std::string_view kOtherKeys[] = {"schema_version", "model", "device", "explain", "line"};

std::string pointer(std::string_view where, std::string_view key) { return fmt::format("{}/{}", where, key); }

Error bad(std::string_view where, std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), std::string(where)};
}

Result<void> read_lever(const std::string& key, const Json& value, std::string_view where, LeverSettings* levers) {
  const Lever* lever = find_lever(key);
  const std::string place = pointer(where, key);
  if (lever == nullptr) return bad(place, "is not known; docs/plan-json.md lists the keys");
  LeverValue parsed;
  if (value.is_boolean() && lever->kind == LeverKind::kFlag) {
    parsed.flag = value.get<bool>();
  } else if (value.is_string()) {
    ULLAGE_TRY(parsed, parse_lever(*lever, value.get_ref<const std::string&>(), place));
  } else if (value.is_number_integer() && (lever->kind == LeverKind::kCount || lever->kind == LeverKind::kBytes)) {
    ULLAGE_TRY(parsed, parse_lever(*lever, dump_json(value), place));  // exact above 2^53, too
  } else if (value.is_number()) {
    ULLAGE_TRY(parsed, lever_from_number(*lever, value.get<double>(), place));
  } else {
    return bad(place, "is neither a number, a string nor true or false");
  }
  levers->set(LeverSetting{lever, std::move(parsed), place});
  return {};
}

// A name; or {"config": {...}} or {"config": "text of a config.json"}, "name" beside it; or numbers.
Result<std::shared_ptr<const PlanModel>> read_model(const Json& value, std::string_view where, LeverSettings* levers) {
  if (value.is_string()) {
    ULLAGE_TRY(PlanModel known, catalogue_model(value.get_ref<const std::string&>(), where));
    return std::make_shared<const PlanModel>(std::move(known));
  }
  if (!value.is_object()) return bad(where, "is neither a name nor an object with \"config\" or numbers");
  PlanModel model;
  const auto config = value.find("config");
  if (config == value.end()) {
    for (const auto& [key, number] : value.items()) {
      if (key != "name") ULLAGE_TRY_VOID(read_lever(key, number, where, levers));
    }
    return std::shared_ptr<const PlanModel>();  // by its numbers
  }
  const std::string place = pointer(where, "config");
  const std::string text = config->is_string() ? config->get<std::string>() : dump_json(*config);
  ULLAGE_TRY(model.shape, model::parse_config(text, place));
  ULLAGE_TRY(model.name, get_string(value, "name", "config.json", where));
  model.source = "config.json";
  model.config = text;
  return std::make_shared<const PlanModel>(std::move(model));
}

Result<void> read_device(const Json& value, std::string_view where, PlanInput* input) {
  if (value.is_string()) return read_lever("device", value, where, &input->levers);
  const std::string place = pointer(where, "device");
  if (!value.is_object()) return bad(place, "is neither a name nor an object as in data/devices.json");
  Json catalogue;
  catalogue["devices"] = Json::array({value});
  ULLAGE_TRY(std::vector<hardware::Device> devices, hardware::parse_devices(dump_json(catalogue), place));
  input->device = std::move(devices.front());
  return {};
}

Result<void> read_version(const Json& document, std::string_view where) {
  ULLAGE_TRY(const int64_t version, get_int(document, "schema_version", kPlanSchemaVersion, where));
  if (version == kPlanSchemaVersion) return {};
  return bad(pointer(where, "schema_version"),
             fmt::format("is {}; this version reads {}", version, kPlanSchemaVersion));
}

Result<PlanInput> read_document(const Json& document, std::string_view where) {
  if (!document.is_object()) return bad(where, "is not a JSON object");
  ULLAGE_TRY_VOID(read_version(document, where));
  PlanInput input;
  const auto model = document.find("model");
  if (model != document.end()) {
    ULLAGE_TRY(input.model, read_model(*model, pointer(where, "model"), &input.levers));
  }
  for (const auto& [key, value] : document.items()) {
    bool is_other = false;
    for (const std::string_view other : kOtherKeys) is_other = is_other || other == key;
    if (key == "device") ULLAGE_TRY_VOID(read_device(value, where, &input));
    if (!is_other) ULLAGE_TRY_VOID(read_lever(key, value, where, &input.levers));
  }
  return input;
}

Result<std::string> answer_document(std::string_view text) {
  ULLAGE_TRY(const Json document, parse_json(text, "", {.max_bytes = kMaxDocumentBytes}));
  ULLAGE_TRY(const PlanInput input, read_document(document, ""));
  PlanOptions options;
  ULLAGE_TRY(options.has_derivation, get_bool(document, "explain", false, ""));
  ULLAGE_TRY(const PlanAnswer answer, plan(input, options));
  return plan_json(answer);
}

}  // namespace

Result<PlanModel> catalogue_model(std::string_view name, std::string_view where) {
  ULLAGE_TRY(const model::CatalogueModel known, model::find_catalogue_model(name, where));
  PlanModel model;
  ULLAGE_TRY(model.shape, model::catalogue_shape(known));
  model.name = known.id;
  model.source = "catalogue";
  return model;
}

Result<PlanInput> parse_plan_document(std::string_view json, std::string_view where) {
  ULLAGE_TRY(const Json document, parse_json(json, where, {.max_bytes = kMaxDocumentBytes}));
  return read_document(document, where);
}

std::string plan_document(std::string_view json) {
  const Result<std::string> answer = answer_document(json);
  return answer ? *answer : error_json(answer.error());
}

}  // namespace ullage::api
