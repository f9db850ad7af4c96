#include "ullage/api/sweep.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "ullage/api/plan.h"
#include "ullage/base/json.h"
#include "ullage/base/quote.h"
#include "ullage/base/units.h"

namespace ullage::api {
namespace {

constexpr size_t kMaxValues = 100'000;  // of one axis

constexpr const char* kAnswerColumns[] = {"fit",           "kv_pool_gib",      "num_blocks",   "printed_tokens",
                                          "usable_tokens", "users_fit",        "running",      "limit",
                                          "ttft_ms",       "itl_ms",           "decode_tok_s", "output_tok_s",
                                          "decode_bound",  "usd_per_m_output", "tier",         "error"};

Error bad(std::string message, std::string_view where) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), std::string(where)};
}

bool is_ranged(const Lever& lever) { return lever.kind != LeverKind::kWord && lever.kind != LeverKind::kFlag; }

// A number of the lever's kind as parse_lever reads it again.
std::string value_text(const Lever& lever, double value) {
  switch (lever.kind) {
    case LeverKind::kCount:
    case LeverKind::kBytes:
      return fmt::format("{}", static_cast<int64_t>(value));
    case LeverKind::kDuration:
      return fmt::format("{:.10g}s", value);
    case LeverKind::kBandwidth:
      return fmt::format("{:.10g}B/s", value);
    case LeverKind::kFlops:
      return fmt::format("{:.10g}FLOP/s", value);
    default:
      return fmt::format("{:.10g}", value);
  }
}

// "1k..128k" and "0.8..0.95:0.05".
Result<void> add_range(const Lever& lever, std::string_view text, std::string_view where,
                       std::vector<std::string>* values) {
  const size_t dots = text.find("..");
  const size_t colon = text.find(':', dots);
  const std::string_view last_text = text.substr(dots + 2, colon == std::string_view::npos ? colon : colon - dots - 2);
  ULLAGE_TRY(const LeverValue first, parse_lever(lever, text.substr(0, dots), where));
  ULLAGE_TRY(const LeverValue last, parse_lever(lever, last_text, where));
  double step = 0;
  if (colon != std::string_view::npos) {
    Lever any = lever;  // a step may be smaller than the smallest value
    any.low = 0;
    ULLAGE_TRY(const LeverValue parsed, parse_lever(any, text.substr(colon + 1), where));
    step = parsed.number;
    if (!(step > 0)) return bad(fmt::format("has a range with a step of {}; give more than 0", step), where);
  }
  if (first.number > last.number || (step == 0 && !(first.number > 0))) {
    return bad(
        fmt::format("has the range {}; write from the smaller to the larger, above 0 when doubling", quote(text)),
        where);
  }
  // The end is within reach of rounding.
  for (int64_t i = 0;; ++i) {
    const double value =
        step > 0 ? first.number + static_cast<double>(i) * step : std::ldexp(first.number, static_cast<int>(i));
    if (value > last.number * (1 + 1e-12)) break;
    values->push_back(value_text(lever, value));
    if (values->size() > kMaxValues) return bad(fmt::format("has over {} values", kMaxValues), where);
  }
  const std::string end = value_text(lever, last.number);
  if (values->back() != end) values->push_back(end);
  return {};
}

SweepCell number_cell(std::string text) { return SweepCell{std::move(text), true}; }
SweepCell text_cell(std::string text) { return SweepCell{std::move(text), false}; }
SweepCell number_cell(int64_t value) { return number_cell(fmt::format("{}", value)); }
SweepCell number_cell(double value, int digits) { return number_cell(fmt::format("{:.{}f}", value, digits)); }

void add_answers(const plan::Evaluation& evaluation, std::vector<SweepCell>* row) {
  const plan::Capacity& capacity = evaluation.capacity;
  const plan::Timing& timing = evaluation.timing;
  const bool is_running = evaluation.fit == plan::Fit::kFits && evaluation.time_unknown.empty();
  const auto timed = [&](double value, int digits) { return is_running ? number_cell(value, digits) : SweepCell{}; };
  row->push_back(text_cell(fit_name(evaluation.fit)));
  row->push_back(
      number_cell(static_cast<double>(evaluation.budget.kv_pool.bytes.value) / static_cast<double>(kGiB), 2));
  row->push_back(number_cell(capacity.num_blocks));
  row->push_back(number_cell(capacity.printed_tokens));
  row->push_back(number_cell(capacity.usable_tokens));
  row->push_back(number_cell(capacity.total_expected_requests));
  row->push_back(number_cell(evaluation.running));
  row->push_back(text_cell(plan::limit_name(evaluation.limit)));
  row->push_back(timed(timing.ttft_seconds * 1e3, 2));
  row->push_back(timed(timing.itl_seconds * 1e3, 3));
  row->push_back(timed(timing.decode_tokens_per_second, 1));
  row->push_back(timed(timing.output_tokens_per_second, 1));
  row->push_back(text_cell(is_running ? plan::bound_name(timing.decode.bound) : ""));
  row->push_back(evaluation.money ? number_cell(evaluation.money->per_million_output, 4) : SweepCell{});
  row->push_back(text_cell(plan::tier_name(timing.tier)));
  row->push_back(text_cell(evaluation.time_unknown));
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

Result<SweepAxis> parse_sweep_axis(std::string_view text, std::string_view where) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size()) {
    return bad(fmt::format("is {}; write LEVER=VALUES, such as kv=bf16,fp8 or prompt=1k..128k", quote(text)), where);
  }
  SweepAxis axis;
  const std::string name(text.substr(0, equals));
  axis.lever = name == "model" ? nullptr : find_lever(name);
  if (name != "model" && axis.lever == nullptr) {
    return bad(fmt::format("names {}, which is no lever; any flag of `ullage plan --help` is one", quote(name)), where);
  }
  axis.key = name == "model" ? name : std::string(axis.lever->key);
  std::string_view rest = text.substr(equals + 1);
  while (true) {
    const size_t comma = rest.find(',');
    const std::string_view value = rest.substr(0, comma);
    if (axis.lever != nullptr && is_ranged(*axis.lever) && value.find("..") != std::string_view::npos) {
      ULLAGE_TRY_VOID(add_range(*axis.lever, value, where, &axis.values));
    } else {
      if (axis.lever != nullptr)
        ULLAGE_TRY_VOID(parse_lever(*axis.lever, value, fmt::format("{} {}", where, axis.key)));
      axis.values.emplace_back(value);
    }
    if (comma == std::string_view::npos) return axis;
    rest = rest.substr(comma + 1);
  }
}

Result<Sweep> Sweep::make(PlanInput input, std::vector<SweepAxis> axes, Models models) {
  Sweep sweep;
  for (const SweepAxis& axis : axes) {
    const auto num_values = static_cast<int64_t>(axis.values.size());
    if (num_values == 0 || sweep.num_points_ > kMaxSweepPoints / num_values) {
      return Error{ErrorCode::kTooLarge,
                   fmt::format("has over {} combinations; take fewer values", format_thousands(kMaxSweepPoints)),
                   "--sweep"};
    }
    sweep.num_points_ *= num_values;
  }
  sweep.input_ = std::move(input);
  sweep.axes_ = std::move(axes);
  sweep.models_ = std::move(models);
  return sweep;
}

std::vector<std::string> Sweep::columns() const {
  std::vector<std::string> names;
  names.reserve(axes_.size() + std::size(kAnswerColumns));
  for (const SweepAxis& axis : axes_) names.push_back(axis.key);
  names.insert(names.end(), std::begin(kAnswerColumns), std::end(kAnswerColumns));
  return names;
}

Result<plan::Evaluation> Sweep::evaluate(const std::vector<std::string>& values) {
  for (size_t i = 0; i < axes_.size(); ++i) {
    const SweepAxis& axis = axes_[i];
    if (axis.lever != nullptr) {
      ULLAGE_TRY(LeverValue value, parse_lever(*axis.lever, values[i], main_flag(*axis.lever)));
      input_.levers.set(LeverSetting{axis.lever, std::move(value), main_flag(*axis.lever)});
      continue;
    }
    const auto known = std::find_if(read_models_.begin(), read_models_.end(),
                                    [&](const auto& entry) { return entry.first == values[i]; });
    if (known == read_models_.end()) {
      ULLAGE_TRY(auto model, models_(values[i]));
      read_models_.emplace_back(values[i], std::move(model));
      input_.model = read_models_.back().second;
    } else {
      input_.model = known->second;
    }
  }
  ULLAGE_TRY(const PlanScenario made, make_scenario(input_, shelf_));
  // A model by its numbers is a new object each time, and the planner knows objects by their address.
  if (made.model != kept_model_ && input_.model == nullptr) planner_ = plan::Planner();
  kept_model_ = made.model;
  return planner_.evaluate(made.scenario);
}

std::vector<SweepCell> Sweep::next() {
  std::vector<std::string> values(axes_.size());
  int64_t rest = next_++;
  for (size_t i = axes_.size(); i-- > 0;) {
    const auto num_values = static_cast<int64_t>(axes_[i].values.size());
    values[i] = axes_[i].values[static_cast<size_t>(rest % num_values)];
    rest /= num_values;
  }
  std::vector<SweepCell> row;
  row.reserve(axes_.size() + std::size(kAnswerColumns));
  for (size_t i = 0; i < axes_.size(); ++i) {
    const bool is_plain = axes_[i].lever != nullptr &&
                          (axes_[i].lever->kind == LeverKind::kCount || axes_[i].lever->kind == LeverKind::kNumber);
    const bool is_digits = values[i].find_first_not_of("0123456789.") == std::string::npos;
    row.push_back(SweepCell{values[i], is_plain && is_digits});
  }
  const Result<plan::Evaluation> evaluation = evaluate(values);
  if (evaluation) {
    add_answers(*evaluation, &row);
  } else {
    row.resize(axes_.size() + std::size(kAnswerColumns) - 1);
    row.push_back(text_cell(evaluation.error().to_string()));
  }
  return row;
}

std::string csv_line(std::span<const std::string> cells) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) line += (i > 0 ? "," : "") + csv_field(cells[i]);
  return line + "\n";
}

std::string csv_line(std::span<const SweepCell> cells) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) line += (i > 0 ? "," : "") + csv_field(cells[i].text);
  return line + "\n";
}

std::string json_line(std::span<const std::string> columns, std::span<const SweepCell> cells) {
  std::string line = "{";
  for (size_t i = 0; i < columns.size() && i < cells.size(); ++i) {
    const std::string value = cells[i].is_number      ? cells[i].text
                              : cells[i].text.empty() ? "null"
                                                      : dump_json(Json(cells[i].text));
    line += fmt::format("{}{}: {}", i > 0 ? ", " : "", dump_json(Json(columns[i])), value);
  }
  return line + "}\n";
}

}  // namespace ullage::api
