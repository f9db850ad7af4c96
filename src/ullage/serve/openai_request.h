// From the bytes of a request's body to a typed request: pure, no sockets, no model. Whatever the bytes, the answer is
// a request or an Error whose `where` names the field ("messages/0/role"; empty for the whole body).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ullage/base/ids.h"
#include "ullage/base/result.h"
#include "ullage/text/chat_template.h"

namespace ullage::serve {

struct RequestLimits {
  int64_t max_json_depth = 64;
  int64_t max_members = 2048;  // of one JSON object (reading one costs the square of its members)
  int64_t max_n = 128;
  int64_t max_prompts = 1024;
  int64_t max_choices = 1024;  // prompts * n
  int64_t max_stop_strings = 16;
  int64_t max_logprobs = 20;
};

// Text still to be tokenised, or tokens as the client gives them.
using Prompt = std::variant<std::string, std::vector<TokenId>>;

// What completions and chat have in common. An empty optional: the client is silent, and a default applies that only
// the model knows.
struct GenerationFields {
  std::string model;  // empty = silent
  int64_t n = 1;
  std::optional<int64_t> max_tokens;
  int64_t min_tokens = 0;

  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::optional<uint64_t> seed;
  std::vector<std::pair<TokenId, float>> logit_bias;

  std::vector<std::string> stop;
  bool include_stop_str_in_output = false;
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;
  bool skip_special_tokens = true;

  int32_t num_logprobs = -1;  // -1 = none
  bool return_tokens_as_token_ids = false;
  bool return_token_ids = false;

  bool stream = false;
  bool include_usage = false;
  bool continuous_usage_stats = false;

  std::string cache_salt;
  int64_t priority = 0;
  std::string request_id;                         // empty = silent
  std::optional<int64_t> truncate_prompt_tokens;  // the last so many are kept; -1 = as many as fit
  std::optional<bool> add_special_tokens;
  std::vector<std::string> ignored;  // fields that nobody here knows, for the log
};

struct CompletionRequest {
  GenerationFields fields;
  std::vector<Prompt> prompts;  // at least one
  bool echo = false;
};

struct ChatRequest {
  GenerationFields fields;
  std::vector<text::ChatMessage> messages;  // at least one
  bool add_generation_prompt = true;
};

struct TokenizeRequest {
  std::string model;
  std::string prompt;                       // when there are no messages
  std::vector<text::ChatMessage> messages;  // chat form
  bool is_chat = false;
  bool add_generation_prompt = true;
  std::optional<bool> add_special_tokens;
  bool return_token_strs = false;
};

struct DetokenizeRequest {
  std::string model;
  std::vector<TokenId> tokens;
};

// Codes: kCorrupt (not JSON, not UTF-8), kTooLarge (over a limit), kInvalidArgument (type or range), kUnsupported (a
// field that is known and not offered). All of them are 400.
Result<CompletionRequest> parse_completion_request(std::string_view body, const RequestLimits& limits = {});
Result<ChatRequest> parse_chat_request(std::string_view body, const RequestLimits& limits = {});
Result<TokenizeRequest> parse_tokenize_request(std::string_view body, const RequestLimits& limits = {});
Result<DetokenizeRequest> parse_detokenize_request(std::string_view body, const RequestLimits& limits = {});

}  // namespace ullage::serve
