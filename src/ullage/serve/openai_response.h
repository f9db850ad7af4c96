// Answers in OpenAI's shapes, with vLLM's extra fields: pure text.
//
// A stream's chunks follow what load generators count: one chunk a token, the role on the first token's chunk, the
// finish reason on the last token's, then (if asked for) usage in a chunk without choices, then "data: [DONE]".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/ids.h"
#include "ullage/serve/api_error.h"
#include "ullage/serve/choice_stream.h"

namespace ullage::serve {

enum class Api : uint8_t { kCompletion, kChat };

// What every part of one answer repeats.
struct ResponseHead {
  Api api = Api::kCompletion;
  std::string id;       // "cmpl-...", "chatcmpl-..."
  std::string model;    // as the client called it
  int64_t created = 0;  // seconds since 1970
  bool has_logprobs = false;
  bool has_token_ids = false;  // return_token_ids
  bool has_usage = false;      // stream: "usage" is in every chunk, null until the last
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
};

// One choice of a whole answer.
struct ChoiceResult {
  std::string text;
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs;
  ChoiceEnd end;
  std::span<const TokenId> prompt_tokens;  // read with has_token_ids
};

// One token's part of a stream.
struct Chunk {
  int64_t choice_index = 0;
  bool is_first = false;
  std::string_view echo;  // completions: the prompt's text, before the first token's
  const ChoiceDelta* delta = nullptr;
  std::span<const TokenId> prompt_tokens;  // read with has_token_ids, on the first
};

// A new id: "cmpl-" or "chatcmpl-" and `unique`.
std::string make_response_id(Api api, std::string_view unique);

// Appends "data: {...}\n\n". `usage`: of the choice so far (continuous_usage_stats), or nullptr.
void append_chunk(std::string& out, const ResponseHead& head, const Chunk& chunk, const Usage* usage);
void append_usage_chunk(std::string& out, const ResponseHead& head, const Usage& usage);
void append_stream_error(std::string& out, const ApiError& error);
void append_stream_end(std::string& out);  // "data: [DONE]\n\n"

std::string format_response(const ResponseHead& head, std::span<const ChoiceResult> choices, const Usage& usage);

}  // namespace ullage::serve
