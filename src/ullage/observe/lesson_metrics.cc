#include "ullage/observe/lesson_metrics.h"

#include <charconv>
#include <utility>

#include "ullage/observe/lesson_figures.h"

namespace ullage::observe {

// `context` or `tokens` of one request; the whole request of a scenario.
double tokens_each(const Given& given, const plan::Scenario& scenario) {
  if (given.context > 0) return given.context;
  if (given.tokens > 0) return given.tokens;
  return scenario.prompt_tokens + scenario.output_tokens;
}

Result<void> answer(const LessonWorld& world, const Given& given, Answered& out) {
  ULLAGE_TRY_VOID(make_scenario(world, given, out.owner));
  ULLAGE_TRY(out.evaluation, out.planner.evaluate(out.owner.scenario));
  return {};
}

std::optional<int64_t> number_between(std::string_view key, std::string_view prefix, std::string_view suffix) {
  if (!key.starts_with(prefix) || !key.ends_with(suffix) || key.size() <= prefix.size() + suffix.size()) return {};
  const std::string_view middle = key.substr(prefix.size(), key.size() - prefix.size() - suffix.size());
  int64_t value = 0;
  const auto [end, error] = std::from_chars(middle.data(), middle.data() + middle.size(), value);
  if (error != std::errc() || end != middle.data() + middle.size() || value < 1) return {};
  return value;
}

Result<std::optional<Figure>> figure_of(const LessonWorld& world, const Given& given, std::string_view key) {
  for (const std::span<const NamedFigure> figures : {memory_figures(), time_figures()}) {
    for (const NamedFigure& figure : figures) {
      if (figure.name != key) continue;
      ULLAGE_TRY(Figure value, figure.compute(world, given));
      return std::optional<Figure>(std::move(value));
    }
  }
  // "gib_for_8192_tokens", "gib_for_64_times_8192_tokens".
  if (const auto tokens = number_between(key, "gib_for_", "_tokens")) {
    ULLAGE_TRY(const double gib, gib_of(world, given, static_cast<double>(*tokens)));
    return std::optional<Figure>(gib);
  }
  constexpr std::string_view kTimes = "_times_";
  if (const size_t at = key.find(kTimes); at != std::string_view::npos && key.starts_with("gib_for_")) {
    const auto count = number_between(key.substr(0, at), "gib_for_", "");
    const auto tokens = number_between(key.substr(at), kTimes, "_tokens");
    if (count && tokens) {
      ULLAGE_TRY(const double gib, gib_of(world, given, static_cast<double>(*tokens)));
      return std::optional<Figure>(gib * static_cast<double>(*count));
    }
  }
  return std::optional<Figure>();
}

}  // namespace ullage::observe
