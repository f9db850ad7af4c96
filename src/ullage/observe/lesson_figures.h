// One variant of a case as the planner answers it, and the tables of figures. Internal to observe/.
#pragma once

#include <span>
#include <string_view>

#include "ullage/observe/lesson_given.h"
#include "ullage/observe/lesson_metrics.h"
#include "ullage/plan/plan.h"

namespace ullage::observe {

inline constexpr auto kBytesPerGiB = static_cast<double>(kGiB);

using FigureFunction = Result<Figure> (*)(const LessonWorld&, const Given&);
struct NamedFigure {
  std::string_view name;
  FigureFunction compute;
};
std::span<const NamedFigure> memory_figures();
std::span<const NamedFigure> time_figures();

// One variant and what the planner says of it.
struct Answered {
  LessonScenario owner;
  plan::Planner planner;
  plan::Evaluation evaluation;
};
Result<void> answer(const LessonWorld& world, const Given& given, Answered& out);

// `context` or `tokens` of one request; the whole request of a scenario.
double tokens_each(const Given& given, const plan::Scenario& scenario);

// What a request of `tokens` keeps, GiB.
Result<double> gib_of(const LessonWorld& world, const Given& given, double tokens);

// A figure of the planner's evaluation.
template <class Read>
Result<Figure> evaluated(const LessonWorld& world, const Given& given, const Read& read) {
  Answered answered;
  ULLAGE_TRY_VOID(answer(world, given, answered));
  return read(answered);
}

inline Figure number(double value) { return value; }
inline Figure number(int64_t value) { return static_cast<double>(value); }

}  // namespace ullage::observe
