#include "ullage/api/link.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ullage/api/devices.h"
#include "ullage/api/levers.h"
#include "ullage/api/plan.h"
#include "ullage/base/ascii.h"
#include "ullage/base/json.h"
#include "ullage/base/quote.h"
#include "ullage/base/units.h"

namespace ullage::api {
namespace {

constexpr std::string_view kStart = "#v1;";
// Of the characters that a fragment may hold, those that mean nothing here.
constexpr std::string_view kPlain = "-._~/:@!$'()*+,?";
constexpr std::string_view kHex = "0123456789ABCDEF";

std::string encode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (is_letter_or_digit(c) || kPlain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

Result<std::string> decode(std::string_view text, std::string_view where) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const bool has_digits = i + 2 < text.size();
    const int high = has_digits ? hex_digit(text[i + 1]) : -1;
    const int low = has_digits ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("has a % without two digits in {}", quote(text)),
                   std::string(where)};
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

bool is_known(std::string_view key) {
  return key == "model" || key == "device" || key == "line" || find_lever(key) != nullptr;
}

}  // namespace

bool is_link(std::string_view text) {
  const size_t at = text.find('#');
  return at != std::string_view::npos && text.substr(at).starts_with("#v") &&
         text.find(';', at) != std::string_view::npos;
}

Result<std::string> print_link(const Json& document, std::string_view where) {
  if (!document.is_object()) return Error{ErrorCode::kInvalidArgument, "is not a JSON object", std::string(where)};
  std::string link(kStart);
  for (const auto& [key, value] : document.items()) {
    if (key == "schema_version" || key == "explain" || value == false || value.is_null()) continue;
    if (link.size() > kStart.size()) link += ';';
    link += encode(key);
    if (value == true) continue;
    link += '=';
    link += encode(value.is_string() ? value.get_ref<const std::string&>() : dump_json(value));
  }
  return link;
}

Result<ParsedLink> parse_link(std::string_view text, std::string_view where) {
  const size_t start = text.find('#');
  if (!is_link(text)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} is no link; one looks like #v1;model=Qwen/Qwen3-8B;device=h100", quote(text)),
                 std::string(where)};
  }
  text = text.substr(start);
  if (!text.starts_with(kStart)) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("is of version {}; this program reads {}", quote(text.substr(1, text.find(';') - 1)), "v1"),
        std::string(where)};
  }
  text.remove_prefix(kStart.size());
  ParsedLink link;
  Json document = Json::object();
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (part.empty()) continue;
    const size_t equals = std::min(part.find('='), part.size());
    ULLAGE_TRY(std::string key, decode(part.substr(0, equals), where));
    if (!is_known(key)) {
      link.unknown.push_back(std::move(key));
      continue;
    }
    if (equals == part.size()) {
      document[key] = true;
      continue;
    }
    ULLAGE_TRY(std::string value, decode(part.substr(equals + 1), where));
    if ((key == "model" || key == "device") && value.starts_with('{')) {
      ULLAGE_TRY(document[key], parse_json(value, fmt::format("{}: {}", where, key)));
    } else {
      document[key] = std::move(value);
    }
  }
  link.document = dump_json(document);
  return link;
}

Result<Json> plan_document_of(const PlanInput& input) {
  Json document = Json::object();
  if (input.model != nullptr) {
    const PlanModel& model = *input.model;
    if (!model.config.empty()) {
      ULLAGE_TRY(const Json config, parse_json(model.config, "config.json", {.max_bytes = 16 * kMiB}));
      document["model"] = {{"config", config}, {"name", model.name}};
    } else if (model.source == "catalogue") {
      document["model"] = model.name;
    } else {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("a {} is too large for a link; name a model of the catalogue or give its config.json",
                               model.source),
                   "MODEL"};
    }
  }
  if (input.device) {
    const std::string text = devices_json({&*input.device, 1}, -1);
    ULLAGE_TRY(const Json devices, parse_json(text, "device"));
    document["device"] = devices["devices"][0];
  }
  for (const LeverSetting& setting : input.levers.all()) {
    const std::string key(setting.lever->key);
    if (key == "device" && input.device) continue;
    if (setting.lever->kind == LeverKind::kFlag) {
      document[key] = setting.value.flag;
    } else if (!setting.value.text.empty()) {
      document[key] = setting.value.text;
    } else {
      document[key] = setting.value.number;
    }
  }
  return document;
}

std::string link_document(std::string_view json) {
  const auto answer = [&]() -> Result<std::string> {
    ULLAGE_TRY(const Json document, parse_json(json, "", {.max_bytes = 16 * kMiB}));
    if (!document.is_object()) return Error{ErrorCode::kInvalidArgument, "is not a JSON object", ""};
    Json out = {{"schema_version", kPlanSchemaVersion}, {"kind", "link"}};
    if (const auto scenario = document.find("scenario"); scenario != document.end()) {
      ULLAGE_TRY(out["link"], print_link(*scenario, "/scenario"));
      return dump_json(out);
    }
    ULLAGE_TRY(const std::string text, get_string(document, "link", "", ""));
    ULLAGE_TRY(ParsedLink link, parse_link(text, "/link"));
    ULLAGE_TRY(out["scenario"], parse_json(link.document, "/link"));
    out["unknown"] = link.unknown;
    return dump_json(out);
  }();
  return answer ? *answer : error_json(answer.error());
}

}  // namespace ullage::api
