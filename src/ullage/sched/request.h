// What a client asks of the engine, as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ullage/base/ids.h"
#include "ullage/base/units.h"

namespace ullage::sched {

// How the next token is chosen. Field names, ranges and meaning are vLLM's SamplingParams'.
struct SamplingParams {
  double temperature = 1.0;         // >= 0; 0 = greedy
  double top_p = 1.0;               // (0, 1]
  int64_t top_k = 0;                // 0 or -1 = all
  double min_p = 0.0;               // [0, 1]
  double repetition_penalty = 1.0;  // > 0; over prompt and output
  double presence_penalty = 0.0;    // [-2, 2]; over output
  double frequency_penalty = 0.0;   // [-2, 2]; over output
  uint64_t seed = 0;                // always set: drawn at arrival when the client gives none
  int32_t num_logprobs = -1;  // -1 = none; 0 = the sampled token's; n = also the n most likely (raw model logprobs)
  std::vector<std::pair<TokenId, float>> logit_bias = {};  // added to the logits of these tokens

  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

// When a request ends, by tokens. Stop *strings* are the caller's: it sees text, and calls Engine::finish.
struct StopParams {
  int64_t max_tokens = 16;  // >= 1
  int64_t min_tokens = 0;   // no stop token is sampled before
  bool ignore_eos = false;
  std::vector<TokenId> eos_token_ids;   // end the request unless ignore_eos
  std::vector<TokenId> stop_token_ids;  // end the request always

  friend bool operator==(const StopParams&, const StopParams&) = default;
};

struct RequestParams {
  RequestId id;                 // unique in the engine's life
  std::vector<TokenId> prompt;  // at least one token
  SamplingParams sampling;
  StopParams stop;
  int64_t priority = 0;  // lower is more important (vLLM's)
  Nanos arrival = 0;
  std::string cache_salt;  // prefix hits only among equal salts
  std::string adapter;     // likewise; empty = the base model
};

enum class FinishReason : uint8_t { kStop, kLength, kCancelled };

}  // namespace ullage::sched
