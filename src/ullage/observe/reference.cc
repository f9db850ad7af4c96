#include "ullage/observe/reference.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ullage/observe/lesson_cases.h"
#include "ullage/observe/reference_rows.h"
#include "ullage/observe/reference_tables.h"

namespace ullage::observe {
namespace {

SetResult missing(std::string name) {
  SetResult set;
  set.name = std::move(name);
  set.is_missing = true;
  return set;
}

SetResult vllm_plan(const ReferenceFiles& files, int64_t max_misses) {
  const std::string path = "vllm/plan.jsonl";
  const Result<std::string> text = files.read(path);
  if (!text) return missing("vllm/plan");
  return check_vllm_plan(*text, path, max_misses);
}

SetResult lesson_cases(const ReferenceFiles& files, int64_t max_misses) {
  const std::string path = "lesson-cases.json";
  const Result<std::string> text = files.read(path);
  if (!text) return missing("lesson-cases");
  SetWriter set("lesson-cases", max_misses);
  const Result<std::vector<LessonCase>> cases = run_lesson_cases(*text, path);
  if (!cases) {
    set.miss(cases.error().to_string());
    return set.result;
  }
  for (const LessonCase& one : *cases) {
    if (one.passed()) {
      set.pass();
    } else {
      set.miss(fmt::format("{}: {}", one.id, fmt::join(one.misses, "; ")));
    }
  }
  return set.result;
}

}  // namespace

bool ReferenceReport::has_miss() const {
  return std::any_of(sets.begin(), sets.end(),
                     [](const SetResult& set) { return set.is_exact && !set.is_missing && set.passed < set.total; });
}

Result<ReferenceReport> run_reference(const ReferenceFiles& files, int64_t max_misses) {
  ULLAGE_TRY(ReferenceModels models, ReferenceModels::read(files));
  ReferenceReport report;
  report.sets.push_back(lesson_cases(files, max_misses));
  report.sets.push_back(vllm_plan(files, max_misses));
  report.sets.push_back(check_configs(files, max_misses));
  report.sets.push_back(check_startups(files, models, max_misses));
  report.sets.push_back(check_bootlogs(files, models, max_misses));
  report.sets.push_back(silicon_table(files, models));
  report.sets.push_back(splitwise_table(files));
  if (std::all_of(report.sets.begin(), report.sets.end(), [](const SetResult& set) { return set.is_missing; })) {
    return Error{
        ErrorCode::kNotFound,
        "no set of reference data was found; looked for lesson-cases.json, vllm/plan.jsonl, configs/, startups/, "
        "bootlogs/, silicon/ and splitwise/",
        "--reference"};
  }
  return report;
}

std::string format_report(const ReferenceReport& report) {
  std::string text;
  for (const SetResult& set : report.sets) {
    if (set.is_missing) {
      text += fmt::format("{}: not there\n", set.name);
      continue;
    }
    if (set.is_exact) text += fmt::format("{}: {}/{}\n", set.name, set.passed, set.total);
    for (const std::string& miss : set.misses) text += fmt::format("  {}\n", miss);
  }
  bool has_head = false;
  for (const SetResult& set : report.sets) {
    for (const ErrorRow& row : set.table) {
      if (!has_head) {
        text += fmt::format("\n{:<52} {:>10} {:>6} {:>9} {:>9} {:>9}\n", "errors", "tier", "rows", "median", "p90",
                            "worst");
        has_head = true;
      }
      text += fmt::format("{:<52} {:>10} {:>6} {:>8.2f}% {:>8.2f}% {:>8.2f}%\n", set.name + ": " + row.name, row.tier,
                          row.num_rows, 100 * row.median, 100 * row.p90, 100 * row.worst);
    }
  }
  return text;
}

}  // namespace ullage::observe
