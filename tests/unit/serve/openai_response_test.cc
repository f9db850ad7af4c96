#include "ullage/serve/openai_response.h"

#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ullage/base/json.h"
#include "ullage/serve/api_error.h"
#include "ullage/serve/json_text.h"

namespace ullage::serve {
namespace {

Json parse(const std::string& text) {
  auto json = parse_json(text, "test");
  EXPECT_TRUE(json) << text;
  return json ? *json : Json();
}
// The document of one server-sent event.
Json event(const std::string& text) {
  EXPECT_TRUE(text.starts_with("data: "));
  EXPECT_TRUE(text.ends_with("\n\n"));
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find('\n'), text.size() - 2);
  return parse(text.substr(6, text.size() - 8));
}

ResponseHead head_of(Api api) {
  ResponseHead head;
  head.api = api;
  head.id = make_response_id(api, "1");
  head.model = "m";
  head.created = 5;
  return head;
}

Chunk chunk_of(const ChoiceDelta& delta, int64_t index, bool is_first) {
  Chunk chunk;
  chunk.choice_index = index;
  chunk.is_first = is_first;
  chunk.delta = &delta;
  return chunk;
}

TokenLogprobs logprobs_of(std::string token, float logprob) {
  TokenLogprobs result;
  result.sampled = {token, token, logprob};
  result.top = {{token, token, logprob}, {"\\xff", "\xff", -std::numeric_limits<float>::infinity()}};
  return result;
}

TEST(Chunk, OfAChatHasTheRoleFirstAndTheReasonLast) {
  ResponseHead head = head_of(Api::kChat);
  head.has_usage = true;
  ChoiceDelta delta;
  delta.text = "Hi \"you\"\n";
  std::string out;
  append_chunk(out, head, chunk_of(delta, 1, true), nullptr);
  EXPECT_EQ(event(out), parse(R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":5,"model":"m","choices":[
    {"index":1,"delta":{"role":"assistant","content":"Hi \"you\"\n"},"logprobs":null,"finish_reason":null,
     "stop_reason":null}],"usage":null})"));
  delta.text = "";
  delta.end = ChoiceEnd{sched::FinishReason::kLength, "", -1};
  const Usage usage{3, 4, 2};
  out.clear();
  append_chunk(out, head, chunk_of(delta, 0, false), &usage);
  const Json last = event(out);
  EXPECT_EQ(last["choices"][0]["delta"], parse(R"({"content":""})"));
  EXPECT_EQ(last["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(last["usage"], parse(R"({"prompt_tokens":3,"total_tokens":7,"completion_tokens":4,
                                     "prompt_tokens_details":{"cached_tokens":2}})"));
}

TEST(Chunk, OfACompletionCarriesEchoLogprobsAndIds) {
  ResponseHead head = head_of(Api::kCompletion);
  head.has_logprobs = true;
  head.has_token_ids = true;
  ChoiceDelta delta;
  delta.text = "b";
  delta.token = 98;
  delta.logprobs = logprobs_of("b", -0.5F);
  delta.end = ChoiceEnd{sched::FinishReason::kStop, "STOP", -1};
  const std::vector<TokenId> prompt = {1, 2};
  std::string out;
  Chunk chunk = chunk_of(delta, 0, true);
  chunk.echo = "a";
  chunk.prompt_tokens = prompt;
  append_chunk(out, head, chunk, nullptr);
  EXPECT_EQ(event(out), parse(R"({"id":"cmpl-1","object":"text_completion","created":5,"model":"m","choices":[
    {"index":0,"text":"ab","logprobs":{"text_offset":[0],"token_logprobs":[-0.5],"tokens":["b"],
     "top_logprobs":[{"b":-0.5,"bytes:\\xff":-9999.0}]},"finish_reason":"stop","stop_reason":"STOP",
     "prompt_token_ids":[1,2],"token_ids":[98]}]})"));
}

TEST(Stream, EndsWithUsageAndDone) {
  std::string out;
  append_usage_chunk(out, head_of(Api::kChat), {1, 2, 0});
  EXPECT_EQ(event(out)["choices"], Json::array());
  EXPECT_EQ(event(out)["usage"]["total_tokens"], 3);
  out.clear();
  append_stream_end(out);
  EXPECT_EQ(out, "data: [DONE]\n\n");
  ApiError error;
  error.message = "broken";
  out.clear();
  append_stream_error(out, error);
  EXPECT_EQ(event(out)["error"]["message"], "broken");
}

TEST(Response, OfAChatHasMessagesAndLogprobs) {
  ResponseHead head = head_of(Api::kChat);
  head.has_logprobs = true;
  head.has_token_ids = true;
  std::vector<ChoiceResult> choices(2);
  choices[0].text = "hi";
  choices[0].tokens = {7, 8};
  choices[0].logprobs = {logprobs_of("hi", -1.25F)};
  const std::vector<TokenId> prompt = {1};
  choices[0].prompt_tokens = prompt;
  choices[1].end.stop_token = 9;
  const Json json = parse(format_response(head, choices, {1, 2, 0}));
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["choices"][0]["message"], parse(R"({"role":"assistant","content":"hi","refusal":null})"));
  EXPECT_EQ(json["choices"][0]["logprobs"]["content"][0], parse(R"({"token":"hi","logprob":-1.25,"bytes":[104,105],
    "top_logprobs":[{"token":"hi","logprob":-1.25,"bytes":[104,105]},
                    {"token":"\\xff","logprob":-9999.0,"bytes":[255]}]})"));
  EXPECT_EQ(json["choices"][0]["token_ids"], parse("[7,8]"));
  EXPECT_EQ(json["prompt_token_ids"], parse("[1]"));
  EXPECT_EQ(json["choices"][1]["index"], 1);
  EXPECT_EQ(json["choices"][1]["stop_reason"], 9);
}

TEST(Response, OfACompletionIsTextCompletion) {
  std::vector<ChoiceResult> choices(1);
  choices[0].text = "x";
  const Json json = parse(format_response(head_of(Api::kCompletion), choices, {3, 1, 2}));
  EXPECT_EQ(json["object"], "text_completion");
  EXPECT_EQ(json["choices"][0], parse(R"({"index":0,"text":"x","logprobs":null,"finish_reason":"stop",
                                          "stop_reason":null})"));
  EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
}

TEST(ErrorBody, IsOpenAis) {
  const ApiError bad = to_api_error(Error{ErrorCode::kInvalidArgument, "no \"good\"", "n"});
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(parse(format_error(bad)),
            parse(R"({"error":{"message":"no \"good\"","type":"invalid_request_error","param":"n","code":null}})"));
  EXPECT_EQ(to_api_error(Error{ErrorCode::kNotFound, "m", "model"}).status, 404);
  const ApiError full = to_api_error(Error{ErrorCode::kUnavailable, "full", ""});
  EXPECT_EQ(full.status, 429);
  EXPECT_GT(full.retry_after_seconds, 0);
  EXPECT_EQ(to_api_error(Error{ErrorCode::kTooLarge, "m", "prompt"}).code, "context_length_exceeded");
  EXPECT_EQ(to_api_error(Error{ErrorCode::kInternal, "m", ""}).status, 500);
}

TEST(JsonText, EscapesWhatJsonMustEscapeAndReplacesWhatIsNoText) {
  std::string out;
  using namespace std::string_literals;
  append_json_string(out, "a\0\x1f\"\\\t\xC3\xA9\xED\xA0\x80\xF0\x9F\x98\x80\xFFz"s);
  EXPECT_EQ(parse(out).get<std::string>(),
            "a\0\x1f\"\\\t\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xF0\x9F\x98\x80\xEF\xBF\xBDz"s);
}

TEST(JsonText, FloatsReadBackTheSame) {
  for (const float value : {0.0F, -1.0F, -0.1F, -12.34567F, 1e-9F, -1e20F}) {
    std::string out;
    append_json_float(out, value);
    EXPECT_EQ(parse(out).get<float>(), value < -9999.0F ? -9999.0F : value) << out;
    EXPECT_TRUE(parse(out).is_number_float()) << out;
  }
}

}  // namespace
}  // namespace ullage::serve
