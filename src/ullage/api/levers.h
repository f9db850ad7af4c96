// The levers of a plan: everything that can be set, in one table. The command line's flags, the keys of a plan document
// (docs/plan-json.md), the axes of a sweep and pasted server lines are all read through it, so they cannot differ.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/result.h"

namespace ullage::api {

enum class LeverKind : uint8_t {
  kCount,      // "8192", "8k" (8000), "8K" (8192)
  kBytes,      // "30GiB", "30GB" (10^9), "4096"
  kRatio,      // 0.9, or "90%"
  kNumber,     // 1.25
  kDuration,   // "500ms", "2s", "1m", "1h"; JSON numbers are seconds
  kBandwidth,  // "3.35TB/s", "900GB/s"; JSON numbers are bytes/s
  kFlops,      // "989TFLOP/s", or by dtype "bf16=989T,fp8=1979T"; JSON numbers are FLOP/s
  kMoney,      // "2.50", "$2.50/h"
  kWord,       // one of several words; their reader is whoever owns them
  kFlag,       // true or false; no value on the command line
};

struct Lever {
  std::string_view key;    // in documents and sweeps: "max_model_len"
  std::string_view flags;  // on the command line, the usual one first: "--max-model-len,--ctx-size,-c"
  LeverKind kind = LeverKind::kCount;
  double low = 0;  // accepted range, both ends included
  double high = 0;
  std::string_view group;  // of the help text
  std::string_view help;
};

// In the order of the help text.
std::span<const Lever> levers();
// By key or by any flag, with or without dashes before it; '-' and '_' are one. nullptr when there is none.
const Lever* find_lever(std::string_view name);
// The flag that messages name: "--max-model-len".
std::string main_flag(const Lever& lever);

struct LeverValue {
  double number = 0;    // of every numeric kind, also of kCount and kBytes when below 2^53
  int64_t integer = 0;  // kCount, kBytes
  bool flag = false;    // kFlag
  std::string text;     // as it was given; kWord's value
};

// `where`: the flag or JSON pointer that an Error names. What is out of range, of another unit or not a number is
// kInvalidArgument, saying what the lever takes.
Result<LeverValue> parse_lever(const Lever& lever, std::string_view text, std::string_view where);
Result<LeverValue> lever_from_number(const Lever& lever, double number, std::string_view where);

// What was set, in order; a later setting of a lever replaces an earlier one.
struct LeverSetting {
  const Lever* lever = nullptr;
  LeverValue value;
  std::string where;  // "--max-model-len", "/max_model_len": for errors found later
};
class LeverSettings {
 public:
  void set(LeverSetting setting);
  // Keeps what is there already.
  void set_default(LeverSetting setting);
  const LeverSetting* find(std::string_view key) const;
  std::span<const LeverSetting> all() const { return settings_; }

 private:
  std::vector<LeverSetting> settings_;
};

}  // namespace ullage::api
