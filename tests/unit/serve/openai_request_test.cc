#include "ullage/serve/openai_request.h"

#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace ullage::serve {
namespace {

std::string completion(const std::string& more) {
  return R"({"model": "m", "prompt": "p")" + (more.empty() ? "" : ", " + more) + "}";
}
std::string chat(const std::string& more) {
  return R"({"messages": [{"role": "user", "content": "p"}])" + (more.empty() ? "" : ", " + more) + "}";
}

TEST(CompletionRequest, ReadsEveryField) {
  const auto request = parse_completion_request(R"({
    "model": "m", "prompt": ["a", "b"], "n": 2, "best_of": 2, "max_tokens": 7, "min_tokens": 3, "temperature": 0.5,
    "top_p": 0.9, "top_k": 40, "min_p": 0.1, "repetition_penalty": 1.1, "presence_penalty": -1, "frequency_penalty": 2,
    "seed": -5, "logit_bias": {"7": -100, "3": 1.5}, "stop": ["x", "yz"], "include_stop_str_in_output": true,
    "stop_token_ids": [4, 5], "ignore_eos": true, "skip_special_tokens": false, "logprobs": 3, "stream": true,
    "stream_options": {"include_usage": true, "continuous_usage_stats": true}, "cache_salt": "s", "priority": -2,
    "request_id": "r", "truncate_prompt_tokens": 9, "add_special_tokens": false, "return_token_ids": true,
    "return_tokens_as_token_ids": true, "user": "u", "echo": false, "nonsense": 1, "other": null})");
  ASSERT_TRUE(request) << request.error().to_string();
  const GenerationFields& f = request->fields;
  ASSERT_EQ(request->prompts.size(), 2U);
  EXPECT_EQ(std::get<std::string>(request->prompts[1]), "b");
  EXPECT_EQ(f.model, "m");
  EXPECT_EQ(f.n, 2);
  EXPECT_EQ(f.max_tokens, 7);
  EXPECT_EQ(f.min_tokens, 3);
  EXPECT_EQ(f.temperature, 0.5);
  EXPECT_EQ(f.top_p, 0.9);
  EXPECT_EQ(f.top_k, 40);
  EXPECT_EQ(f.min_p, 0.1);
  EXPECT_EQ(f.repetition_penalty, 1.1);
  EXPECT_EQ(f.presence_penalty, -1);
  EXPECT_EQ(f.frequency_penalty, 2);
  EXPECT_EQ(f.seed, static_cast<uint64_t>(-5));
  EXPECT_EQ(f.logit_bias, (std::vector<std::pair<TokenId, float>>{{3, 1.5F}, {7, -100.F}}));
  EXPECT_EQ(f.stop, (std::vector<std::string>{"x", "yz"}));
  EXPECT_TRUE(f.include_stop_str_in_output);
  EXPECT_EQ(f.stop_token_ids, (std::vector<TokenId>{4, 5}));
  EXPECT_TRUE(f.ignore_eos);
  EXPECT_FALSE(f.skip_special_tokens);
  EXPECT_EQ(f.num_logprobs, 3);
  EXPECT_TRUE(f.stream && f.include_usage && f.continuous_usage_stats);
  EXPECT_EQ(f.cache_salt, "s");
  EXPECT_EQ(f.priority, -2);
  EXPECT_EQ(f.request_id, "r");
  EXPECT_EQ(f.truncate_prompt_tokens, 9);
  EXPECT_EQ(f.add_special_tokens, false);
  EXPECT_TRUE(f.return_token_ids && f.return_tokens_as_token_ids);
  EXPECT_EQ(f.ignored, (std::vector<std::string>{"nonsense"}));
}

TEST(CompletionRequest, ReadsEveryFormOfPrompt) {
  const auto ids = parse_completion_request(R"({"prompt": [1, 2.0, 3]})");
  ASSERT_TRUE(ids) << ids.error().to_string();
  ASSERT_EQ(ids->prompts.size(), 1U);
  EXPECT_EQ(std::get<std::vector<TokenId>>(ids->prompts[0]), (std::vector<TokenId>{1, 2, 3}));
  const auto lists = parse_completion_request(R"({"prompt": [[1], [2, 3]]})");
  ASSERT_TRUE(lists);
  ASSERT_EQ(lists->prompts.size(), 2U);
  EXPECT_EQ(std::get<std::vector<TokenId>>(lists->prompts[1]), (std::vector<TokenId>{2, 3}));
}

TEST(CompletionRequest, NullIsSilence) {
  const auto request = parse_completion_request(
      completion(R"("max_tokens": null, "logprobs": null, "stop": null, "seed": null, "temperature": null, "n": null,
                    "stream": null, "stream_options": null, "suffix": null, "logit_bias": null, "user": null,
                    "tools": [], "response_format": {"type": "text"}, "best_of": null, "use_beam_search": false)"));
  ASSERT_TRUE(request) << request.error().to_string();
  EXPECT_FALSE(request->fields.max_tokens);
  EXPECT_EQ(request->fields.num_logprobs, -1);
  EXPECT_EQ(request->fields.n, 1);
  EXPECT_TRUE(request->fields.ignored.empty());
}

struct Refusal {
  const char* fields;
  const char* where;
  ErrorCode code = ErrorCode::kInvalidArgument;
};

class RefusedCompletion : public testing::TestWithParam<Refusal> {};
TEST_P(RefusedCompletion, NamesTheField) {
  const auto request = parse_completion_request(completion(GetParam().fields));
  ASSERT_FALSE(request) << GetParam().fields;
  EXPECT_EQ(request.error().where, GetParam().where) << request.error().message;
  EXPECT_EQ(request.error().code, GetParam().code);
  EXPECT_FALSE(request.error().message.empty());
}
constexpr auto kUnsupported = ErrorCode::kUnsupported;
INSTANTIATE_TEST_SUITE_P(
    Fields, RefusedCompletion,
    testing::Values(
        Refusal{R"("prompt": 5)", "prompt"}, Refusal{R"("prompt": [])", "prompt"},
        Refusal{R"("prompt": [""  , 1])", "prompt/1"}, Refusal{R"("prompt": [1, "a"])", "prompt"},
        Refusal{R"("prompt": [-1])", "prompt"}, Refusal{R"("prompt": [3000000000])", "prompt"},
        Refusal{R"("prompt": [1.5])", "prompt"}, Refusal{R"("prompt": [[]])", "prompt/0"},
        Refusal{R"("prompt": null)", "prompt"}, Refusal{R"("model": 3)", "model"}, Refusal{R"("n": 0)", "n"},
        Refusal{R"("n": -1)", "n"}, Refusal{R"("n": 129)", "n"}, Refusal{R"("n": "2")", "n"},
        Refusal{R"("n": 1.5)", "n"}, Refusal{R"("n": true)", "n"}, Refusal{R"("n": 18446744073709551615)", "n"},
        Refusal{R"("best_of": 3)", "best_of", kUnsupported}, Refusal{R"("max_tokens": 0)", "max_tokens"},
        Refusal{R"("max_tokens": -7)", "max_tokens"}, Refusal{R"("max_tokens": "many")", "max_tokens"},
        Refusal{R"("max_tokens": 1e30)", "max_tokens"}, Refusal{R"("min_tokens": -1)", "min_tokens"},
        Refusal{R"("max_tokens": 3, "min_tokens": 4)", "min_tokens"}, Refusal{R"("temperature": -0.1)", "temperature"},
        Refusal{R"("temperature": "hot")", "temperature"}, Refusal{R"("top_p": 0)", "top_p"},
        Refusal{R"("top_p": 1.1)", "top_p"}, Refusal{R"("top_k": -2)", "top_k"}, Refusal{R"("min_p": 2)", "min_p"},
        Refusal{R"("repetition_penalty": 0)", "repetition_penalty"},
        Refusal{R"("presence_penalty": 2.5)", "presence_penalty"},
        Refusal{R"("frequency_penalty": -2.5)", "frequency_penalty"}, Refusal{R"("seed": 1.5)", "seed"},
        Refusal{R"("seed": 9223372036854775808)", "seed"}, Refusal{R"("logit_bias": [1])", "logit_bias"},
        Refusal{R"("logit_bias": {"x": 1})", "logit_bias"}, Refusal{R"("logit_bias": {"5": 101})", "logit_bias"},
        Refusal{R"("logit_bias": {"5": "a"})", "logit_bias"}, Refusal{R"("stop": 5)", "stop"},
        Refusal{R"("stop": "")", "stop"}, Refusal{R"("stop": ["a", 5])", "stop"},
        Refusal{R"("stop": ["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])", "stop"},
        Refusal{R"("stop_token_ids": 5)", "stop_token_ids"}, Refusal{R"("stop_token_ids": [-5])", "stop_token_ids"},
        Refusal{R"("ignore_eos": 1)", "ignore_eos"}, Refusal{R"("logprobs": -1)", "logprobs"},
        Refusal{R"("logprobs": 21)", "logprobs"}, Refusal{R"("logprobs": true)", "logprobs"},
        Refusal{R"("stream": "yes")", "stream"},
        Refusal{R"("stream_options": {"include_usage": true})", "stream_options"},
        Refusal{R"("stream": true, "stream_options": 5)", "stream_options"},
        Refusal{R"("stream": true, "stream_options": {"include_usage": 5})", "include_usage"},
        Refusal{R"("cache_salt": "")", "cache_salt"}, Refusal{R"("cache_salt": 5)", "cache_salt"},
        Refusal{R"("priority": "high")", "priority"},
        Refusal{R"("truncate_prompt_tokens": 0)", "truncate_prompt_tokens"},
        Refusal{R"("truncate_prompt_tokens": -2)", "truncate_prompt_tokens"}));
INSTANTIATE_TEST_SUITE_P(
    Unsupported, RefusedCompletion,
    testing::Values(Refusal{R"("tools": [{"type": "function"}])", "tools", kUnsupported},
                    Refusal{R"("tool_choice": "auto")", "tool_choice", kUnsupported},
                    Refusal{R"("functions": [{}])", "functions", kUnsupported},
                    Refusal{R"("response_format": {"type": "json_object"})", "response_format", kUnsupported},
                    Refusal{R"("response_format": "json")", "response_format"},
                    Refusal{R"("suffix": "end")", "suffix", kUnsupported},
                    Refusal{R"("prompt_logprobs": 0)", "prompt_logprobs", kUnsupported},
                    Refusal{R"("guided_json": {"a": 1})", "guided_json", kUnsupported},
                    Refusal{R"("structured_outputs": {"regex": "a"})", "structured_outputs", kUnsupported},
                    Refusal{R"("use_beam_search": true)", "use_beam_search", kUnsupported},
                    Refusal{R"("lora": "x")", "lora", kUnsupported},
                    Refusal{R"("echo": true, "logprobs": 1)", "echo", kUnsupported}));

TEST(CompletionRequest, RefusesBodiesThatAreNoRequests) {
  for (const char* body : {"", "{", "[]", "5", "null", "\"text\"", "{\"prompt\": \"\xff\"}", "{'prompt': 1}",
                           "{\"prompt\": \"a\"} x", "{\"prompt\": \"\\ud800\"}"}) {
    EXPECT_FALSE(parse_completion_request(body)) << body;
  }
  const std::string deep = "{\"prompt\": " + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_FALSE(parse_completion_request(deep));
}

TEST(CompletionRequest, RefusesWideObjectsQuickly) {
  std::string body = R"({"prompt": "a")";
  for (int i = 0; i < 300000; ++i) body += ",\"k" + std::to_string(i) + "\":1";
  body += "}";
  const auto request = parse_completion_request(body);
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().code, ErrorCode::kTooLarge);
}

// Each choice keeps its own: a megabyte here would be a gigabyte for a thousand choices.
TEST(CompletionRequest, BoundsWhatEveryChoiceKeeps) {
  const std::string half(2049, 'x');
  for (const auto& [field, where] : {std::pair{"\"stop\": [\"" + half + "\", \"" + half + "\"]", "stop"},
                                     std::pair{"\"cache_salt\": \"" + half + "\"", "cache_salt"}}) {
    const auto request = parse_completion_request("{\"prompt\": \"a\", " + field + "}");
    ASSERT_FALSE(request) << where;
    EXPECT_EQ(request.error().where, where);
    EXPECT_NE(request.error().message.find(" bytes"), std::string::npos) << request.error().message;
  }
}

TEST(CompletionRequest, BoundsTheNumberOfChoices) {
  RequestLimits limits;
  limits.max_choices = 6;
  EXPECT_TRUE(parse_completion_request(R"({"prompt": ["a", "b", "c"], "n": 2})", limits));
  const auto request = parse_completion_request(R"({"prompt": ["a", "b", "c", "d"], "n": 2})", limits);
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().where, "n");
}

TEST(ChatRequest, ReadsMessagesOfTextAndParts) {
  const auto request = parse_chat_request(R"({"messages": [
    {"role": "system", "content": "s"},
    {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "name": "n"},
    {"role": "assistant", "content": null}, {"role": "developer", "content": ""}],
    "max_tokens": 5, "max_completion_tokens": 9, "logprobs": true, "top_logprobs": 4})");
  ASSERT_TRUE(request) << request.error().to_string();
  ASSERT_EQ(request->messages.size(), 4U);
  EXPECT_EQ(request->messages[1].content, "one\ntwo");
  EXPECT_EQ(request->messages[2].content, "");
  EXPECT_EQ(request->fields.max_tokens, 9);
  EXPECT_EQ(request->fields.num_logprobs, 4);
  EXPECT_TRUE(request->add_generation_prompt);
}

TEST(ChatRequest, TopLogprobsNeedLogprobs) {
  EXPECT_TRUE(parse_chat_request(chat(R"("logprobs": false, "top_logprobs": 0)")));
  const auto request = parse_chat_request(chat(R"("top_logprobs": 2)"));
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().where, "top_logprobs");
}

class RefusedMessages : public testing::TestWithParam<Refusal> {};
TEST_P(RefusedMessages, NamesThePlace) {
  const auto request = parse_chat_request(std::string(R"({"messages": )") + GetParam().fields + "}");
  ASSERT_FALSE(request) << GetParam().fields;
  EXPECT_EQ(request.error().where, GetParam().where) << request.error().message;
  EXPECT_EQ(request.error().code, GetParam().code);
}
INSTANTIATE_TEST_SUITE_P(
    Messages, RefusedMessages,
    testing::Values(Refusal{"null", "messages"}, Refusal{"[]", "messages"}, Refusal{R"("hi")", "messages"},
                    Refusal{"[5]", "messages/0"}, Refusal{R"([{"content": "a"}])", "messages/0/role"},
                    Refusal{R"([{"role": 5, "content": "a"}])", "messages/0/role"},
                    Refusal{R"([{"role": "owner", "content": "a"}])", "messages/0/role"},
                    Refusal{R"([{"role": "tool", "content": "a"}])", "messages/0/role", kUnsupported},
                    Refusal{R"([{"role": "user"}])", "messages/0/content"},
                    Refusal{R"([{"role": "user", "content": 5}])", "messages/0/content"},
                    Refusal{R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])",
                            "messages/0/content/0", kUnsupported},
                    Refusal{R"([{"role": "user", "content": [{"type": "input_audio"}]}])", "messages/0/content/0",
                            kUnsupported},
                    Refusal{R"([{"role": "user", "content": [{"type": "text"}]}])", "messages/0/content/0"},
                    Refusal{R"([{"role": "user", "content": [{"text": "a"}]}])", "messages/0/content/0"},
                    Refusal{R"([{"role": "assistant", "tool_calls": [{}]}])", "messages/0/tool_calls", kUnsupported}));

TEST(TokenizeRequest, TakesTextOrMessages) {
  const auto text =
      parse_tokenize_request(R"({"prompt": "a", "add_special_tokens": false, "return_token_strs": true})");
  ASSERT_TRUE(text);
  EXPECT_FALSE(text->is_chat);
  EXPECT_EQ(text->add_special_tokens, false);
  EXPECT_TRUE(text->return_token_strs);
  const auto messages = parse_tokenize_request(chat(""));
  ASSERT_TRUE(messages);
  EXPECT_TRUE(messages->is_chat);
  EXPECT_FALSE(parse_tokenize_request("{}"));
  EXPECT_FALSE(parse_detokenize_request(R"({"tokens": [-1]})"));
  EXPECT_FALSE(parse_detokenize_request("{}"));
  ASSERT_TRUE(parse_detokenize_request(R"({"tokens": []})"));
}

}  // namespace
}  // namespace ullage::serve
