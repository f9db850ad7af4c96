#include "ullage/serve/request_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "ullage/serve/request_body.h"

namespace ullage::serve {
namespace {

// Every choice of a request keeps these.
constexpr size_t kMaxStopBytes = 4096;  // of all stop strings together
constexpr size_t kMaxSaltBytes = 1024;

// Known to OpenAI's or vLLM's API, and harmless to leave aside.
constexpr std::array kHarmless = {"user",
                                  "metadata",
                                  "store",
                                  "service_tier",
                                  "safety_identifier",
                                  "prompt_cache_key",
                                  "prompt_cache_retention",
                                  "parallel_tool_calls",
                                  "spaces_between_special_tokens",
                                  "stream_interval",
                                  "verbosity"};
// Read by this file or by openai_request.cc.
constexpr std::array kRead = {"model",
                              "n",
                              "best_of",
                              "max_tokens",
                              "max_completion_tokens",
                              "min_tokens",
                              "temperature",
                              "top_p",
                              "top_k",
                              "min_p",
                              "repetition_penalty",
                              "presence_penalty",
                              "frequency_penalty",
                              "seed",
                              "logit_bias",
                              "stop",
                              "include_stop_str_in_output",
                              "stop_token_ids",
                              "ignore_eos",
                              "skip_special_tokens",
                              "logprobs",
                              "top_logprobs",
                              "return_tokens_as_token_ids",
                              "return_token_ids",
                              "stream",
                              "stream_options",
                              "cache_salt",
                              "priority",
                              "request_id",
                              "truncate_prompt_tokens",
                              "add_special_tokens",
                              "prompt",
                              "echo",
                              "messages",
                              "add_generation_prompt"};

// Refused unless the value asks for nothing: absent, null, false, "", [] or {}.
struct Refused {
  const char* key;
  const char* hint;
};
constexpr std::array kRefused = {
    Refused{"tools", "tool calling is not offered yet"},
    Refused{"functions", "function calling is not offered yet"},
    Refused{"suffix", "insertion is not offered"},
    Refused{"prompt_logprobs", "only the output's logprobs are"},
    Refused{"prompt_embeds", "send text or token ids"},
    Refused{"guided_json", "structured output is not offered yet"},
    Refused{"guided_regex", "structured output is not offered yet"},
    Refused{"guided_choice", "structured output is not offered yet"},
    Refused{"guided_grammar", "structured output is not offered yet"},
    Refused{"guided_decoding_backend", "structured output is not offered yet"},
    Refused{"guided_whitespace_pattern", "structured output is not offered yet"},
    Refused{"structured_outputs", "structured output is not offered yet"},
    Refused{"structural_tag", "structured output is not offered yet"},
    Refused{"grammar", "structured output is not offered yet"},
    Refused{"json_schema", "structured output is not offered yet"},
    Refused{"use_beam_search", "sampling is"},
    Refused{"logits_processors", ""},
    Refused{"logit_processors", ""},
    Refused{"allowed_token_ids", "use 'logit_bias'"},
    Refused{"bad_words", "use 'logit_bias'"},
    Refused{"continue_final_message", "use /v1/completions to continue a text"},
    Refused{"chat_template", "the server's template is used; see --chat-template"},
    Refused{"documents", "put them into a message"},
    Refused{"audio", "text only"},
    Refused{"prediction", ""},
    Refused{"web_search_options", ""},
    Refused{"kv_transfer_params", ""},
    Refused{"lora", "adapters are not offered yet"},
    Refused{"lora_request", "adapters are not offered yet"},
    Refused{"lora_adapter", "adapters are not offered yet"},
    Refused{"adapter", "adapters are not offered yet"},
    Refused{"adapters", "adapters are not offered yet"},
    Refused{"mm_processor_kwargs", "text only"},
};

bool asks_for_nothing(const Json& value) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return (value.is_array() || value.is_object()) && value.empty();
}

Result<void> refuse_unsupported(const Json& body) {
  for (const Refused& refused : kRefused) {
    const Json* value = find_member(body, refused.key);
    if (value != nullptr && !asks_for_nothing(*value)) return unsupported_field(refused.key, refused.hint);
  }
  for (const char* key : {"tool_choice", "function_call"}) {
    const Json* value = find_member(body, key);
    if (value != nullptr && !(value->is_string() && value->get_ref<const std::string&>() == "none")) {
      return unsupported_field(key, "tool calling is not offered yet; leave it out or send \"none\"");
    }
  }
  if (const Json* format = find_member(body, "response_format")) {
    const Json* type = format->is_object() ? find_member(*format, "type") : nullptr;
    if (type == nullptr || !type->is_string()) {
      return bad_field("response_format", "'response_format' must be an object with a string 'type'");
    }
    if (type->get_ref<const std::string&>() != "text") {
      return unsupported_field("response_format", "only {\"type\": \"text\"} is");
    }
  }
  if (const Json* modalities = find_member(body, "modalities")) {
    if (*modalities != Json::array({"text"})) return unsupported_field("modalities", "only [\"text\"] is");
  }
  return {};
}

template <class List>
bool contains(const List& list, std::string_view key) {
  return std::any_of(list.begin(), list.end(), [&](const char* item) { return key == item; });
}

std::vector<std::string> list_unknown(const Json& body) {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : body.items()) {
    const bool is_refusable =
        key == "tool_choice" || key == "function_call" || key == "response_format" || key == "modalities" ||
        std::any_of(kRefused.begin(), kRefused.end(), [&](const Refused& r) { return key == r.key; });
    if (is_refusable || value.is_null() || contains(kRead, key) || contains(kHarmless, key)) continue;
    constexpr size_t kMaxListed = 16;
    constexpr size_t kMaxNameBytes = 64;
    if (unknown.size() < kMaxListed && key.size() <= kMaxNameBytes) unknown.push_back(key);
  }
  return unknown;
}

Result<std::vector<std::string>> read_stop(const Json& body, const RequestLimits& limits) {
  std::vector<std::string> stops;
  const Json* value = find_member(body, "stop");
  if (value == nullptr) return stops;
  if (value->is_string()) {
    stops.push_back(value->get<std::string>());
  } else if (value->is_array()) {
    if (static_cast<int64_t>(value->size()) > limits.max_stop_strings) {
      return bad_field(
          "stop", fmt::format("'stop' must hold at most {} strings, found {}", limits.max_stop_strings, value->size()));
    }
    for (const Json& item : *value) {
      if (!item.is_string()) {
        return bad_field(
            "stop", fmt::format("'stop' must be a string or an array of strings, found {} in it", type_name(item)));
      }
      stops.push_back(item.get<std::string>());
    }
  } else {
    return bad_field("stop",
                     fmt::format("'stop' must be a string or an array of strings, found {}", type_name(*value)));
  }
  size_t num_bytes = 0;
  for (const std::string& stop : stops) {
    if (stop.empty()) return bad_field("stop", "'stop' must not hold an empty string");
    num_bytes += stop.size();
  }
  if (num_bytes > kMaxStopBytes) {
    return bad_field("stop", fmt::format("'stop' must hold at most {} bytes, found {}", kMaxStopBytes, num_bytes));
  }
  return stops;
}

Result<std::vector<std::pair<TokenId, float>>> read_logit_bias(const Json& body) {
  std::vector<std::pair<TokenId, float>> bias;
  const Json* value = find_member(body, "logit_bias");
  if (value == nullptr) return bias;
  if (!value->is_object()) {
    return bad_field("logit_bias", fmt::format("'logit_bias' must be an object from token id to number, found {}",
                                               type_name(*value)));
  }
  for (const auto& [key, item] : value->items()) {
    TokenId token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0) {
      return bad_field("logit_bias", fmt::format("'logit_bias' must have token ids as its keys, found \"{}\"",
                                                 std::string_view(key).substr(0, 32)));
    }
    const double amount = item.is_number() ? item.get<double>() : 1e9;
    if (!(amount >= -100 && amount <= 100)) {
      return bad_field("logit_bias", fmt::format("'logit_bias' must hold numbers in [-100, 100], found {} for token {}",
                                                 item.is_number() ? dump_json(item) : type_name(item), token));
    }
    bias.emplace_back(token, static_cast<float>(amount));
  }
  std::sort(bias.begin(), bias.end());
  return bias;
}

Result<void> read_stream_options(const Json& body, GenerationFields& fields) {
  const Json* options = find_member(body, "stream_options");
  if (options == nullptr) return {};
  if (!options->is_object()) {
    return bad_field("stream_options",
                     fmt::format("'stream_options' must be an object, found {}", type_name(*options)));
  }
  if (!fields.stream) return bad_field("stream_options", "'stream_options' needs 'stream': true");
  ULLAGE_TRY(const auto include, read_bool(*options, "include_usage"));
  ULLAGE_TRY(const auto continuous, read_bool(*options, "continuous_usage_stats"));
  fields.include_usage = include.value_or(false);
  fields.continuous_usage_stats = continuous.value_or(false);
  return {};
}

Result<void> read_counts(const Json& body, const RequestLimits& limits, GenerationFields& fields) {
  ULLAGE_TRY(const auto n, read_int(body, "n", {1, limits.max_n}));
  fields.n = n.value_or(1);
  ULLAGE_TRY(const auto best_of, read_int(body, "best_of", {1, limits.max_n}));
  if (best_of && *best_of != fields.n) {
    return unsupported_field("best_of", fmt::format("it must equal 'n' ({})", fields.n));
  }
  ULLAGE_TRY(const auto max_tokens, read_int(body, "max_tokens", {.min = 1}));
  ULLAGE_TRY(const auto max_completion_tokens, read_int(body, "max_completion_tokens", {.min = 1}));
  fields.max_tokens = max_completion_tokens ? max_completion_tokens : max_tokens;
  ULLAGE_TRY(const auto min_tokens, read_int(body, "min_tokens", {.min = 0}));
  fields.min_tokens = min_tokens.value_or(0);
  if (fields.max_tokens && fields.min_tokens > *fields.max_tokens) {
    return bad_field("min_tokens", fmt::format("'min_tokens' ({}) must be at most 'max_tokens' ({})", fields.min_tokens,
                                               *fields.max_tokens));
  }
  return {};
}

Result<void> read_sampling(const Json& body, GenerationFields& fields) {
  ULLAGE_TRY(fields.temperature, read_double(body, "temperature", {.min = 0}));
  ULLAGE_TRY(fields.top_p, read_double(body, "top_p", {0, 1}));
  if (fields.top_p && *fields.top_p == 0) return bad_field("top_p", "'top_p' must be in (0, 1], found 0");
  ULLAGE_TRY(fields.top_k, read_int(body, "top_k", {.min = -1}));
  ULLAGE_TRY(fields.min_p, read_double(body, "min_p", {0, 1}));
  ULLAGE_TRY(fields.repetition_penalty, read_double(body, "repetition_penalty", {.min = 0}));
  if (fields.repetition_penalty && *fields.repetition_penalty == 0) {
    return bad_field("repetition_penalty", "'repetition_penalty' must be greater than 0, found 0");
  }
  ULLAGE_TRY(const auto presence, read_double(body, "presence_penalty", {-2, 2}));
  ULLAGE_TRY(const auto frequency, read_double(body, "frequency_penalty", {-2, 2}));
  fields.presence_penalty = presence.value_or(0);
  fields.frequency_penalty = frequency.value_or(0);
  ULLAGE_TRY(const auto seed, read_int(body, "seed"));
  if (seed) fields.seed = static_cast<uint64_t>(*seed);
  ULLAGE_TRY(fields.logit_bias, read_logit_bias(body));
  return {};
}

Result<void> read_ending(const Json& body, const RequestLimits& limits, GenerationFields& fields) {
  ULLAGE_TRY(fields.stop, read_stop(body, limits));
  ULLAGE_TRY(const auto include_stop, read_bool(body, "include_stop_str_in_output"));
  fields.include_stop_str_in_output = include_stop.value_or(false);
  if (const Json* ids = find_member(body, "stop_token_ids")) {
    ULLAGE_TRY(fields.stop_token_ids, read_token_list(*ids, "stop_token_ids"));
    constexpr size_t kMaxStopTokens = 1024;
    if (fields.stop_token_ids.size() > kMaxStopTokens) {
      return bad_field("stop_token_ids", fmt::format("'stop_token_ids' must hold at most {} ids, found {}",
                                                     kMaxStopTokens, fields.stop_token_ids.size()));
    }
  }
  ULLAGE_TRY(const auto ignore_eos, read_bool(body, "ignore_eos"));
  fields.ignore_eos = ignore_eos.value_or(false);
  ULLAGE_TRY(const auto skip_special, read_bool(body, "skip_special_tokens"));
  fields.skip_special_tokens = skip_special.value_or(true);
  return {};
}

Result<void> read_output(const Json& body, GenerationFields& fields) {
  ULLAGE_TRY(const auto as_ids, read_bool(body, "return_tokens_as_token_ids"));
  fields.return_tokens_as_token_ids = as_ids.value_or(false);
  ULLAGE_TRY(const auto token_ids, read_bool(body, "return_token_ids"));
  fields.return_token_ids = token_ids.value_or(false);
  ULLAGE_TRY(const auto stream, read_bool(body, "stream"));
  fields.stream = stream.value_or(false);
  return read_stream_options(body, fields);
}

Result<void> read_placement(const Json& body, GenerationFields& fields) {
  ULLAGE_TRY(auto salt, read_string(body, "cache_salt"));
  if (salt && salt->empty()) return bad_field("cache_salt", "'cache_salt' must not be empty when it is given");
  if (salt && salt->size() > kMaxSaltBytes) {
    return bad_field("cache_salt",
                     fmt::format("'cache_salt' must be at most {} bytes, found {}", kMaxSaltBytes, salt->size()));
  }
  fields.cache_salt = std::move(salt).value_or("");
  ULLAGE_TRY(const auto priority, read_int(body, "priority"));
  fields.priority = priority.value_or(0);
  ULLAGE_TRY(auto request_id, read_string(body, "request_id"));
  fields.request_id = std::move(request_id).value_or("");
  ULLAGE_TRY(fields.truncate_prompt_tokens, read_int(body, "truncate_prompt_tokens", {.min = -1}));
  if (fields.truncate_prompt_tokens && *fields.truncate_prompt_tokens == 0) {
    return bad_field("truncate_prompt_tokens", "'truncate_prompt_tokens' must be -1 or at least 1, found 0");
  }
  ULLAGE_TRY(fields.add_special_tokens, read_bool(body, "add_special_tokens"));
  return {};
}

}  // namespace

Result<GenerationFields> read_generation_fields(const Json& body, const RequestLimits& limits) {
  GenerationFields fields;
  ULLAGE_TRY_VOID(refuse_unsupported(body));
  ULLAGE_TRY(auto model, read_string(body, "model"));
  fields.model = std::move(model).value_or("");
  ULLAGE_TRY_VOID(read_counts(body, limits, fields));
  ULLAGE_TRY_VOID(read_sampling(body, fields));
  ULLAGE_TRY_VOID(read_ending(body, limits, fields));
  ULLAGE_TRY_VOID(read_output(body, fields));
  ULLAGE_TRY_VOID(read_placement(body, fields));
  fields.ignored = list_unknown(body);
  return fields;
}

}  // namespace ullage::serve
