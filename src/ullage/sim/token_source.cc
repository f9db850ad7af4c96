#include "ullage/sim/token_source.h"

#include <utility>

#include "ullage/base/check.h"
#include "ullage/base/random.h"

namespace ullage::sim {
namespace {

// Streams of the request's seed, so that other draws from the same seed are independent of these.
constexpr uint64_t kTokenStream = 0x746f6b656e;     // "token"
constexpr uint64_t kOffsetStream = 0x6f6666736574;  // "offset"

}  // namespace

SeededTokens::SeededTokens(int64_t vocab_size, TokenId first) : vocab_size_(vocab_size), first_(first) {
  ULLAGE_CHECK(first >= 0 && first < vocab_size);
}

TokenId SeededTokens::token(const sched::SamplingParams& sampling, int64_t output_index) const {
  const double draw = random_uniform(sampling.seed, kTokenStream, static_cast<uint64_t>(output_index));
  return first_ + static_cast<TokenId>(draw * static_cast<double>(vocab_size_ - first_));
}

FillerText::FillerText(std::vector<TokenId> tokens) : tokens_(std::move(tokens)) { ULLAGE_CHECK(!tokens_.empty()); }

TokenId FillerText::token(const sched::SamplingParams& sampling, int64_t output_index) const {
  const uint64_t offset = random_bits(sampling.seed, kOffsetStream, 0) % tokens_.size();
  return tokens_[(offset + static_cast<uint64_t>(output_index)) % tokens_.size()];
}

}  // namespace ullage::sim
