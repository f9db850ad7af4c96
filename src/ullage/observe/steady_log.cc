// Steady-state lines of engines' logs.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "ullage/observe/log_text.h"
#include "ullage/observe/steady_summary.h"

namespace ullage::observe {
namespace {

// A share printed in per cent: 0 to 1.
std::optional<double> share(const std::optional<double>& percent) {
  if (!percent) return std::nullopt;
  return std::clamp(*percent / 100, 0.0, 1.0);
}

// "Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 3 reqs, Swapped: 0 reqs,
// Waiting: 4 reqs, [Preemptions: 5,] GPU KV cache usage: 6.0%, Prefix cache hit rate: 7.0%"
bool read_vllm(std::string_view line, SteadySample& sample) {
  const auto running = number_after(line, "Running:");
  const auto waiting = number_after(line, "Waiting:");
  sample.prompt_tokens_per_second = number_after(line, "Avg prompt throughput:");
  sample.output_tokens_per_second = number_after(line, "Avg generation throughput:");
  if (!sample.output_tokens_per_second || !running) return false;
  sample.running = *running;
  // Deferred requests wait, too; those swapped out to the host are an old engine's preempted ones.
  sample.waiting = waiting.value_or(0) + number_after(line, "Deferred:").value_or(0);
  sample.preemptions = number_after(line, "Preemptions:");
  const auto swapped = number_after(line, "Swapped:");
  if (swapped && *swapped > 0) sample.preemptions = sample.preemptions.value_or(0) + *swapped;
  sample.kv_usage = share(number_after(line, "GPU KV cache usage:"));
  sample.prefix_hit_rate = share(number_after(line, "Prefix cache hit rate:"));
  return true;
}

// "Decode batch. #running-req: 1, #token: 137, token usage: 0.00, cuda graph: True, gen throughput (token/s): 1.06,
// #queue-req: 0"; before 0.4.7 "Decode batch." had no full stop everywhere.
bool read_sglang(std::string_view line, SteadySample& sample) {
  const bool is_decode = contains(line, "Decode batch");
  if (!is_decode && !contains(line, "Prefill batch")) return false;
  const auto running = number_after(line, "#running-req:");
  if (!running) return false;
  sample.running = *running;
  sample.waiting = number_after(line, "#queue-req:").value_or(0);
  auto usage = number_after(line, "token usage:");
  // Models with windows or states print the fullest of their pools as "full token usage".
  for (const char* other : {"full token usage:", "swa token usage:", "mamba usage:"}) {
    const auto found = number_after(line, other);
    if (found && (!usage || *found > *usage)) usage = found;
  }
  if (usage) sample.kv_usage = std::clamp(*usage, 0.0, 1.0);
  if (is_decode) {
    sample.output_tokens_per_second = number_after(line, "gen throughput (token/s):");
    sample.preemptions = number_after(line, "#retracted-req:");
  } else {
    const auto new_tokens = number_after(line, "#new-token:");
    const auto cached = number_after(line, "#cached-token:");
    if (new_tokens && cached && *new_tokens + *cached > 0) {
      sample.prefix_hit_rate = *cached / (*new_tokens + *cached);
    }
    sample.prompt_tokens_per_second = number_after(line, "input throughput (token/s):");
  }
  return true;
}

// llama-server tells of single requests: starts, ends and their times. A slot is busy between the two.
struct LlamaSlots {
  double busy = 0;
  bool read(std::string_view line, SteadySample& sample);
};

bool LlamaSlots::read(std::string_view line, SteadySample& sample) {
  if (contains(line, "processing task") && contains(line, "launch_slot_")) {
    busy += 1;
  } else if (contains(line, "all slots are idle")) {
    busy = 0;
  } else if (contains(line, "stop processing") && contains(line, "release")) {
    busy = std::max(0.0, busy - 1);
  } else if (contains(line, "eval time =") && contains(line, "tokens per second")) {
    const size_t comma = line.rfind(',');
    const auto speed = comma == std::string_view::npos ? std::nullopt : number_after(line.substr(comma), ",");
    if (!speed) return false;
    (contains(line, "prompt eval") ? sample.prompt_tokens_per_second : sample.output_tokens_per_second) = speed;
  } else if (contains(line, "failed to find free space in the KV cache") ||
             contains(line, "failed to find a memory slot")) {
    sample.kv_usage = 1.0;
  } else {
    return false;
  }
  sample.running = busy;
  return true;
}

}  // namespace

Result<SteadyState> read_steady_log(std::string_view text, std::string_view where) {
  const std::string plain = plain_text(text);
  std::array<SteadyState, 3> states;
  states[0].engine = memory::Engine::kVllm;
  states[1].engine = memory::Engine::kSglang;
  states[2].engine = memory::Engine::kLlamaCpp;
  LlamaSlots slots;
  const int64_t num_lines = for_each_line(plain, [&](std::string_view line, int64_t number) {
    std::array<SteadySample, 3> samples;
    const std::array<bool, 3> found{read_vllm(line, samples[0]), read_sglang(line, samples[1]),
                                    slots.read(line, samples[2])};
    for (size_t i = 0; i < states.size(); ++i) {
      if (!found[i]) continue;
      samples[i].line = number;
      states[i].samples.push_back(samples[i]);
    }
  });
  SteadyState* best = &states[0];
  for (SteadyState& state : states) {
    if (state.samples.size() > best->samples.size()) best = &state;
  }
  if (best->samples.empty()) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("none of {} lines tells how an engine is doing: looked for vLLM's \"Avg generation "
                             "throughput\", SGLang's \"Decode batch\" and llama-server's \"eval time\"; give the log "
                             "while requests run, or a scrape of /metrics",
                             num_lines),
                 std::string(where)};
  }
  summarise(*best);
  return std::move(*best);
}

}  // namespace ullage::observe
