#include "ullage/observe/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace ullage::observe {
namespace {

// Above this share of the pool a queue waits for memory; below it for something else.
constexpr double kFull = 0.90;
constexpr double kRoom = 0.80;
// Of a peak: the share of time at which a unit is what a step waits for.
constexpr double kBusy = 0.60;

struct Seen {
  const SteadyState& state;
  const DiagnosisContext& context;

  double usage() const { return state.kv_usage.value_or(0); }
  bool has_queue() const { return state.waiting >= 0.5; }

  // The setting that caps the batch, where it is known.
  int64_t max_num_seqs() const {
    const StartupLog* log = context.startup;
    if (log != nullptr && log->max_num_seqs) return log->max_num_seqs->value;
    if (log != nullptr && log->num_slots) return log->num_slots->value;
    return context.scenario != nullptr ? context.scenario->max_num_seqs : 0;
  }

  std::string numbers() const {
    std::string text = fmt::format("{:.0f} running, {:.0f} waiting", state.running, state.waiting);
    if (state.kv_usage) text += fmt::format(", {:.0f} % of the pool in use", 100 * *state.kv_usage);
    if (state.preemptions && *state.preemptions > 0) text += fmt::format(", {:.0f} preemptions", *state.preemptions);
    return text;
  }
};

// The scenario with requests as long as those that are running: what the pool holds in use over their number, which a
// request keeps on the mean, half-way through its output. Sets `tokens` to their length; 0 when it cannot be told.
plan::Scenario as_seen(const Seen& seen, double* tokens) {
  plan::Scenario scenario = *seen.context.scenario;
  *tokens = 0;
  if (seen.state.running < 1 || seen.usage() < 0.05) return scenario;
  const auto plan = seen.context.planner->evaluate(scenario);
  if (!plan) return scenario;
  const double kept = static_cast<double>(plan->capacity.usable_tokens) * seen.usage() / seen.state.running;
  const double prompt = std::max(1.0, std::round(kept - scenario.output_tokens / 2));
  if (prompt + scenario.output_tokens > static_cast<double>(plan->settings.max_model_len)) return scenario;
  scenario.prompt_tokens = prompt;
  scenario.p95_prompt_tokens = 0;
  scenario.p95_output_tokens = 0;
  scenario.shared_prefix_tokens = std::min(scenario.shared_prefix_tokens, prompt);
  const double in_flight = seen.state.running + seen.state.waiting;
  scenario.concurrency = std::clamp<int64_t>(std::llround(in_flight), 1, 1 << 20);
  *tokens = prompt + scenario.output_tokens;
  return scenario;
}

// What plan says of a change: requests at once and tokens a second, before and after.
template <class Change>
std::string planned(const Seen& seen, Change change) {
  if (seen.context.scenario == nullptr || seen.context.planner == nullptr) return "";
  double tokens = 0;
  const plan::Scenario scenario = as_seen(seen, &tokens);
  plan::Scenario changed = scenario;
  change(changed);
  const auto before = seen.context.planner->evaluate(scenario);
  if (!before) return "";
  const int64_t requests = before->running;
  const double speed = before->timing.output_tokens_per_second;
  const auto after = seen.context.planner->evaluate(changed);
  if (!after) return "plan refuses it: " + after.error().to_string();
  return fmt::format("by plan{}, {} requests run instead of {}, {:.0f} output tokens/s instead of {:.0f}",
                     tokens > 0 ? fmt::format(", with requests of {:.0f} tokens as these seem to be", tokens) : "",
                     after->running, requests, after->timing.output_tokens_per_second, speed);
}

bool has_wide_kv(const Seen& seen) {
  const plan::Scenario* scenario = seen.context.scenario;
  if (scenario != nullptr && scenario->kv_dtype) {
    return *scenario->kv_dtype == model::KvDType::kBF16 || *scenario->kv_dtype == model::KvDType::kF16 ||
           *scenario->kv_dtype == model::KvDType::kF32;
  }
  const StartupLog* log = seen.context.startup;
  return log == nullptr || !log->kv_dtype || log->kv_dtype->value.find("fp8") == std::string::npos;
}

Finding pool_full(const Seen& seen) {
  Finding found;
  found.binding = Binding::kPoolFull;
  found.evidence = seen.numbers();
  found.meaning =
      "the KV pool is full and requests wait for it: memory, not arithmetic, keeps the batch from growing. The "
      "processors may have time to spare";
  if (has_wide_kv(seen)) {
    found.knob = "--kv-cache-dtype fp8: the same pool holds about twice the tokens";
    found.gives = planned(seen, [](plan::Scenario& scenario) { scenario.kv_dtype = model::KvDType::kFP8E4M3; });
  } else {
    found.knob = "a larger pool: raise --gpu-memory-utilization by what is idle, or add a device (tensor parallelism)";
    found.gives = planned(seen, [](plan::Scenario& scenario) { scenario.parallelism.tensor *= 2; });
  }
  return found;
}

Finding preemptions(const Seen& seen) {
  Finding found;
  found.binding = Binding::kPreemptions;
  found.evidence = seen.numbers();
  found.meaning =
      "requests are thrown out of the full pool and their tokens computed again: work is paid for twice, and their "
      "users see a gap. The engine admits more than the pool can carry to the end";
  const int64_t holds =
      seen.usage() > 0 ? static_cast<int64_t>(seen.state.running * kFull / std::max(seen.usage(), 0.01)) : 0;
  const int64_t seqs = std::max<int64_t>(1, std::min<int64_t>(holds, static_cast<int64_t>(seen.state.running) - 1));
  found.knob = fmt::format(
      "--max-num-seqs {}: what the pool carries of requests like these; the others wait before they "
      "cost anything",
      seqs);
  found.gives = planned(seen, [&](plan::Scenario& scenario) { scenario.max_num_seqs = seqs; });
  return found;
}

Finding seqs_bound(const Seen& seen, int64_t max_num_seqs) {
  Finding found;
  found.binding = Binding::kMaxNumSeqs;
  found.evidence = fmt::format("{}; max_num_seqs is {}", seen.numbers(), max_num_seqs);
  found.meaning =
      "the batch is at max_num_seqs while the pool has room: a setting, not the hardware, makes requests wait";
  const double holds = seen.usage() > 0.01 ? static_cast<double>(max_num_seqs) * kFull / seen.usage()
                                           : 2.0 * static_cast<double>(max_num_seqs);
  const auto seqs = static_cast<int64_t>(std::clamp(holds, 1.0, 65536.0));
  found.knob = fmt::format("--max-num-seqs {}: what the pool holds of requests like these", seqs);
  found.gives = planned(seen, [&](plan::Scenario& scenario) { scenario.max_num_seqs = seqs; });
  return found;
}

Finding compute_bound(const Seen& seen) {
  Finding found;
  found.binding = Binding::kCompute;
  found.evidence = seen.numbers();
  if (seen.state.tensor_active) {
    found.evidence += fmt::format(", tensor units active {:.0f} % of the time", 100 * *seen.state.tensor_active);
  }
  if (seen.state.prompt_tokens_per_second) {
    found.evidence += fmt::format(", {:.0f} prompt tokens/s", *seen.state.prompt_tokens_per_second);
  }
  found.meaning =
      "requests wait although the pool has room and the batch is not at its cap: prompts arrive faster than they can "
      "be "
      "computed, a step is as long as its arithmetic";
  const auto hits = seen.state.prefix_hit_rate;
  if (hits && *hits < 0.2) {
    found.knob =
        "share prompts' beginnings (system prompt first, --enable-prefix-caching): hits cost no arithmetic; or "
        "add a replica";
  } else {
    found.knob =
        "another replica (--data-parallel-size): memory settings will not help; --max-num-batched-tokens only "
        "trades first-token time for gaps between tokens";
  }
  found.gives = planned(seen, [](plan::Scenario& scenario) { scenario.parallelism.data *= 2; });
  return found;
}

Finding bandwidth_bound(const Seen& seen) {
  Finding found;
  found.binding = Binding::kBandwidth;
  found.evidence =
      fmt::format("{}, DRAM active {:.0f} % of the time", seen.numbers(), 100 * seen.state.dram_active.value_or(0));
  found.meaning =
      "steps wait for weights and keys to come from memory, and nobody queues: more requests at once would ride along "
      "nearly free, a single one cannot be faster";
  found.knob = "fewer bytes a step: --quantization fp8 for weights, or --kv-cache-dtype fp8 when contexts are long";
  found.gives = planned(seen, [](plan::Scenario& scenario) { scenario.weights = plan::WeightPrecision::kFP8; });
  return found;
}

Finding idle(const Seen& seen) {
  Finding found;
  found.binding = Binding::kIdle;
  found.evidence = seen.numbers();
  found.meaning = "nobody waits and the pool has room: the engine could take more than clients send";
  found.knob = "nothing on the engine; send more, or serve this load from a smaller or shared device";
  return found;
}

Finding unknown(const Seen& seen) {
  Finding found;
  found.binding = Binding::kUnknown;
  found.evidence = seen.numbers();
  found.meaning = "requests wait, and what is known does not say for what";
  found.knob = "give the start-up log too (its max_num_seqs), or a scrape that has kv_cache_usage and DCGM's gauges";
  return found;
}

// What the profiling gauges say of the binding that was found.
std::string duty_of(const SteadyState& state, Binding binding) {
  if (!state.dram_active && !state.tensor_active) return "";
  const double dram = state.dram_active.value_or(0);
  const double tensor = state.tensor_active.value_or(0);
  std::string text = fmt::format("DRAM active {:.0f} %, tensor units active {:.0f} %", 100 * dram, 100 * tensor);
  if (dram >= kBusy && tensor < kBusy) {
    text += ": steps wait for memory bandwidth";
    text += binding == Binding::kCompute ? ", which speaks against arithmetic as the bound"
                                         : "; the arithmetic units have time for more requests in each step";
  } else if (tensor >= kBusy) {
    text += ": arithmetic is what takes the time";
    text += binding == Binding::kPoolFull ? "; a larger pool would add little" : "";
  } else {
    text += ": neither is at its peak, so the device waits for work, for the host, or for its peers";
  }
  return text;
}

}  // namespace

const char* binding_name(Binding binding) {
  switch (binding) {
    case Binding::kIdle:
      return "idle";
    case Binding::kPoolFull:
      return "pool full";
    case Binding::kPreemptions:
      return "preemptions";
    case Binding::kMaxNumSeqs:
      return "max_num_seqs";
    case Binding::kCompute:
      return "compute";
    case Binding::kBandwidth:
      return "bandwidth";
    case Binding::kUnknown:
      return "unknown";
  }
  return "unknown";
}

Diagnosis diagnose(const SteadyState& state, const DiagnosisContext& context) {
  const Seen seen{state, context};
  Diagnosis diagnosis;
  std::vector<Finding>& findings = diagnosis.findings;
  const int64_t seqs = seen.max_num_seqs();
  const bool is_capped = seqs > 0 && state.running >= 0.95 * static_cast<double>(seqs);
  const double fullest = std::max(seen.usage(), state.max_kv_usage.value_or(0));
  if (state.samples.empty()) {
    // DCGM's gauges alone.
    Finding found = state.tensor_active.value_or(0) >= kBusy ? compute_bound(seen)
                    : state.dram_active.value_or(0) >= kBusy ? bandwidth_bound(seen)
                                                             : unknown(seen);
    found.meaning = "of the engine nothing is known; " + found.meaning;
    findings.push_back(std::move(found));
  } else {
    if (state.preemptions.value_or(0) > 0) findings.push_back(preemptions(seen));
    if (seen.has_queue()) {
      if (state.kv_usage && (seen.usage() >= kFull || (fullest >= 0.97 && seen.usage() >= kRoom))) {
        findings.push_back(pool_full(seen));
      } else if (is_capped && (!state.kv_usage || seen.usage() < kFull)) {
        findings.push_back(seqs_bound(seen, seqs));
      } else if (state.kv_usage && seen.usage() < kFull && (seqs > 0 || state.tensor_active.value_or(0) >= kBusy)) {
        findings.push_back(compute_bound(seen));
      } else {
        findings.push_back(unknown(seen));
      }
    } else if (findings.empty()) {
      findings.push_back(state.dram_active.value_or(0) >= kBusy ? bandwidth_bound(seen) : idle(seen));
    }
  }
  diagnosis.binding = findings.front().binding;
  diagnosis.duty = duty_of(state, diagnosis.binding);
  diagnosis.caveat = fmt::format(
      "nvidia-smi's utilisation{} is the share of time in which any kernel ran: a decode step that waits for "
      "memory shows 100 % like one that computes; only the profiling gauges (DRAM active, tensor active) "
      "tell them apart",
      state.gpu_utilization ? fmt::format(" ({:.0f} % here)", 100 * *state.gpu_utilization) : "");
  return diagnosis;
}

}  // namespace ullage::observe
