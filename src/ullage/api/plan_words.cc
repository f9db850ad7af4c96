#include "ullage/api/plan_words.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "ullage/api/serve_line.h"
#include "ullage/api/shell_words.h"
#include "ullage/base/quote.h"

namespace ullage::api {
namespace {

bool is_flag(std::string_view word) {
  return word.size() >= 2 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9');
}

Result<PlanWords> from_serve_line(std::span<const std::string> words, std::string_view where) {
  ULLAGE_TRY(ServeLine line, parse_serve_words(words, where));
  PlanWords result{std::move(line.model), std::move(line.levers), std::move(line.notes)};
  const Lever* policy = find_lever("policy");
  LeverValue value;
  value.text = line.policy;
  result.levers.set_default(LeverSetting{policy, std::move(value), std::string(where)});
  return result;
}

}  // namespace

Result<PlanWords> parse_plan_words(std::span<const std::string> words, std::string_view where) {
  if (is_serve_line(words)) return from_serve_line(words, where);
  PlanWords result;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (i == 0 && (word == "ullage" || word == "plan")) continue;
    if (i == 1 && word == "plan" && words[0] == "ullage") continue;
    if (!is_flag(word)) {
      if (result.model.empty()) {
        result.model = word;
        continue;
      }
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format("has {} beside the model {}; quote what belongs together", quote(word), quote(result.model)),
          std::string(where)};
    }
    const size_t equals = word.find('=');
    const std::string flag = word.substr(0, equals);
    const std::string place = where.empty() ? flag : fmt::format("{}: {}", where, flag);
    const Lever* lever = find_lever(flag);
    if (lever == nullptr) {
      return Error{ErrorCode::kInvalidArgument, "is not known; `ullage plan --help` lists the flags", place};
    }
    std::optional<std::string> text;
    if (equals != std::string::npos) text = word.substr(equals + 1);
    if (!text && lever->kind == LeverKind::kFlag) text = "true";
    if (!text && i + 1 < words.size() && !is_flag(words[i + 1])) text = words[++i];
    if (!text) return Error{ErrorCode::kInvalidArgument, "has no value; write one behind it", place};
    ULLAGE_TRY(LeverValue value, parse_lever(*lever, *text, place));
    result.levers.set(LeverSetting{lever, std::move(value), place});
  }
  return result;
}

Result<PlanWords> parse_plan_line(std::string_view line, std::string_view where) {
  ULLAGE_TRY(const std::vector<std::string> words, split_shell_words(line, where));
  return parse_plan_words(words, where);
}

}  // namespace ullage::api
