// What binds a serving engine, as its log or its metrics show, and the one knob to turn.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ullage/observe/startup_log.h"
#include "ullage/observe/steady_state.h"
#include "ullage/plan/evaluate.h"
#include "ullage/plan/scenario.h"

namespace ullage::observe {

enum class Binding : uint8_t {
  kIdle,         // clients send no more
  kPoolFull,     // the pool is full and requests queue
  kPreemptions,  // requests are thrown out and computed again
  kMaxNumSeqs,   // the setting stops what the pool could hold
  kCompute,      // arithmetic: prompts queue while the pool has room
  kBandwidth,    // decode steps wait for memory, no queue
  kUnknown,
};
const char* binding_name(Binding binding);  // "idle", "pool full", "preemptions", ...

struct Finding {
  Binding binding = Binding::kUnknown;
  std::string evidence;  // the numbers seen
  std::string meaning;
  std::string knob;   // the one thing to change, with its value where that is known
  std::string gives;  // what plan says it would give; empty without a scenario
};

struct Diagnosis {
  Binding binding = Binding::kUnknown;  // of the first finding
  std::vector<Finding> findings;        // the binding one first
  std::string duty;                     // what DCGM's gauges confirm or deny; empty without them
  std::string caveat;                   // why nvidia-smi's utilisation cannot tell
};

// What is known beside the observation. Any may be missing.
struct DiagnosisContext {
  const StartupLog* startup = nullptr;
  const plan::Scenario* scenario = nullptr;  // for `gives`, and for max_num_seqs when nothing else tells
  plan::Planner* planner = nullptr;          // with a scenario
};
Diagnosis diagnose(const SteadyState& state, const DiagnosisContext& context = {});

}  // namespace ullage::observe
