#include "ullage/serve/openai_request.h"

#include <fmt/format.h>

#include "ullage/serve/request_body.h"
#include "ullage/serve/request_fields.h"

namespace ullage::serve {
namespace {

Result<std::vector<Prompt>> read_prompt_list(const Json& list, const RequestLimits& limits) {
  std::vector<Prompt> prompts;
  if (list.empty())
    return bad_field("prompt", "'prompt' must hold at least one prompt or token id, found an empty array");
  if (list[0].is_number()) {
    ULLAGE_TRY(std::vector<TokenId> tokens, read_token_list(list, "prompt"));
    prompts.emplace_back(std::move(tokens));
    return prompts;
  }
  if (static_cast<int64_t>(list.size()) > limits.max_prompts) {
    return bad_field("prompt",
                     fmt::format("'prompt' must hold at most {} prompts, found {}", limits.max_prompts, list.size()));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("prompt/{}", i);
    if (list[i].is_string()) {
      prompts.emplace_back(list[i].get<std::string>());
    } else if (list[i].is_array()) {
      if (list[i].empty()) return bad_field(where, fmt::format("'{}' must hold at least one token id", where));
      ULLAGE_TRY(std::vector<TokenId> tokens, read_token_list(list[i], where));
      prompts.emplace_back(std::move(tokens));
    } else {
      return bad_field(
          where, fmt::format("'{}' must be a string or an array of token ids, found {}", where, type_name(list[i])));
    }
  }
  return prompts;
}

Result<std::vector<Prompt>> read_prompts(const Json& body, const RequestLimits& limits) {
  const Json* prompt = find_member(body, "prompt");
  if (prompt == nullptr) {
    return bad_field("prompt", "'prompt' is missing; send a string, an array of strings, or token ids");
  }
  if (prompt->is_string()) return std::vector<Prompt>{prompt->get<std::string>()};
  if (prompt->is_array()) return read_prompt_list(*prompt, limits);
  return bad_field("prompt", fmt::format("'prompt' must be a string, an array of strings, or token ids, found {}",
                                         type_name(*prompt)));
}

Result<int32_t> read_completion_logprobs(const Json& body, const RequestLimits& limits) {
  ULLAGE_TRY(const auto logprobs, read_int(body, "logprobs", {0, limits.max_logprobs}));
  return logprobs ? static_cast<int32_t>(*logprobs) : -1;
}

Result<int32_t> read_chat_logprobs(const Json& body, const RequestLimits& limits) {
  ULLAGE_TRY(const auto logprobs, read_bool(body, "logprobs"));
  ULLAGE_TRY(const auto top, read_int(body, "top_logprobs", {0, limits.max_logprobs}));
  if (logprobs.value_or(false)) return static_cast<int32_t>(top.value_or(0));
  if (top.value_or(0) > 0) return bad_field("top_logprobs", "'top_logprobs' needs 'logprobs': true");
  return -1;
}

}  // namespace

Result<CompletionRequest> parse_completion_request(std::string_view body, const RequestLimits& limits) {
  ULLAGE_TRY(const Json json, parse_request_body(body, limits));
  CompletionRequest request;
  ULLAGE_TRY(request.prompts, read_prompts(json, limits));
  ULLAGE_TRY(request.fields, read_generation_fields(json, limits));
  ULLAGE_TRY(request.fields.num_logprobs, read_completion_logprobs(json, limits));
  ULLAGE_TRY(const auto echo, read_bool(json, "echo"));
  request.echo = echo.value_or(false);
  if (request.echo && request.fields.num_logprobs >= 0) {
    return unsupported_field("echo", "together with 'logprobs' (the prompt's logprobs are not computed)");
  }
  const int64_t num_choices = static_cast<int64_t>(request.prompts.size()) * request.fields.n;
  if (num_choices > limits.max_choices) {
    return bad_field("n", fmt::format("{} prompts with 'n' {} make {} choices; at most {} are allowed in one request",
                                      request.prompts.size(), request.fields.n, num_choices, limits.max_choices));
  }
  return request;
}

Result<ChatRequest> parse_chat_request(std::string_view body, const RequestLimits& limits) {
  ULLAGE_TRY(const Json json, parse_request_body(body, limits));
  ChatRequest request;
  ULLAGE_TRY(request.messages, read_messages(json));
  ULLAGE_TRY(request.fields, read_generation_fields(json, limits));
  ULLAGE_TRY(request.fields.num_logprobs, read_chat_logprobs(json, limits));
  ULLAGE_TRY(const auto echo, read_bool(json, "echo"));
  if (echo.value_or(false)) return unsupported_field("echo", "in a chat");
  ULLAGE_TRY(const auto add_generation_prompt, read_bool(json, "add_generation_prompt"));
  request.add_generation_prompt = add_generation_prompt.value_or(true);
  return request;
}

Result<TokenizeRequest> parse_tokenize_request(std::string_view body, const RequestLimits& limits) {
  ULLAGE_TRY(const Json json, parse_request_body(body, limits));
  TokenizeRequest request;
  ULLAGE_TRY(auto model, read_string(json, "model"));
  request.model = std::move(model).value_or("");
  ULLAGE_TRY(request.add_special_tokens, read_bool(json, "add_special_tokens"));
  ULLAGE_TRY(const auto strings, read_bool(json, "return_token_strs"));
  request.return_token_strs = strings.value_or(false);
  if (find_member(json, "messages") != nullptr) {
    request.is_chat = true;
    ULLAGE_TRY(request.messages, read_messages(json));
    ULLAGE_TRY(const auto add_generation_prompt, read_bool(json, "add_generation_prompt"));
    request.add_generation_prompt = add_generation_prompt.value_or(true);
    return request;
  }
  ULLAGE_TRY(auto prompt, read_string(json, "prompt"));
  if (!prompt) return bad_field("prompt", "'prompt' is missing; send a string, or 'messages'");
  request.prompt = std::move(*prompt);
  return request;
}

Result<DetokenizeRequest> parse_detokenize_request(std::string_view body, const RequestLimits& limits) {
  ULLAGE_TRY(const Json json, parse_request_body(body, limits));
  DetokenizeRequest request;
  ULLAGE_TRY(auto model, read_string(json, "model"));
  request.model = std::move(model).value_or("");
  const Json* tokens = find_member(json, "tokens");
  if (tokens == nullptr) return bad_field("tokens", "'tokens' is missing; send an array of token ids");
  ULLAGE_TRY(request.tokens, read_token_list(*tokens, "tokens"));
  return request;
}

}  // namespace ullage::serve
