#include "ullage/serve/prepare.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace ullage::serve {
namespace {

// OpenAI's and vLLM's default for completions.
constexpr int64_t kDefaultCompletionTokens = 16;

Error bad(std::string_view where, std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), std::string(where)};
}

Result<void> check_tokens(const std::vector<TokenId>& tokens, std::string_view where,
                          const text::Tokenizer& tokenizer) {
  for (const TokenId token : tokens) {
    if (token < 0 || token >= tokenizer.vocab_size()) {
      return bad(where, fmt::format("token id {} in '{}' is not in the model's vocabulary of {} tokens", token, where,
                                    tokenizer.vocab_size()));
    }
  }
  return {};
}

// What the engine cannot compute must not reach it: there it would end the step of every request.
Result<void> check_embedded(const std::vector<TokenId>& tokens, std::string_view where, const ModelInfo& model,
                            const text::Tokenizer& tokenizer) {
  if (model.vocab_size <= 0) return {};
  const auto over = std::find_if(tokens.begin(), tokens.end(), [&](TokenId t) { return t >= model.vocab_size; });
  if (over == tokens.end()) return {};
  return bad(where,
             fmt::format("'{}' has token {} (\"{}\"), which the tokenizer knows and the model, of {} tokens, does "
                         "not; leave it out",
                         where, *over, tokenizer.token_name(*over), model.vocab_size));
}

// The tokens that one request may have, prompt and output together: the model's length, or the whole pool if that is
// less.
int64_t max_request_tokens(const ModelInfo& model) {
  const int64_t pool_tokens = (model.engine.num_blocks - 1) * model.engine.block_size;
  return pool_tokens > 0 ? std::min(model.max_model_len, pool_tokens) : model.max_model_len;
}

// True when tokens were left out.
bool truncate(std::vector<TokenId>& tokens, const GenerationFields& fields, const ModelInfo& model) {
  if (!fields.truncate_prompt_tokens) return false;
  int64_t keep = *fields.truncate_prompt_tokens;
  if (keep < 0) keep = std::max<int64_t>(1, max_request_tokens(model) - fields.max_tokens.value_or(1));
  const int64_t size = static_cast<int64_t>(tokens.size());
  if (size <= keep) return false;
  tokens.erase(tokens.begin(), tokens.begin() + (size - keep));
  return true;
}

// Texts up to this size are always tokenised, so that a refusal can have the number of tokens.
constexpr int64_t kAlwaysRead = 1 << 20;

// Tokenising megabytes takes a worker for seconds. A text that the model's length cannot spell, even in its longest
// tokens, is refused before.
Result<void> check_size(const std::string& text, const ModelInfo& model, const text::Tokenizer& tokenizer,
                        std::string_view where) {
  const int64_t num_bytes = static_cast<int64_t>(text.size());
  const int64_t limit = std::max(kAlwaysRead, model.max_model_len * tokenizer.max_token_bytes());
  if (num_bytes <= limit) return {};
  return Error{ErrorCode::kTooLarge,
               fmt::format("This model's maximum context length is {} tokens. However, your text has {} bytes; texts "
                           "of more than {} bytes are not read. Please reduce the length of the prompt.",
                           model.max_model_len, num_bytes, limit),
               std::string(where)};
}

// Settles max_tokens, and refuses what cannot fit with the numbers. `default_tokens` < 0: the rest.
Result<void> fit_prompt(PreparedPrompt& prompt, const GenerationFields& fields, int64_t default_tokens,
                        const ModelInfo& model, std::string_view where) {
  const int64_t num_prompt = static_cast<int64_t>(prompt.tokens.size());
  if (num_prompt == 0) return bad(where, fmt::format("'{}' has no tokens; send at least one", where));
  if (num_prompt >= model.max_model_len) {
    return Error{
        ErrorCode::kTooLarge,
        fmt::format("This model's maximum context length is {} tokens. However, your request has {} prompt tokens "
                    "and needs room for at least one output token. Please reduce the length of the prompt.",
                    model.max_model_len, num_prompt),
        std::string(where)};
  }
  if (fields.max_tokens) {
    if (*fields.max_tokens > model.max_model_len - num_prompt) {
      return Error{
          ErrorCode::kTooLarge,
          fmt::format("This model's maximum context length is {} tokens. However, you requested {} tokens ({} in "
                      "the prompt, {} in the completion). Please reduce the length of the prompt or of the "
                      "completion.",
                      model.max_model_len,
                      static_cast<uint64_t>(num_prompt) + static_cast<uint64_t>(*fields.max_tokens), num_prompt,
                      *fields.max_tokens),
          "max_tokens"};
    }
    prompt.max_tokens = *fields.max_tokens;
  } else {
    // A prompt that fills the pool gets the engine's refusal, which has the pool's numbers.
    const int64_t rest = std::max<int64_t>(1, max_request_tokens(model) - num_prompt);
    prompt.max_tokens = default_tokens < 0 ? rest : std::min(default_tokens, rest);
    if (fields.min_tokens > prompt.max_tokens) {
      return bad("min_tokens", fmt::format("'min_tokens' ({}) must be at most the output's length of {} tokens; raise "
                                           "'max_tokens'",
                                           fields.min_tokens, prompt.max_tokens));
    }
  }
  return {};
}

// Every choice takes a place in the queue: what exceeds it would be told to try again for ever.
Result<void> check_queue(int64_t num_choices, const ModelInfo& model) {
  if (num_choices <= model.engine.max_queue_len) return {};
  return bad("n",
             fmt::format("{} choices (prompts times 'n') need {} places in the queue, which has {} (max_queue_len); "
                         "ask for fewer at once",
                         num_choices, num_choices, model.engine.max_queue_len));
}

void settle_sampling(PreparedRequest& request, const ModelInfo& model) {
  const GenerationFields& fields = request.fields;
  sched::SamplingParams& sampling = request.sampling;
  sampling.temperature = fields.temperature.value_or(model.generation.temperature);
  sampling.top_p = fields.top_p.value_or(model.generation.top_p);
  sampling.top_k = std::max<int64_t>(0, fields.top_k.value_or(model.generation.top_k));
  sampling.min_p = fields.min_p.value_or(0);
  sampling.repetition_penalty = fields.repetition_penalty.value_or(model.generation.repetition_penalty);
  sampling.presence_penalty = fields.presence_penalty;
  sampling.frequency_penalty = fields.frequency_penalty;
  sampling.num_logprobs = fields.num_logprobs;
  sampling.logit_bias = fields.logit_bias;
}

void settle_stop(PreparedRequest& request, const ModelInfo& model, const text::Tokenizer& tokenizer) {
  sched::StopParams& stop = request.stop;
  stop.min_tokens = request.fields.min_tokens;
  stop.ignore_eos = request.fields.ignore_eos;
  stop.stop_token_ids = request.fields.stop_token_ids;
  stop.eos_token_ids = model.generation.eos_token_ids;
  const auto more = tokenizer.eos_tokens();
  stop.eos_token_ids.insert(stop.eos_token_ids.end(), more.begin(), more.end());
  std::sort(stop.eos_token_ids.begin(), stop.eos_token_ids.end());
  stop.eos_token_ids.erase(std::unique(stop.eos_token_ids.begin(), stop.eos_token_ids.end()), stop.eos_token_ids.end());
}

Result<PreparedRequest> prepare_fields(Api api, GenerationFields fields, const ModelInfo& model,
                                       const text::Tokenizer& tokenizer) {
  ULLAGE_TRY_VOID(check_model_name(fields.model, model));
  ULLAGE_TRY_VOID(check_tokens(fields.stop_token_ids, "stop_token_ids", tokenizer));
  for (const auto& [token, bias] : fields.logit_bias) ULLAGE_TRY_VOID(check_tokens({token}, "logit_bias", tokenizer));
  PreparedRequest request;
  request.api = api;
  request.fields = std::move(fields);
  settle_sampling(request, model);
  settle_stop(request, model, tokenizer);
  return request;
}

}  // namespace

Result<void> check_model_name(const std::string& name, const ModelInfo& model) {
  if (name.empty() || std::find(model.names.begin(), model.names.end(), name) != model.names.end()) return {};
  return Error{ErrorCode::kNotFound,
               fmt::format("The model `{}` does not exist; this server has `{}`", std::string_view(name).substr(0, 256),
                           model.names.empty() ? "" : model.names.front()),
               "model"};
}

Result<std::vector<TokenId>> tokenize_text(const std::string& text, bool add_special_tokens, const ModelInfo& model,
                                           const text::Tokenizer& tokenizer, std::string_view where) {
  ULLAGE_TRY_VOID(check_size(text, model, tokenizer, where));
  text::EncodeOptions options;
  options.add_special_tokens = add_special_tokens;
  return tokenizer.encode(text, options);
}

Result<std::vector<TokenId>> tokenize_chat(const std::vector<text::ChatMessage>& messages, bool add_generation_prompt,
                                           bool add_special_tokens, const ModelInfo& model,
                                           const text::Tokenizer& tokenizer) {
  if (!model.chat_template) {
    Error error = model.chat_template.error();
    error.code = ErrorCode::kUnsupported;
    error.where = "messages";
    return error;
  }
  auto prompt = model.chat_template->render(messages, add_generation_prompt);
  if (!prompt) {
    Error error = std::move(prompt).error();
    error.where = "messages";
    return error;
  }
  ULLAGE_TRY_VOID(check_size(prompt->text, model, tokenizer, "messages"));
  text::EncodeOptions options;
  options.add_special_tokens = add_special_tokens;
  options.parse_special_everywhere = false;
  options.special_ranges = prompt->template_ranges;
  return tokenizer.encode(prompt->text, options);
}

Result<PreparedRequest> prepare(CompletionRequest request, const ModelInfo& model, const text::Tokenizer& tokenizer) {
  ULLAGE_TRY(PreparedRequest prepared, prepare_fields(Api::kCompletion, std::move(request.fields), model, tokenizer));
  ULLAGE_TRY_VOID(check_queue(static_cast<int64_t>(request.prompts.size()) * prepared.fields.n, model));
  const bool is_single = request.prompts.size() == 1;
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    const std::string where = is_single ? "prompt" : fmt::format("prompt/{}", i);
    PreparedPrompt prompt;
    if (auto* text = std::get_if<std::string>(&request.prompts[i])) {
      ULLAGE_TRY(prompt.tokens,
                 tokenize_text(*text, prepared.fields.add_special_tokens.value_or(true), model, tokenizer, where));
    } else {
      prompt.tokens = std::move(std::get<std::vector<TokenId>>(request.prompts[i]));
      ULLAGE_TRY_VOID(check_tokens(prompt.tokens, where, tokenizer));
    }
    const bool is_cut = truncate(prompt.tokens, prepared.fields, model);
    ULLAGE_TRY_VOID(check_embedded(prompt.tokens, where, model, tokenizer));
    ULLAGE_TRY_VOID(fit_prompt(prompt, prepared.fields, kDefaultCompletionTokens, model, where));
    if (request.echo) {
      auto* text = std::get_if<std::string>(&request.prompts[i]);
      prompt.echo = text != nullptr && !is_cut ? std::move(*text)
                                               : tokenizer.decode(prompt.tokens, prepared.fields.skip_special_tokens);
    }
    prepared.prompts.push_back(std::move(prompt));
  }
  return prepared;
}

Result<PreparedRequest> prepare(ChatRequest request, const ModelInfo& model, const text::Tokenizer& tokenizer) {
  ULLAGE_TRY(PreparedRequest prepared, prepare_fields(Api::kChat, std::move(request.fields), model, tokenizer));
  ULLAGE_TRY_VOID(check_queue(prepared.fields.n, model));
  PreparedPrompt prompt;
  // The template writes its own special tokens.
  const bool add_special_tokens = prepared.fields.add_special_tokens.value_or(false);
  ULLAGE_TRY(prompt.tokens,
             tokenize_chat(request.messages, request.add_generation_prompt, add_special_tokens, model, tokenizer));
  truncate(prompt.tokens, prepared.fields, model);
  ULLAGE_TRY_VOID(check_embedded(prompt.tokens, "messages", model, tokenizer));
  ULLAGE_TRY_VOID(fit_prompt(prompt, prepared.fields, /*default_tokens=*/-1, model, "messages"));
  prepared.prompts.push_back(std::move(prompt));
  return prepared;
}

sched::RequestParams make_engine_request(const PreparedRequest& request, const PreparedPrompt& prompt, int64_t index,
                                         uint64_t seed) {
  sched::RequestParams params;
  params.prompt = prompt.tokens;
  params.sampling = request.sampling;
  // As vLLM: choice i of a seeded request is what a request with seed + i gives.
  params.sampling.seed = seed + static_cast<uint64_t>(index);
  params.stop = request.stop;
  params.stop.max_tokens = prompt.max_tokens;
  params.priority = request.fields.priority;
  params.cache_salt = request.fields.cache_salt;
  return params;
}

ChoiceOptions make_choice_options(const PreparedRequest& request) {
  ChoiceOptions options;
  options.stop = request.fields.stop;
  options.include_stop = request.fields.include_stop_str_in_output;
  options.skip_special_tokens = request.fields.skip_special_tokens;
  options.min_tokens = request.fields.min_tokens;
  options.num_logprobs = request.fields.num_logprobs;
  options.return_tokens_as_token_ids = request.fields.return_tokens_as_token_ids;
  options.stop_token_ids = request.fields.stop_token_ids;
  return options;
}

}  // namespace ullage::serve
