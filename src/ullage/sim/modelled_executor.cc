#include "ullage/sim/modelled_executor.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/random.h"

namespace ullage::sim {
namespace {

constexpr uint64_t kEosStream = 0x656f73;  // "eos"

// A flat distribution's: every listed token is as likely as one among a thousand.
constexpr float kModelledLogprob = -6.9077554f;

bool contains(const std::vector<TokenId>& tokens, TokenId token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

bool is_listed(const std::vector<sched::TokenLogprob>& top, TokenId token) {
  return std::any_of(top.begin(), top.end(), [&](const sched::TokenLogprob& entry) { return entry.token == token; });
}

// EOS that a request ignores counts, too: min_tokens and ignore_eos then need no case of their own.
bool is_stop_token(const sched::StopParams& stop, TokenId token) {
  return contains(stop.stop_token_ids, token) || contains(stop.eos_token_ids, token);
}

}  // namespace

Result<std::unique_ptr<ModelledExecutor>> ModelledExecutor::create(const model::ModelShape& shape,
                                                                   const hardware::Device& device,
                                                                   const ModelledOptions& options,
                                                                   const TokenSource& tokens, Clock& clock) {
  if (!(options.speed > 0) || options.speed > 1e9) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("expected a speed above 0 and up to 1e9, found {}", options.speed), "speed"};
  }
  if (!(options.eos_probability >= 0 && options.eos_probability <= 1)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("expected a probability from 0 to 1, found {}", options.eos_probability),
                 "eos_probability"};
  }
  ULLAGE_TRY(const cost::StepCostModel model, cost::make_step_cost_model(shape, device, options.cost));
  std::string kind = options.device_kind.empty() ? device.kind + " (modelled)" : options.device_kind;
  return std::unique_ptr<ModelledExecutor>(new ModelledExecutor(model, options, std::move(kind), tokens, clock));
}

Result<sched::StepResult> ModelledExecutor::execute(const sched::StepPlan& plan) {
  const Nanos start = clock_.now();
  items_.clear();
  sched::StepResult result;
  for (const sched::ScheduledRequest& request : plan.requests) {
    items_.push_back(cost::WorkItem{request.first_position, request.num_tokens, request.is_sampled});
    if (request.is_sampled) result.tokens.push_back(sample(request));
  }
  last_cost_ = cost::step_cost(model_, items_);
  // Not below a nanosecond: time moves with every step.
  result.duration = std::max<Nanos>(1, static_cast<Nanos>(last_cost_.latency_seconds / options_.speed * 1e9));
  clock_.sleep_until(start + result.duration);
  return result;
}

sched::SampledToken ModelledExecutor::sample(const sched::ScheduledRequest& request) const {
  const int64_t output_index = request.first_position + request.num_tokens - request.num_prompt_tokens;
  const sched::SamplingParams& sampling = *request.sampling;
  const sched::StopParams& stop = *request.stop;
  const bool may_stop = output_index >= stop.min_tokens;

  sched::SampledToken out;
  out.id = request.id;
  out.token = tokens_.token(sampling, output_index);
  // A source knows no stop tokens: what it gives must not end a request by chance. The step away is bounded, as a
  // vocabulary of stop tokens only would have no other token to give.
  for (int64_t tries = 1; tries <= 64 && is_stop_token(stop, out.token); ++tries) {
    out.token = tokens_.token(sampling, output_index + tries * 1'000'003);
  }
  if (may_stop && !stop.ignore_eos && !stop.eos_token_ids.empty() && options_.eos_probability > 0 &&
      random_uniform(sampling.seed, kEosStream, static_cast<uint64_t>(output_index)) < options_.eos_probability) {
    out.token = stop.eos_token_ids.front();
  }
  if (sampling.num_logprobs >= 0) {
    out.logprob = kModelledLogprob;
    out.rank = 1;
    // The sampled token first, then others of the source, each once where it has as many.
    out.top.push_back(sched::TokenLogprob{out.token, kModelledLogprob});
    int64_t draw = output_index;
    while (static_cast<int32_t>(out.top.size()) < sampling.num_logprobs) {
      TokenId token = tokens_.token(sampling, ++draw);
      for (int tries = 0; tries < 64 && is_listed(out.top, token); ++tries) token = tokens_.token(sampling, ++draw);
      out.top.push_back(sched::TokenLogprob{token, kModelledLogprob - 0.1f * static_cast<float>(out.top.size())});
    }
    out.top.resize(static_cast<size_t>(sampling.num_logprobs));
  }
  return out;
}

}  // namespace ullage::sim
