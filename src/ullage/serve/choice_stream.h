// One choice of an answer: its tokens become text, stop strings end it, logprobs get their names. Pure: no sockets, no
// engine. What it gives does not depend on how tokens arrive, so that streamed and whole answers are equal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ullage/base/ids.h"
#include "ullage/sched/request.h"
#include "ullage/sched/step.h"
#include "ullage/serve/stop_strings.h"
#include "ullage/text/tokenizer.h"

namespace ullage::serve {

struct ChoiceOptions {
  std::vector<std::string> stop;
  bool include_stop = false;  // the stop string, or the stop token's text, stays in the text
  bool skip_special_tokens = true;
  int64_t min_tokens = 0;
  int32_t num_logprobs = -1;
  bool return_tokens_as_token_ids = false;
  // A stop token that is in this list is named as stop_reason; the model's own end of text is not.
  std::vector<TokenId> stop_token_ids;
};

struct NamedLogprob {
  std::string token;  // text; bytes that are no text are spelled \xNN
  std::string bytes;
  float logprob = 0;
};

struct TokenLogprobs {
  NamedLogprob sampled;
  std::vector<NamedLogprob> top;  // most likely first
  int64_t text_offset = 0;        // characters of the tokens before
};

// How the engine says that a token was the last: its FinishedEvent.
struct EngineEnd {
  sched::FinishReason reason = sched::FinishReason::kStop;
  TokenId stop_token = -1;
};

struct ChoiceEnd {
  sched::FinishReason reason = sched::FinishReason::kStop;
  std::string stop_string;  // the stop string that ended it, or empty
  TokenId stop_token = -1;  // the client's stop token that ended it, or -1
};

// What one token adds.
struct ChoiceDelta {
  std::string text;
  TokenId token = 0;
  std::optional<TokenLogprobs> logprobs;
  std::optional<ChoiceEnd> end;  // set on the last
};

class ChoiceStream {
 public:
  // The tokenizer outlives it.
  ChoiceStream(const text::Tokenizer& tokenizer, ChoiceOptions options);

  // `end` is set when the engine ended the request with this token. REQUIRES: !is_ended().
  ChoiceDelta push(const sched::SampledToken& sampled, const std::optional<EngineEnd>& end);
  bool is_ended() const { return is_ended_; }
  int64_t num_tokens() const { return num_tokens_; }

 private:
  TokenLogprobs name_logprobs(const sched::SampledToken& sampled);
  NamedLogprob name_token(TokenId token, float logprob) const;
  void take_text(const std::string& text, ChoiceDelta& delta);
  void end_by_engine(const EngineEnd& end, ChoiceDelta& delta);

  const text::Tokenizer& tokenizer_;
  ChoiceOptions options_;
  text::StreamDecoder decoder_;
  StopMatcher matcher_;
  int64_t num_tokens_ = 0;
  int64_t text_offset_ = 0;
  bool is_ended_ = false;
};

}  // namespace ullage::serve
