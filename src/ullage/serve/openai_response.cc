#include "ullage/serve/openai_response.h"

#include "ullage/serve/json_text.h"

namespace ullage::serve {
namespace {

const char* finish_name(sched::FinishReason reason) {
  switch (reason) {
    case sched::FinishReason::kStop:
      return "stop";
    case sched::FinishReason::kLength:
      return "length";
    case sched::FinishReason::kCancelled:
      return "abort";
  }
  return "stop";
}

void append_head(std::string& out, const ResponseHead& head, const char* object) {
  out += "{\"id\":";
  append_json_string(out, head.id);
  out += ",\"object\":\"";
  out += object;
  out += "\",\"created\":";
  append_json_int(out, head.created);
  out += ",\"model\":";
  append_json_string(out, head.model);
}

void append_usage(std::string& out, const Usage& usage) {
  out += "{\"prompt_tokens\":";
  append_json_int(out, usage.prompt_tokens);
  out += ",\"total_tokens\":";
  append_json_int(out, usage.prompt_tokens + usage.completion_tokens);
  out += ",\"completion_tokens\":";
  append_json_int(out, usage.completion_tokens);
  out += ",\"prompt_tokens_details\":{\"cached_tokens\":";
  append_json_int(out, usage.cached_tokens);
  out += "}}";
}

// ,"finish_reason":...,"stop_reason":...
void append_end(std::string& out, const ChoiceEnd* end) {
  out += ",\"finish_reason\":";
  if (end == nullptr) {
    out += "null,\"stop_reason\":null";
    return;
  }
  out += '"';
  out += finish_name(end->reason);
  out += "\",\"stop_reason\":";
  if (!end->stop_string.empty()) {
    append_json_string(out, end->stop_string);
  } else if (end->stop_token >= 0) {
    append_json_int(out, end->stop_token);
  } else {
    out += "null";
  }
}

void append_chat_logprob(std::string& out, const NamedLogprob& named) {
  out += "{\"token\":";
  append_json_string(out, named.token);
  out += ",\"logprob\":";
  append_json_float(out, named.logprob);
  out += ",\"bytes\":[";
  for (size_t i = 0; i < named.bytes.size(); ++i) {
    if (i > 0) out += ',';
    append_json_int(out, static_cast<unsigned char>(named.bytes[i]));
  }
  out += ']';
}

// {"content":[{"token","logprob","bytes","top_logprobs":[...]}]}
void append_chat_logprobs(std::string& out, std::span<const TokenLogprobs> tokens) {
  out += "{\"content\":[";
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append_chat_logprob(out, tokens[i].sampled);
    out += ",\"top_logprobs\":[";
    for (size_t k = 0; k < tokens[i].top.size(); ++k) {
      if (k > 0) out += ',';
      append_chat_logprob(out, tokens[i].top[k]);
      out += '}';
    }
    out += "]}";
  }
  out += "],\"refusal\":null}";
}

// A completion's token name: bytes that are no text have OpenAI's "bytes:" before them.
void append_completion_name(std::string& out, const NamedLogprob& named) {
  const bool is_spelled = named.token != named.bytes && named.token.starts_with("\\x");
  append_json_string(out, is_spelled ? "bytes:" + named.token : named.token);
}

// {"token": logprob, ...}: the sampled token first, then the most likely; a name appears once.
void append_top_map(std::string& out, const TokenLogprobs& token) {
  out += '{';
  append_completion_name(out, token.sampled);
  out += ':';
  append_json_float(out, token.sampled.logprob);
  for (size_t k = 0; k < token.top.size(); ++k) {
    const std::string& name = token.top[k].token;
    bool is_repeated = name == token.sampled.token;
    for (size_t j = 0; j < k && !is_repeated; ++j) is_repeated = token.top[j].token == name;
    if (is_repeated) continue;
    out += ',';
    append_completion_name(out, token.top[k]);
    out += ':';
    append_json_float(out, token.top[k].logprob);
  }
  out += '}';
}

template <class Append>
void append_list(std::string& out, const char* key, std::span<const TokenLogprobs> tokens, Append append) {
  out += key;
  out += '[';
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append(tokens[i]);
  }
  out += ']';
}

void append_completion_logprobs(std::string& out, std::span<const TokenLogprobs> tokens) {
  append_list(out, "{\"text_offset\":", tokens, [&](const auto& token) { append_json_int(out, token.text_offset); });
  append_list(out, ",\"token_logprobs\":", tokens,
              [&](const auto& token) { append_json_float(out, token.sampled.logprob); });
  append_list(out, ",\"tokens\":", tokens, [&](const auto& token) { append_completion_name(out, token.sampled); });
  append_list(out, ",\"top_logprobs\":", tokens, [&](const auto& token) { append_top_map(out, token); });
  out += '}';
}

void append_logprobs(std::string& out, const ResponseHead& head, std::span<const TokenLogprobs> tokens) {
  out += ",\"logprobs\":";
  if (!head.has_logprobs) {
    out += "null";
  } else if (head.api == Api::kChat) {
    append_chat_logprobs(out, tokens);
  } else {
    append_completion_logprobs(out, tokens);
  }
}

void append_ids(std::string& out, const char* key, std::span<const TokenId> ids) {
  out += key;
  append_json_ints(out, ids);
}

void append_choice_head(std::string& out, int64_t index) {
  out += "{\"index\":";
  append_json_int(out, index);
}

const char* chunk_object(Api api) { return api == Api::kChat ? "chat.completion.chunk" : "text_completion"; }

}  // namespace

std::string make_response_id(Api api, std::string_view unique) {
  std::string id = api == Api::kChat ? "chatcmpl-" : "cmpl-";
  id += unique;
  return id;
}

void append_chunk(std::string& out, const ResponseHead& head, const Chunk& chunk, const Usage* usage) {
  const ChoiceDelta& delta = *chunk.delta;
  out += "data: ";
  append_head(out, head, chunk_object(head.api));
  const bool has_prompt_ids = head.has_token_ids && chunk.is_first;
  if (has_prompt_ids && head.api == Api::kChat) append_ids(out, ",\"prompt_token_ids\":", chunk.prompt_tokens);
  out += ",\"choices\":[";
  append_choice_head(out, chunk.choice_index);
  if (head.api == Api::kChat) {
    out += chunk.is_first ? ",\"delta\":{\"role\":\"assistant\",\"content\":" : ",\"delta\":{\"content\":";
    append_json_string(out, delta.text);
    out += '}';
  } else {
    out += ",\"text\":";
    if (chunk.echo.empty()) {
      append_json_string(out, delta.text);
    } else {
      append_json_string(out, std::string(chunk.echo) + delta.text);
    }
  }
  append_logprobs(out, head, delta.logprobs ? std::span(&*delta.logprobs, 1) : std::span<const TokenLogprobs>());
  append_end(out, delta.end ? &*delta.end : nullptr);
  if (has_prompt_ids && head.api == Api::kCompletion) append_ids(out, ",\"prompt_token_ids\":", chunk.prompt_tokens);
  if (head.has_token_ids) append_ids(out, ",\"token_ids\":", std::span(&delta.token, 1));
  out += "}]";
  if (usage != nullptr) {
    out += ",\"usage\":";
    append_usage(out, *usage);
  } else if (head.has_usage) {
    out += ",\"usage\":null";
  }
  out += "}\n\n";
}

void append_usage_chunk(std::string& out, const ResponseHead& head, const Usage& usage) {
  out += "data: ";
  append_head(out, head, chunk_object(head.api));
  out += ",\"choices\":[],\"usage\":";
  append_usage(out, usage);
  out += "}\n\n";
}

void append_stream_error(std::string& out, const ApiError& error) {
  out += "data: ";
  out += format_error(error);
  out += "\n\n";
}

void append_stream_end(std::string& out) { out += "data: [DONE]\n\n"; }

std::string format_response(const ResponseHead& head, std::span<const ChoiceResult> choices, const Usage& usage) {
  const bool is_chat = head.api == Api::kChat;
  std::string out;
  append_head(out, head, is_chat ? "chat.completion" : "text_completion");
  out += ",\"choices\":[";
  for (size_t i = 0; i < choices.size(); ++i) {
    const ChoiceResult& choice = choices[i];
    if (i > 0) out += ',';
    append_choice_head(out, static_cast<int64_t>(i));
    out += is_chat ? ",\"message\":{\"role\":\"assistant\",\"content\":" : ",\"text\":";
    append_json_string(out, choice.text);
    if (is_chat) out += ",\"refusal\":null}";
    append_logprobs(out, head, choice.logprobs);
    append_end(out, &choice.end);
    if (head.has_token_ids) {
      if (!is_chat) append_ids(out, ",\"prompt_token_ids\":", choice.prompt_tokens);
      append_ids(out, ",\"token_ids\":", choice.tokens);
    }
    out += '}';
  }
  out += "],\"usage\":";
  append_usage(out, usage);
  if (head.has_token_ids && is_chat && !choices.empty()) {
    append_ids(out, ",\"prompt_token_ids\":", choices[0].prompt_tokens);
  }
  out += '}';
  return out;
}

}  // namespace ullage::serve
