#include "ullage/observe/lesson_cases.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/quote.h"
#include "ullage/observe/lesson_given.h"
#include "ullage/observe/lesson_metrics.h"

namespace ullage::observe {
namespace {

// Half of the last digit that a number is printed with: 27.9 stands for 27.85 to 27.95.
double half_last_digit(const Json& expected) {
  if (expected.is_number_integer()) return 0.5;
  const std::string text = dump_json(expected);
  const size_t point = text.find('.');
  if (point == std::string::npos) return 0.5;
  double half = 0.5;
  for (size_t i = point + 1; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) half /= 10;
  return half;
}

// Rounding of double arithmetic must not move a figure that lies on an edge.
bool is_within(double found, double expected, double half) {
  const double slack = 1e-9 * std::max(1.0, expected < 0 ? -expected : expected);
  return found >= expected - half - slack && found <= expected + half + slack;
}

class CaseRunner {
 public:
  CaseRunner(const LessonWorld& world, LessonCase& out) : world_(world), out_(out) {}

  void run(const std::vector<Given>& variants, const Json& expect) {
    for (const auto& item : expect.items()) {
      if (item.key() == "note") continue;
      compare(variants, item.key(), item.value());
    }
  }

 private:
  void miss(std::string_view key, std::string what) { out_.misses.push_back(fmt::format("{}: {}", key, what)); }

  void compare_one(std::string_view key, const Figure& found, const Json& expected) {
    ++out_.num_figures;
    if (const double* number = std::get_if<double>(&found)) {
      if (!expected.is_number()) return miss(key, fmt::format("expected {}, found a number", dump_json(expected)));
      if (is_within(*number, expected.get<double>(), half_last_digit(expected))) return;
      return miss(key, fmt::format("expected {}, found {}", dump_json(expected), *number));
    }
    if (const bool* flag = std::get_if<bool>(&found)) {
      if (expected.is_boolean() && expected.get<bool>() == *flag) return;
      return miss(key, fmt::format("expected {}, found {}", dump_json(expected), *flag));
    }
    const auto& text = std::get<std::string>(found);
    if (expected.is_string() && expected.get<std::string>() == text) return;
    miss(key, fmt::format("expected {}, found {}", dump_json(expected), quote(text)));
  }

  // One figure of each variant. False when no figure is called so.
  bool compare_each(const std::vector<Given>& variants, std::string_view key, const Json& expected) {
    std::vector<Figure> found;
    found.reserve(variants.size());
    for (const Given& variant : variants) {
      Result<std::optional<Figure>> figure = figure_of(world_, variant, key);
      if (!figure) {
        miss(key, figure.error().to_string());
        return true;
      }
      if (!*figure) return false;
      found.push_back(**std::move(figure));
    }
    compare_list(key, found, expected);
    return true;
  }

  void compare_list(std::string_view key, const std::vector<Figure>& found, const Json& expected) {
    if (!expected.is_array()) {
      // A figure that is stated once holds for every variant.
      for (const Figure& figure : found) compare_one(key, figure, expected);
      return;
    }
    if (expected.size() != found.size()) {
      return miss(key, fmt::format("expected {} figures, found {}", expected.size(), found.size()));
    }
    for (size_t i = 0; i < found.size(); ++i) compare_one(key, found[i], expected[i]);
  }

  bool compare_bound(const std::vector<Given>& variants, std::string_view key, const Json& expected) {
    for (const std::string_view suffix : {"_min", "_max", "_below"}) {
      if (!key.ends_with(suffix)) continue;
      const std::string_view name = key.substr(0, key.size() - suffix.size());
      Result<std::vector<double>> found = numbers_of(variants, name);
      if (!found) {
        miss(key, found.error().to_string());
        return true;
      }
      if (found->empty()) continue;
      for (size_t i = 0; i < found->size(); ++i) {
        const bool is_list = expected.is_array();
        if (is_list && i >= expected.size()) {
          miss(key, fmt::format("expected {} figures, found {}", expected.size(), found->size()));
          break;
        }
        const Json& edge = is_list ? expected[i] : expected;
        ++out_.num_figures;
        if (!edge.is_number()) {
          miss(key, "expected a number as bound");
          continue;
        }
        const double bound = edge.get<double>();
        const double value = (*found)[i];
        const bool holds = suffix == "_min"   ? is_within(value, bound, 0) || value > bound
                           : suffix == "_max" ? is_within(value, bound, 0) || value < bound
                                              : value < bound;
        if (!holds) miss(key, fmt::format("bound {}, found {}", dump_json(edge), value));
      }
      return true;
    }
    return false;
  }

  // What a bound speaks of: a figure of each variant, or a comparison. Empty when neither is known.
  Result<std::vector<double>> numbers_of(const std::vector<Given>& variants, std::string_view name) {
    std::vector<double> out;
    out.reserve(variants.size());
    ULLAGE_TRY(const std::optional<double> comparison, comparison_of(world_, variants, name));
    if (comparison) {
      out.push_back(*comparison);
      return out;
    }
    for (const Given& variant : variants) {
      ULLAGE_TRY(const std::optional<Figure> figure, figure_of(world_, variant, name));
      if (!figure || !std::holds_alternative<double>(*figure)) return std::vector<double>();
      out.push_back(std::get<double>(*figure));
    }
    return out;
  }

  void compare(const std::vector<Given>& variants, const std::string& key, const Json& expected) {
    if (expected.is_object()) {
      // Figures of one device, named by the key.
      std::vector<Given> there = variants;
      for (Given& variant : there) variant.device = key;
      run(there, expected);
      return;
    }
    if (compare_each(variants, key, expected)) return;
    Result<std::optional<std::vector<double>>> list = list_of(world_, variants, key);
    if (list && *list) {
      const std::vector<Figure> figures((**list).begin(), (**list).end());
      return compare_list(key, figures, expected);
    }
    if (!list) return miss(key, list.error().to_string());
    Result<std::optional<double>> comparison = comparison_of(world_, variants, key);
    if (!comparison) return miss(key, comparison.error().to_string());
    if (*comparison) return compare_one(key, Figure(**comparison), expected);
    if (compare_bound(variants, key, expected)) return;
    miss(key, "is not a figure that is known here");
  }

  const LessonWorld& world_;
  LessonCase& out_;
};

// One object for each combination of the values that `given` lists: side by side where all lists are as long, else
// every one with every other.
Result<std::vector<Given>> variants_of(const Json& given, const Json& expect, std::string_view where) {
  std::vector<std::string> lists;
  lists.reserve(given.size());
  size_t longest = 1;
  bool are_alike = true;
  for (const auto& item : given.items()) {
    if (!item.value().is_array()) continue;
    if (item.value().empty() || item.value().size() > 64) {
      return Error{ErrorCode::kCorrupt, "a list of 1 to 64 values is expected",
                   fmt::format("{}/{}", where, item.key())};
    }
    if (!lists.empty() && item.value().size() != longest) are_alike = false;
    longest = std::max(longest, item.value().size());
    lists.push_back(item.key());
  }
  size_t num_variants = longest;
  if (!are_alike) {
    num_variants = 1;
    for (const std::string& key : lists) num_variants *= given[key].size();
  }
  if (num_variants > 4096) return Error{ErrorCode::kTooLarge, "more than 4,096 combinations", std::string(where)};
  std::vector<Given> out;
  out.reserve(num_variants);
  for (size_t i = 0; i < num_variants; ++i) {
    Json one = given;
    size_t rest = i;
    for (const std::string& key : lists) {
      const size_t size = given[key].size();
      const size_t index = are_alike ? i : rest % size;
      if (!are_alike) rest /= size;
      one[key] = given[key][index];
    }
    ULLAGE_TRY(Given variant, read_given(one, where));
    out.push_back(std::move(variant));
  }
  // Devices that only the answers name are variants, too: comparisons speak of them in their order.
  if (given.contains("device") || out.size() != 1) return out;
  std::vector<Given> by_device;
  by_device.reserve(expect.size());
  for (const auto& item : expect.items()) {
    if (!item.value().is_object()) continue;
    by_device.push_back(out.front());
    by_device.back().device = item.key();
  }
  return by_device.empty() ? out : by_device;
}

LessonCase run_case(const LessonWorld& world, const Json& json, std::string_view where) {
  LessonCase out;
  const auto text = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  out.id = json.is_object() ? text("id") : "";
  if (!json.is_object() || !json.contains("given") || !json["given"].is_object() || !json.contains("expect") ||
      !json["expect"].is_object()) {
    out.misses.emplace_back("a case is an object with id, given and expect");
    return out;
  }
  const Result<std::vector<Given>> variants =
      variants_of(json["given"], json["expect"], fmt::format("{}/given", where));
  if (!variants) {
    out.misses.push_back(variants.error().to_string());
    return out;
  }
  CaseRunner(world, out).run(*variants, json["expect"]);
  return out;
}

}  // namespace

Result<std::vector<LessonCase>> run_lesson_cases(std::string_view json, std::string_view where,
                                                 const ModelFinder& find_model) {
  ULLAGE_TRY(const Json document, parse_json(json, where));
  if (!document.is_object() || !document.contains("cases") || !document["cases"].is_array()) {
    return Error{ErrorCode::kCorrupt, "expected an object with a list of cases", std::string(where)};
  }
  const Json assumptions =
      document.contains("lesson_assumptions") ? document["lesson_assumptions"] : Json(Json::object());
  ULLAGE_TRY(const LessonWorld world, read_world(assumptions, fmt::format("{}/lesson_assumptions", where), find_model));
  std::vector<LessonCase> out;
  out.reserve(document["cases"].size());
  for (size_t i = 0; i < document["cases"].size(); ++i) {
    out.push_back(run_case(world, document["cases"][i], fmt::format("{}/cases/{}", where, i)));
  }
  return out;
}

}  // namespace ullage::observe
