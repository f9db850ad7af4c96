// Runs the figures of lessons on the KV cache (a file laid out as tests/data/lessons/lesson-cases.json) through the
// planner: each case states what is given and what must come out, to the printed digits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/model/model_shape.h"

namespace ullage::observe {

struct LessonCase {
  std::string id;
  int64_t num_figures = 0;          // that were compared
  std::vector<std::string> misses;  // "pool_gib: expected 55.7, found 55.31"; a key that is not known is one, too
  bool passed() const { return misses.empty() && num_figures > 0; }
};

// For models that the file names but does not describe.
using ModelFinder = std::function<Result<model::ModelShape>(std::string_view name)>;

// kCorrupt when the file is not one of cases; a case that cannot be computed is a miss that says why.
Result<std::vector<LessonCase>> run_lesson_cases(std::string_view json, std::string_view where,
                                                 const ModelFinder& find_model = nullptr);

}  // namespace ullage::observe
