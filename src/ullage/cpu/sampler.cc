#include "ullage/cpu/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ullage/base/random.h"

namespace ullage::cpu {
namespace {

using sched::SampledToken;
using sched::SamplingParams;
using sched::ScheduledRequest;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kGreedyTemperature = 1e-5;  // vLLM's _SAMPLING_EPS
constexpr float kLowestLogprob = -9999.0f;

bool is_greedy(const SamplingParams& p) { return p.temperature < kGreedyTemperature; }

float largest(std::span<const float> values) {
  float best = -kInfinity;
  for (const float v : values) best = v > best ? v : best;
  return best;
}

// exp(values - shift) summed; NaN and what lies far below count nothing.
double sum_exp(const Kernels& kernels, std::span<const float> values, float shift, std::span<float> scratch) {
  kernels.exp_shifted(values.data(), shift, 1.0f, scratch.data(), static_cast<int64_t>(values.size()));
  double sum = 0.0;
  for (const float v : scratch.first(values.size())) sum += v == v ? static_cast<double>(v) : 0.0;
  return sum;
}

// ---- log-probabilities of the raw logits.

struct Logprobs {
  double shift = 0.0;  // logprob = logit - shift
  bool is_finite = true;
};

float logprob_of(float logit, const Logprobs& l) {
  if (!l.is_finite) return kLowestLogprob;
  const double value = static_cast<double>(logit) - l.shift;
  return value >= static_cast<double>(kLowestLogprob) ? static_cast<float>(value) : kLowestLogprob;  // NaN: lowest
}

void report_logprobs(const Kernels& kernels, std::span<const float> logits, int32_t count, std::span<float> scratch,
                     SampledToken* sampled) {
  const float top = largest(logits);
  Logprobs l;
  l.is_finite = std::isfinite(top);
  if (l.is_finite) l.shift = static_cast<double>(top) + std::log(sum_exp(kernels, logits, top, scratch));
  const float chosen = logits[static_cast<size_t>(sampled->token)];
  sampled->logprob = logprob_of(chosen, l);
  sampled->rank =
      static_cast<int32_t>(std::count_if(logits.begin(), logits.end(), [&](float v) { return v >= chosen; }));
  if (sampled->rank == 0) sampled->rank = static_cast<int32_t>(logits.size());  // a NaN is at least nothing
  // The `count` largest by insertion: count is small, and few tokens beat the smallest kept so far.
  const size_t keep = std::min(static_cast<size_t>(std::max(count, 0)), logits.size());
  std::vector<std::pair<float, TokenId>> best;
  best.reserve(keep + 1);
  for (size_t i = 0; i < logits.size() && keep > 0; ++i) {
    const float v = logits[i] == logits[i] ? logits[i] : -kInfinity;
    if (best.size() == keep && !(v > best.back().first)) continue;
    const auto place = std::find_if(best.begin(), best.end(), [&](const auto& b) { return v > b.first; });
    best.insert(place, {v, static_cast<TokenId>(i)});
    if (best.size() > keep) best.pop_back();
  }
  for (const auto& [value, token] : best) sampled->top.push_back({token, logprob_of(value, l)});
}

// ---- what changes logits before the choice.

bool has_penalty(const SamplingParams& p) {
  return p.repetition_penalty != 1.0 || p.presence_penalty != 0.0 || p.frequency_penalty != 0.0;
}
int64_t output_index(const ScheduledRequest& r) { return r.first_position + r.num_tokens - r.num_prompt_tokens; }
bool has_barred(const ScheduledRequest& r) { return r.stop != nullptr && output_index(r) < r.stop->min_tokens; }
bool is_changed(const ScheduledRequest& r) {
  return !r.sampling->logit_bias.empty() || has_penalty(*r.sampling) || has_barred(r);
}

float penalised(float logit, const SamplingParams& p, int32_t output_count) {
  const float repetition = static_cast<float>(p.repetition_penalty);
  logit = logit > 0.0f ? logit / repetition : logit * repetition;
  logit -= static_cast<float>(p.frequency_penalty) * static_cast<float>(output_count);
  return output_count > 0 ? logit - static_cast<float>(p.presence_penalty) : logit;
}

void apply_penalties(const ScheduledRequest& r, std::span<float> logits, std::span<int32_t> counts) {
  const auto known = r.tokens.first(static_cast<size_t>(r.first_position + r.num_tokens));
  const auto num_prompt = static_cast<size_t>(r.num_prompt_tokens);
  const auto is_known = [&](TokenId t) { return t >= 0 && static_cast<size_t>(t) < logits.size(); };
  // counts[t] = 1 + how often t was given as output, for tokens seen at all.
  for (size_t i = 0; i < known.size(); ++i) {
    if (!is_known(known[i])) continue;
    int32_t& count = counts[static_cast<size_t>(known[i])];
    count = std::max(count, 1) + (i >= num_prompt ? 1 : 0);
  }
  for (const TokenId t : known) {
    if (!is_known(t)) continue;
    int32_t& count = counts[static_cast<size_t>(t)];
    if (count == 0) continue;  // done at an earlier occurrence
    float& logit = logits[static_cast<size_t>(t)];
    logit = penalised(logit, *r.sampling, count - 1);
    count = 0;
  }
}

void change_logits(const ScheduledRequest& r, std::span<float> logits, std::span<int32_t> counts) {
  const auto at = [&](TokenId t) -> float* {
    return t >= 0 && static_cast<size_t>(t) < logits.size() ? &logits[static_cast<size_t>(t)] : nullptr;
  };
  for (const auto& [token, bias] : r.sampling->logit_bias) {
    if (float* logit = at(token)) *logit += bias;
  }
  if (has_penalty(*r.sampling)) apply_penalties(r, logits, counts);
  if (!has_barred(r)) return;
  for (const auto* list : {&r.stop->eos_token_ids, &r.stop->stop_token_ids}) {
    for (const TokenId token : *list) {
      if (float* logit = at(token)) *logit = -kInfinity;
    }
  }
}

// ---- the draw.

// weights[i] = exp((logit - largest) / temperature), with the row's odd values made plain.
void weigh(const Kernels& kernels, std::span<const float> logits, double temperature, std::span<float> weights) {
  const float top = largest(logits);
  if (!std::isfinite(top)) {
    for (size_t i = 0; i < logits.size(); ++i) weights[i] = logits[i] == top ? 1.0f : 0.0f;
    return;
  }
  kernels.exp_shifted(logits.data(), top, static_cast<float>(1.0 / temperature), weights.data(),
                      static_cast<int64_t>(logits.size()));
  for (float& w : weights) w = w == w ? w : 0.0f;
}

void keep_min_p(double min_p, std::span<float> weights) {
  // The largest weight is 1, so a weight is the token's probability over the likeliest one's.
  for (float& w : weights) w = static_cast<double>(w) < min_p ? 0.0f : w;
}

void keep_top_k(int64_t k, std::span<float> weights, std::span<float> scratch) {
  if (k <= 0 || k >= static_cast<int64_t>(weights.size())) return;
  std::copy(weights.begin(), weights.end(), scratch.begin());
  const auto kth = scratch.begin() + (k - 1);
  std::nth_element(scratch.begin(), kth, scratch.begin() + static_cast<int64_t>(weights.size()), std::greater<>());
  const float limit = *kth;
  for (float& w : weights) w = w < limit ? 0.0f : w;
}

// Zeroes what lies outside the smallest most-likely-first set whose share reaches p.
void keep_top_p(double p, std::span<float> weights, std::span<int32_t> ids) {
  double total = 0.0;
  size_t num_candidates = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    total += static_cast<double>(weights[i]);
    if (weights[i] > 0.0f) ids[num_candidates++] = static_cast<int32_t>(i);
  }
  const auto is_before = [&](int32_t a, int32_t b) {
    const float wa = weights[static_cast<size_t>(a)];
    const float wb = weights[static_cast<size_t>(b)];
    return wa != wb ? wa > wb : a < b;
  };
  // Sort only as far as needed: the likeliest few hundred usually reach p.
  double sum = 0.0;
  size_t num_kept = 0;
  size_t num_sorted = 0;
  for (size_t step = 256; num_kept == num_sorted && num_sorted < num_candidates && sum < p * total; step *= 8) {
    const size_t end = std::min(num_sorted + step, num_candidates);
    const auto begin = ids.begin() + static_cast<int64_t>(num_sorted);
    const auto middle = ids.begin() + static_cast<int64_t>(end);
    const auto last = ids.begin() + static_cast<int64_t>(num_candidates);
    if (middle != last) std::nth_element(begin, middle, last, is_before);
    std::sort(begin, middle, is_before);
    num_sorted = end;
    while (num_kept < num_sorted && sum < p * total)
      sum += static_cast<double>(weights[static_cast<size_t>(ids[num_kept++])]);
  }
  for (size_t i = num_kept; i < num_candidates; ++i) weights[static_cast<size_t>(ids[i])] = 0.0f;
  std::fill(ids.begin(), ids.begin() + static_cast<int64_t>(num_candidates), 0);
}

TokenId draw(std::span<const float> weights, double uniform) {
  double total = 0.0;
  for (const float w : weights) total += static_cast<double>(w);
  const double goal = uniform * total;
  double sum = 0.0;
  TokenId last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0.0f) continue;
    sum += static_cast<double>(weights[i]);
    last = static_cast<TokenId>(i);
    if (sum > goal) return last;
  }
  return last;  // rounding left the goal at the total
}

}  // namespace

int32_t argmax(std::span<const float> values) {
  // The largest of each stretch first, then its place: the first loop has no branch to miss.
  const float best = largest(values);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == best) return static_cast<int32_t>(i);
  }
  return 0;
}

SampledToken sample_token(const Kernels& kernels, std::span<const float> logits, const ScheduledRequest& request,
                          const SamplerScratch& scratch) {
  const SamplingParams& p = *request.sampling;
  const size_t n = logits.size();
  SampledToken sampled;
  sampled.id = request.id;
  std::span<const float> choice = logits;
  if (is_changed(request)) {
    std::copy(logits.begin(), logits.end(), scratch.logits.begin());
    change_logits(request, scratch.logits.first(n), scratch.ids);
    choice = scratch.logits.first(n);
  }
  if (is_greedy(p)) {
    sampled.token = argmax(choice);
  } else {
    const std::span<float> weights = scratch.weights.first(n);
    weigh(kernels, choice, p.temperature, weights);
    if (p.min_p > 0.0) keep_min_p(p.min_p, weights);
    keep_top_k(p.top_k, weights, scratch.logits);
    if (p.top_p < 1.0) keep_top_p(p.top_p, weights, scratch.ids);
    sampled.token = draw(weights, random_uniform(p.seed, 0, static_cast<uint64_t>(output_index(request))));
  }
  if (p.num_logprobs >= 0) report_logprobs(kernels, logits, p.num_logprobs, scratch.weights, &sampled);
  return sampled;
}

}  // namespace ullage::cpu
