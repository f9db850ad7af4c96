// The figures that lessons state, by their keys. Internal to observe/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/observe/lesson_given.h"

namespace ullage::observe {

using Figure = std::variant<double, bool, std::string>;

// The figure called `key` of one variant; none when no figure of one variant is called so.
Result<std::optional<Figure>> figure_of(const LessonWorld& world, const Given& given, std::string_view key);

// A figure that compares variants, or a variant with itself changed ("resident_times_bf16", "throughput_ratio"); none
// when none is called so.
Result<std::optional<double>> comparison_of(const LessonWorld& world, const std::vector<Given>& variants,
                                            std::string_view key);

// Figures that are lists by themselves, whatever the variants: "bf16_tokens" over the batches.
Result<std::optional<std::vector<double>>> list_of(const LessonWorld& world, const std::vector<Given>& variants,
                                                   std::string_view key);

// "8192" of "gib_for_8192_tokens" with prefix "gib_for_" and suffix "_tokens"; none where the middle is no number.
std::optional<int64_t> number_between(std::string_view key, std::string_view prefix, std::string_view suffix);

}  // namespace ullage::observe
