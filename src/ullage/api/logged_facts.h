// What a start-up log says, as name and value: for answers that have nothing to compare it with.
#pragma once

#include <string>
#include <vector>

#include "ullage/base/json_fwd.h"
#include "ullage/observe/startup_log.h"

namespace ullage::api {

struct LoggedFact {
  std::string name;  // "KV memory"
  std::string text;  // "13.84 GiB"
  std::string note;  // what follows from it; may be empty
};

// In the order of the budget; what the log does not print is left out.
std::vector<LoggedFact> logged_facts(const observe::StartupLog& log);
// {"engine": "vllm", "version": ..., "weights_bytes": ..., "kv_tokens": ..., ...}; keys of what is printed alone.
Json logged_facts_json(const observe::StartupLog& log);

}  // namespace ullage::api
