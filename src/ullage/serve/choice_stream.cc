#include "ullage/serve/choice_stream.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/check.h"
#include "ullage/serve/json_text.h"
#include "ullage/serve/utf8.h"

namespace ullage::serve {
namespace {

std::string spell_bytes(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return out;
}

}  // namespace

ChoiceStream::ChoiceStream(const text::Tokenizer& tokenizer, ChoiceOptions options)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      decoder_(tokenizer, options_.skip_special_tokens, /*is_first=*/false),
      matcher_(options_.stop, options_.include_stop) {}

NamedLogprob ChoiceStream::name_token(TokenId token, float logprob) const {
  NamedLogprob named;
  named.logprob = logprob;
  named.bytes = tokenizer_.token_bytes(token, /*skip_special=*/false);
  if (options_.return_tokens_as_token_ids) {
    named.token = fmt::format("token_id:{}", token);
  } else {
    named.token = is_valid_utf8(named.bytes) ? named.bytes : spell_bytes(named.bytes);
  }
  return named;
}

TokenLogprobs ChoiceStream::name_logprobs(const sched::SampledToken& sampled) {
  TokenLogprobs result;
  result.sampled = name_token(sampled.token, sampled.logprob);
  result.text_offset = text_offset_;
  text_offset_ += count_characters(result.sampled.token);
  result.top.reserve(sampled.top.size());
  for (const sched::TokenLogprob& top : sampled.top) result.top.push_back(name_token(top.token, top.logprob));
  return result;
}

void ChoiceStream::take_text(const std::string& text, ChoiceDelta& delta) {
  // vLLM looks at stop strings from the first token after min_tokens on; so do we.
  StopMatcher::Output output = matcher_.push(text, num_tokens_ > options_.min_tokens);
  delta.text += output.text;
  if (output.stop_index >= 0) {
    delta.end = ChoiceEnd{sched::FinishReason::kStop, matcher_.stop(output.stop_index), -1};
  }
}

void ChoiceStream::end_by_engine(const EngineEnd& end, ChoiceDelta& delta) {
  take_text(decoder_.flush(), delta);
  if (delta.end) return;
  delta.text += matcher_.flush();
  ChoiceEnd choice_end;
  choice_end.reason = end.reason;
  const auto& ids = options_.stop_token_ids;
  if (std::find(ids.begin(), ids.end(), end.stop_token) != ids.end()) choice_end.stop_token = end.stop_token;
  delta.end = std::move(choice_end);
}

ChoiceDelta ChoiceStream::push(const sched::SampledToken& sampled, const std::optional<EngineEnd>& end) {
  ULLAGE_CHECK(!is_ended_);
  ++num_tokens_;
  ChoiceDelta delta;
  delta.token = sampled.token;
  if (options_.num_logprobs >= 0) delta.logprobs = name_logprobs(sampled);
  // A token that ends the request is no part of its text, unless the client wants to see what ended it.
  const bool is_hidden = end && end->stop_token >= 0 && !options_.include_stop;
  if (!is_hidden) take_text(decoder_.push(sampled.token), delta);
  if (!delta.end && end) end_by_engine(*end, delta);
  is_ended_ = delta.end.has_value();
  return delta;
}

}  // namespace ullage::serve
