// The values of levers: numbers with their units, read strictly.
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "ullage/api/levers.h"
#include "ullage/api/plan_input.h"
#include "ullage/base/ascii.h"
#include "ullage/base/quote.h"
#include "ullage/base/units.h"

namespace ullage::api {
namespace {

struct Unit {
  std::string_view name;
  double factor = 1;
};

constexpr Unit kDurations[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}};
constexpr std::string_view kFlopsDtypes[] = {"fp32", "bf16", "fp16", "fp8", "int8", "fp4"};

Error bad_value(std::string message, std::string_view where) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), std::string(where)};
}

// "12.5e9ms" -> 12.5e9 and "ms". Plain decimal digits, since what a shell passes on may be anything.
struct Measure {
  double number = 0;
  std::string_view unit;
};

// Digits with at most one point, and an exponent of at most three digits. Exact for what people type: a decimal of up
// to 15 digits times a power of ten within 1e22 is rounded once.
bool read_measure(std::string_view text, Measure* measure) {
  size_t i = 0;
  double mantissa = 0;
  int scale = 0;
  int num_digits = 0;
  bool has_point = false;
  for (; i < text.size(); ++i) {
    if (text[i] == '.' && !has_point) {
      has_point = true;
      continue;
    }
    if (!is_digit(text[i])) break;
    if (++num_digits > 18) return false;
    mantissa = mantissa * 10 + (text[i] - '0');
    if (has_point) --scale;
  }
  if (num_digits == 0) return false;
  if (i + 1 < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    size_t j = i + 1;
    const bool is_negative = text[j] == '-';
    if (text[j] == '-' || text[j] == '+') ++j;
    int exponent = 0;
    const size_t first = j;
    for (; j < text.size() && is_digit(text[j]) && j < first + 3; ++j) exponent = exponent * 10 + (text[j] - '0');
    if (j > first) {
      scale += is_negative ? -exponent : exponent;
      i = j;
    }
  }
  if (scale < -40 || scale > 40) return false;
  double power = 1;
  for (int n = scale < 0 ? -scale : scale; n > 0; --n) power *= 10;
  measure->number = scale < 0 ? mantissa / power : mantissa * power;
  while (i < text.size() && text[i] == ' ') ++i;
  measure->unit = text.substr(i);
  return true;
}

// Units are matched as written; another case is accepted where no other unit has it.
template <size_t n>
const Unit* find_unit(const Unit (&units)[n], std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) return &unit;
  }
  for (const Unit& unit : units) {
    if (equals_ignoring_case(unit.name, name)) return &unit;
  }
  return nullptr;
}

template <size_t n>
Result<double> parse_measure(const Unit (&units)[n], std::string_view text, std::string_view where,
                             std::string_view what, std::string_view example) {
  Measure measure;
  if (!read_measure(text, &measure)) {
    return bad_value(fmt::format("is {}; give {} such as {}", quote(text), what, example), where);
  }
  const Unit* unit = find_unit(units, measure.unit);
  if (unit == nullptr) {
    std::string names;
    for (const Unit& known : units) names += (names.empty() ? "" : ", ") + std::string(known.name);
    return bad_value(
        measure.unit.empty()
            ? fmt::format("is {}, without a unit; give {} such as {}", quote(text), what, example)
            : fmt::format("is {}: {} is not a unit of {}; units are {}", quote(text), quote(measure.unit), what, names),
        where);
  }
  return measure.number * unit->factor;
}

// 0.9, or 90%. A size is told apart: it is what the flag for the pool's bytes takes.
Result<double> parse_ratio(const Lever& lever, std::string_view text, std::string_view where) {
  Measure measure;
  if (!read_measure(text, &measure) || !(measure.unit.empty() || measure.unit == "%")) {
    const Result<Bytes> size = parse_bytes(text, where);
    if (size && lever.key == "gpu_memory_utilization") {
      return bad_value(fmt::format("is {}, a size of {} bytes ({}); it takes a share of the device's memory, such as "
                                   "0.9. For a pool of that size give --kv-memory {}",
                                   quote(text), format_thousands(size->value), format_bytes(*size), text),
                       where);
    }
    return bad_value(fmt::format("is {}; give a share such as 0.9 or 90%", quote(text)), where);
  }
  return measure.unit == "%" ? measure.number / 100 : measure.number;
}

Result<double> parse_money(std::string_view text, std::string_view where) {
  std::string_view digits = text;
  if (digits.starts_with("$")) digits.remove_prefix(1);
  Measure measure;
  const bool is_read = read_measure(digits, &measure);
  const std::string_view unit = measure.unit;
  if (!is_read || !(unit.empty() || unit == "/h" || unit == "/hr" || unit == "/hour" || unit == "$/h" || unit == "$")) {
    return bad_value(fmt::format("is {}; give US dollars an hour of one device, such as 2.50", quote(text)), where);
  }
  return measure.number;
}

struct FlopsPart {
  std::string_view dtype;  // empty: none was named
  double value = 0;
};

// One of "989T", "fp8=1979T".
Result<FlopsPart> parse_flops_part(std::string_view text, std::string_view where) {
  FlopsPart part;
  const size_t equals = text.find('=');
  if (equals != std::string_view::npos) {
    part.dtype = text.substr(0, equals);
    text = text.substr(equals + 1);
    bool is_known = false;
    for (const std::string_view known : kFlopsDtypes) is_known = is_known || known == part.dtype;
    if (!is_known) {
      return bad_value(fmt::format("names {}; dtypes are fp32, bf16, fp16, fp8, int8, fp4", quote(part.dtype)), where);
    }
  }
  Measure measure;
  if (read_measure(text, &measure) && measure.unit.empty()) {
    if (measure.number < 1e9) {
      return bad_value(fmt::format("is {} FLOP/s; give a unit, such as {}T for TFLOP/s", text, text), where);
    }
    part.value = measure.number;
    return part;
  }
  ULLAGE_TRY(part.value, ullage::parse_flops(text, where));
  return part;
}

// The first number, for its range; apply_flops has them all.
Result<double> first_flops(std::string_view text, std::string_view where) {
  hardware::FlopsPerSecond ignored;
  ULLAGE_TRY_VOID(apply_flops(text, &ignored, where));
  ULLAGE_TRY(const FlopsPart first, parse_flops_part(text.substr(0, text.find(',')), where));
  return first.value;
}

Result<double> parse_number(std::string_view text, std::string_view where) {
  Measure measure;
  if (!read_measure(text, &measure) || !measure.unit.empty()) {
    return bad_value(fmt::format("is {}; give a number such as 2.5", quote(text)), where);
  }
  return measure.number;
}

Result<bool> parse_flag(std::string_view text, std::string_view where) {
  if (text.empty() || text == "true" || text == "1" || text == "on" || text == "yes") return true;
  if (text == "false" || text == "0" || text == "off" || text == "no") return false;
  return bad_value(fmt::format("is {}; give true or false", quote(text)), where);
}

std::string range_text(const Lever& lever, double bound) {
  if (lever.kind == LeverKind::kBytes) return format_bytes(Bytes(static_cast<int64_t>(bound)));
  if (lever.kind == LeverKind::kCount) return format_thousands(static_cast<int64_t>(bound));
  return fmt::format("{:g}", bound);
}

Result<void> check_range(const Lever& lever, double number, std::string_view text, std::string_view where) {
  if (number >= lever.low && number <= lever.high) return {};
  // "1000000000 bytes" is no help to someone who forgot a unit.
  return bad_value(
      fmt::format("is {}; give {} to {}", text, range_text(lever, lever.low), range_text(lever, lever.high)), where);
}

Error with_value(Error error, std::string_view where) {
  error.where = std::string(where);
  return error;
}

}  // namespace

Result<void> apply_flops(std::string_view text, hardware::FlopsPerSecond* flops, std::string_view where) {
  while (true) {
    const size_t comma = text.find(',');
    ULLAGE_TRY(const FlopsPart part, parse_flops_part(text.substr(0, comma), where));
    if (part.dtype.empty()) {
      const double scale = flops->bf16 > 0 ? part.value / flops->bf16 : 1;
      *flops = {flops->fp32 * scale, part.value, flops->fp8 * scale, flops->int8 * scale, flops->fp4 * scale};
    } else if (part.dtype == "fp32") {
      flops->fp32 = part.value;
    } else if (part.dtype == "fp8") {
      flops->fp8 = part.value;
    } else if (part.dtype == "int8") {
      flops->int8 = part.value;
    } else if (part.dtype == "fp4") {
      flops->fp4 = part.value;
    } else {
      flops->bf16 = part.value;
    }
    if (comma == std::string_view::npos) return {};
    text = text.substr(comma + 1);
  }
}

Result<LeverValue> parse_lever(const Lever& lever, std::string_view text, std::string_view where) {
  LeverValue value;
  value.text = std::string(text);
  const auto number = [&](const Result<double>& parsed) -> Result<LeverValue> {
    if (!parsed) return parsed.error();
    ULLAGE_TRY_VOID(check_range(lever, *parsed, text, where));
    value.number = *parsed;
    return value;
  };
  switch (lever.kind) {
    case LeverKind::kCount: {
      Result<int64_t> count = parse_count(text, where);
      if (!count) return with_value(std::move(count).error(), where);
      value.integer = *count;
      return number(static_cast<double>(*count));
    }
    case LeverKind::kBytes: {
      Result<Bytes> bytes = parse_bytes(text, where);
      if (!bytes) return with_value(std::move(bytes).error(), where);
      value.integer = bytes->value;
      return number(static_cast<double>(bytes->value));
    }
    case LeverKind::kRatio:
      return number(parse_ratio(lever, text, where));
    case LeverKind::kNumber:
      return number(parse_number(text, where));
    case LeverKind::kDuration:
      return number(parse_measure(kDurations, text, where, "a time", "500ms or 2s"));
    case LeverKind::kBandwidth:
      return number(parse_bandwidth(text, where));
    case LeverKind::kFlops:
      return number(first_flops(text, where));
    case LeverKind::kMoney:
      return number(parse_money(text, where));
    case LeverKind::kFlag: {
      ULLAGE_TRY(value.flag, parse_flag(text, where));
      return value;
    }
    case LeverKind::kWord:
      if (text.empty()) return bad_value("is empty; give a word", where);
      return value;
  }
  return value;
}

Result<LeverValue> lever_from_number(const Lever& lever, double number, std::string_view where) {
  LeverValue value;
  value.text = fmt::format("{}", number);
  if (lever.kind == LeverKind::kWord || lever.kind == LeverKind::kFlag) {
    return bad_value(lever.kind == LeverKind::kFlag ? "is a number; give true or false" : "is a number; give a string",
                     where);
  }
  if (!std::isfinite(number)) return bad_value("is not a finite number", where);
  const bool is_whole = lever.kind == LeverKind::kCount || lever.kind == LeverKind::kBytes;
  if (is_whole && (number != std::floor(number) || number < -9e18 || number > 9e18)) {
    return bad_value(fmt::format("is {}; give a whole number", number), where);
  }
  ULLAGE_TRY_VOID(check_range(lever, number, value.text, where));
  value.number = number;
  if (is_whole) value.integer = static_cast<int64_t>(number);
  return value;
}

}  // namespace ullage::api
