// Logits to a token: greedy, or drawn with temperature, min-p, top-k and top-p; penalties, biases and
// log-probabilities.
#pragma once

#include <cstdint>
#include <span>

#include "ullage/cpu/kernels.h"
#include "ullage/sched/step.h"

namespace ullage::cpu {

// Room that one call works in; the numbers hold nothing between calls.
struct SamplerScratch {
  std::span<float> logits;   // [vocab_size]
  std::span<float> weights;  // [vocab_size]
  std::span<int32_t> ids;    // [vocab_size]; all zero before and after
};

// Chooses the next token of `request` from its raw logits [vocab_size]. Order, and the meaning of each step, are
// vLLM's: log-probabilities of the raw logits; logit_bias; repetition penalty over prompt and output, then frequency
// and presence penalties over output; eos and stop tokens barred before min_tokens; greedy here when temperature <
// 1e-5; else temperature; min_p; top_k (ties with the k-th stay); top_p (the smallest set, most likely first, that
// reaches p; equal tokens by id). The draw is random_uniform(seed, 0, index of the output token).
//
// A NaN counts as -infinity. +infinity beats every number: such tokens share the weight equally. Greedy ties go to the
// lowest id, so a row of nothing but NaN gives token 0. Log-probabilities are never below -9999 (JSON has no infinity).
//
// `rank` is the number of tokens at least as likely. Cost: O(vocab_size + tokens when penalised).
sched::SampledToken sample_token(const Kernels& kernels, std::span<const float> logits,
                                 const sched::ScheduledRequest& request, const SamplerScratch& scratch);

// Index of the largest; ties to the lowest, NaN never (0 when there is nothing else).
int32_t argmax(std::span<const float> values);

}  // namespace ullage::cpu
