// Where a modelled device's tokens come from: it has no weights. A token depends on the request's seed and its output
// index alone, so that it is the same in any batch and after a preemption.
#pragma once

#include <cstdint>
#include <vector>

#include "ullage/base/ids.h"
#include "ullage/sched/request.h"

namespace ullage::sim {

// Const use from any thread.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual TokenId token(const sched::SamplingParams& sampling, int64_t output_index) const = 0;
};

// Uniform in [first, vocab_size); `first` leaves special tokens out where they come first.
class SeededTokens final : public TokenSource {
 public:
  // REQUIRES: 0 <= first < vocab_size.
  explicit SeededTokens(int64_t vocab_size, TokenId first = 0);
  TokenId token(const sched::SamplingParams& sampling, int64_t output_index) const override;

 private:
  int64_t vocab_size_;
  TokenId first_;
};

// A text's tokens, over and over, from an offset that the request's seed chooses.
class FillerText final : public TokenSource {
 public:
  // REQUIRES: at least one token.
  explicit FillerText(std::vector<TokenId> tokens);
  TokenId token(const sched::SamplingParams& sampling, int64_t output_index) const override;

 private:
  std::vector<TokenId> tokens_;
};

}  // namespace ullage::sim
