// A checkpoint's way to say which modules it means: by name, with wildcards, or by a regular expression.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/result.h"

namespace ullage::model {

struct ModulePattern {
  enum class Kind : uint8_t {
    kName,   // a whole name, or the last or first parts of one: "lm_head", "gate", "model.vision_tower"
    kGlob,   // "*" stands for any characters: modelopt's "model.layers.0.self_attn*"
    kRegex,  // compressed-tensors' "re:.*self_attn.*": matches from the name's beginning
  };
  Kind kind = Kind::kName;
  std::string text;    // without "re:"
  int64_t layer = -1;  // that the text names ("...layers.12..."): others cannot match; -1 = any
  friend bool operator==(const ModulePattern&, const ModulePattern&) = default;
};

// "re:" begins a regular expression; a star makes it a glob. kUnsupported for a regular expression with more than
// groups, alternatives, looks ahead, classes, escapes and the repeats * + ?.
Result<ModulePattern> parse_module_pattern(std::string_view text, std::string_view where);

// Whether the pattern means the module `name` ("model.layers.3.mlp.gate_proj"). Costs time in proportion to the
// product of both lengths for names and globs; a regular expression gives up (no match) after a fixed number of steps.
bool matches(const ModulePattern& pattern, std::string_view name);

}  // namespace ullage::model
