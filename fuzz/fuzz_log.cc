// Logs and scrapes of other engines: whatever the text, an answer or an Error, and what was read is within bounds.
#include <cstdlib>
#include <string_view>

#include "ullage/observe/diagnosis.h"
#include "ullage/observe/startup_log.h"
#include "ullage/observe/steady_state.h"

using namespace ullage::observe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto startup = read_startup_log(text, "fuzz.log");
  if (startup) {
    if (startup->num_lines < 1) std::abort();
    if (startup->kv_memory && startup->kv_memory->line > startup->num_lines) std::abort();
  }
  for (const auto& state : {read_steady_log(text, "fuzz.log"), read_metrics(text, "fuzz.prom")}) {
    if (!state) continue;
    if (state->kv_usage && !(*state->kv_usage == *state->kv_usage)) std::abort();  // not a number
    DiagnosisContext context;
    if (startup) context.startup = &*startup;
    if (diagnose(*state, context).findings.empty()) std::abort();
    (void)between(*state, *state, 10);
  }
  return 0;
}
