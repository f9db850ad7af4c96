// A plan's command line as words: what `ullage plan` takes, or a pasted server's line.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/api/levers.h"
#include "ullage/base/result.h"

namespace ullage::api {

struct PlanWords {
  std::string model;  // empty when none is named
  LeverSettings levers;
  std::vector<std::string> notes;
};

// True when the words start a server that serve_line.h knows.
bool is_serve_line(std::span<const std::string> words);
// MODEL and levers' flags (`Qwen/Qwen3-8B --device h100 --kv fp8`), or a server's line. `where` begins errors' places.
Result<PlanWords> parse_plan_words(std::span<const std::string> words, std::string_view where);
Result<PlanWords> parse_plan_line(std::string_view line, std::string_view where);

}  // namespace ullage::api
