#include "ullage/observe/steady_summary.h"

#include <algorithm>

#include <fmt/format.h>

namespace ullage::observe {
namespace {

struct Mean {
  double sum = 0;
  double most = 0;
  int64_t count = 0;
  void add(const std::optional<double>& value) {
    if (!value) return;
    sum += *value;
    most = count == 0 ? *value : std::max(most, *value);
    ++count;
  }
  std::optional<double> mean() const {
    return count > 0 ? std::optional<double>(sum / static_cast<double>(count)) : std::nullopt;
  }
};

bool is_busy(const SteadySample& sample) { return sample.running > 0 || sample.waiting > 0; }

// What grew between two totals; none when either is not known or the counter began anew.
std::optional<double> growth(const std::optional<double>& earlier, const std::optional<double>& later) {
  return earlier && later && *later >= *earlier ? std::optional<double>(*later - *earlier) : std::nullopt;
}

}  // namespace

void summarise(SteadyState& state) {
  const bool has_busy = std::any_of(state.samples.begin(), state.samples.end(), is_busy);
  Mean running, waiting, usage, hits, prompt, output, preemptions;
  for (const SteadySample& sample : state.samples) {
    preemptions.add(sample.preemptions);
    if (has_busy && !is_busy(sample)) continue;
    running.add(sample.running);
    waiting.add(sample.waiting);
    usage.add(sample.kv_usage);
    hits.add(sample.prefix_hit_rate);
    prompt.add(sample.prompt_tokens_per_second);
    output.add(sample.output_tokens_per_second);
  }
  state.running = running.mean().value_or(0);
  state.waiting = waiting.mean().value_or(0);
  state.max_running = running.most;
  state.max_waiting = waiting.most;
  state.kv_usage = usage.mean();
  if (usage.count > 0) state.max_kv_usage = usage.most;
  state.prefix_hit_rate = hits.mean();
  state.prompt_tokens_per_second = prompt.mean();
  state.output_tokens_per_second = output.mean();
  if (preemptions.count > 0) state.preemptions = preemptions.sum;
}

Result<SteadyState> between(const SteadyState& earlier, const SteadyState& later, double seconds) {
  if (!(seconds > 0)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("two scrapes {} s apart; a time over 0 was expected", seconds), "scrapes"};
  }
  SteadyState state = later;
  const auto rate = [&](const std::optional<double>& total) {
    return total ? std::optional<double>(*total / seconds) : std::nullopt;
  };
  state.prompt_tokens = growth(earlier.prompt_tokens, later.prompt_tokens);
  state.output_tokens = growth(earlier.output_tokens, later.output_tokens);
  state.requests_finished = growth(earlier.requests_finished, later.requests_finished);
  state.preemptions = growth(earlier.preemptions, later.preemptions);
  if (state.prompt_tokens) state.prompt_tokens_per_second = rate(state.prompt_tokens);
  if (state.output_tokens) state.output_tokens_per_second = rate(state.output_tokens);
  state.samples.insert(state.samples.begin(), earlier.samples.begin(), earlier.samples.end());
  return state;
}

}  // namespace ullage::observe
