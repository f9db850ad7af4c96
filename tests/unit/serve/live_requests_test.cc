#include "ullage/serve/live_requests.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/serve/byte_tokenizer.h"
#include "ullage/base/json.h"
#include "ullage/serve/metrics.h"

namespace ullage::serve {
namespace {

class FakeEngine final : public EngineCommands {
 public:
  Result<void> submit(sched::RequestParams params) override {
    if (is_full) return Error{ErrorCode::kUnavailable, "full", ""};
    submitted.push_back(std::move(params));
    return {};
  }
  void cancel(RequestId id) override { cancelled.push_back(id.value); }
  void finish(RequestId id, sched::FinishReason) override { finished.push_back(id.value); }
  std::string failure() const override { return reason; }

  bool is_full = false;
  std::string reason;
  std::vector<sched::RequestParams> submitted;
  std::vector<int64_t> cancelled;
  std::vector<int64_t> finished;
};

class FakeExchange final : public Exchange {
 public:
  FakeExchange() { response.status = 0; }
  void on_gone(std::function<void()> gone) override { gone_ = std::move(gone); }
  void set_route(std::string_view) override {}
  void respond(HttpResponse answer) override {
    response = std::move(answer);
    ++num_ends;
  }
  void start_stream(const Headers&) override { ++num_starts; }
  void write(std::string_view data) override {
    stream += data;
    if (leaves_on_write) std::exchange(gone_, nullptr)();
  }
  void finish() override { ++num_ends; }
  void leave() { std::exchange(gone_, nullptr)(); }

  HttpResponse response;  // status 0 = none yet
  std::string stream;
  int num_starts = 0;
  int num_ends = 0;
  bool leaves_on_write = false;

 private:
  std::function<void()> gone_;
};

// The documents of a stream; "[DONE]" becomes null.
std::vector<Json> documents(const std::string& stream) {
  std::vector<Json> result;
  size_t at = 0;
  while (at < stream.size()) {
    const size_t end = stream.find("\n\n", at);
    EXPECT_EQ(stream.substr(at, 6), "data: ");
    const std::string text = stream.substr(at + 6, end - at - 6);
    result.push_back(text == "[DONE]" ? Json() : *parse_json(text, "stream"));
    at = end + 2;
  }
  return result;
}

class LiveRequestsTest : public testing::Test {
 protected:
  LiveRequestsTest() : metrics("vllm:", model_of()), live(engine, tokenizer, metrics) {}

  static ModelInfo model_of() {
    ModelInfo model;
    model.names = {"m"};
    model.max_model_len = 1000;
    return model;
  }
  std::shared_ptr<FakeExchange> start(bool stream, const std::string& more = "") {
    const std::string body = std::string(R"({"prompt": "hey", "stream": )") + (stream ? "true" : "false") + more + "}";
    auto request = parse_completion_request(body);
    EXPECT_TRUE(request) << request.error().to_string();
    auto prepared = prepare(std::move(*request), model_of(), tokenizer);
    EXPECT_TRUE(prepared);
    auto exchange = std::make_shared<FakeExchange>();
    ResponseHead head;
    head.id = "cmpl-1";
    head.model = "m";
    head.has_usage = prepared->fields.include_usage;
    live.start(std::move(*prepared), head, 1, 0, exchange);
    return exchange;
  }
  template <class Body>
  static sched::Event event(int64_t id, Body body) {
    return sched::Event{0, RequestId(id), std::move(body)};
  }
  static sched::Event token(int64_t id, char c) {
    sched::TokenEvent body;
    body.sampled.token = static_cast<unsigned char>(c);
    return event(id, body);
  }
  static sched::Event finished(int64_t id, sched::FinishReason reason) {
    sched::FinishedEvent body;
    body.reason = reason;
    return event(id, body);
  }
  void arrive(int64_t id) {
    sched::AdmittedEvent admitted;
    admitted.num_cached_tokens = 2;
    live.on_events(std::vector{event(id, sched::ArrivedEvent{4}), event(id, admitted)});
  }

  ByteTokenizer tokenizer;
  FakeEngine engine;
  Metrics metrics;
  LiveRequests live;
};

TEST_F(LiveRequestsTest, StreamsOneChunkATokenWithTheReasonOnTheLast) {
  const auto exchange = start(true, R"(, "stream_options": {"include_usage": true})");
  EXPECT_EQ(exchange->num_starts, 0);  // a refusal could still come
  arrive(1);
  EXPECT_EQ(exchange->num_starts, 1);
  live.on_events(std::vector{token(1, 'a')});
  live.on_events(std::vector{token(1, 'b'), finished(1, sched::FinishReason::kLength)});
  const auto docs = documents(exchange->stream);
  ASSERT_EQ(docs.size(), 4U);
  EXPECT_EQ(docs[0]["choices"][0]["text"], "a");
  EXPECT_TRUE(docs[0]["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(docs[1]["choices"][0]["text"], "b");
  EXPECT_EQ(docs[1]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(docs[2]["choices"].size(), 0U);
  EXPECT_EQ(docs[2]["usage"]["completion_tokens"], 2);
  EXPECT_EQ(docs[2]["usage"]["prompt_tokens"], 4);
  EXPECT_EQ(docs[2]["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
  EXPECT_TRUE(docs[3].is_null());
  EXPECT_EQ(exchange->num_ends, 1);
  EXPECT_EQ(live.num_live(), 0);
  EXPECT_TRUE(engine.cancelled.empty());
}

TEST_F(LiveRequestsTest, AWholeAnswerIsTheStreamsText) {
  const auto exchange = start(false, R"(, "n": 2, "echo": true)");
  arrive(1);
  arrive(2);
  EXPECT_NE(engine.submitted[0].sampling.seed, engine.submitted[1].sampling.seed);
  live.on_events(std::vector{token(1, 'a'), token(2, 'x'), finished(2, sched::FinishReason::kStop)});
  EXPECT_EQ(exchange->num_ends, 0);
  live.on_events(std::vector{token(1, 'b'), finished(1, sched::FinishReason::kLength)});
  ASSERT_EQ(exchange->response.status, 200);
  const Json json = *parse_json(exchange->response.body, "body");
  EXPECT_EQ(json["choices"][0]["text"], "heyab");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(json["choices"][1]["text"], "heyx");
  EXPECT_EQ(json["usage"]["prompt_tokens"], 4);  // once, whatever n
  EXPECT_EQ(json["usage"]["completion_tokens"], 3);
}

TEST_F(LiveRequestsTest, AStopStringEndsTheEnginesRequest) {
  const auto exchange = start(true, R"(, "stop": "bc")");
  arrive(1);
  live.on_events(std::vector{token(1, 'a')});
  live.on_events(std::vector{token(1, 'b')});
  live.on_events(std::vector{token(1, 'c')});
  EXPECT_EQ(engine.finished, (std::vector<int64_t>{1}));
  live.on_events(std::vector{token(1, 'd')});  // was on its way
  const auto docs = documents(exchange->stream);
  ASSERT_EQ(docs.size(), 4U);
  EXPECT_EQ(docs[1]["choices"][0]["text"], "");
  EXPECT_EQ(docs[2]["choices"][0]["text"], "");
  EXPECT_EQ(docs[2]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(docs[2]["choices"][0]["stop_reason"], "bc");
  EXPECT_EQ(exchange->num_ends, 1);
}

// The engine goes on until it hears of the stop string, and may end for a reason that the client never sees.
TEST_F(LiveRequestsTest, EndingsAreCountedAsTheClientSeesThem) {
  const auto exchange = start(false, R"(, "stop": "b", "n": 3)");
  for (const int64_t id : {1, 2, 3}) arrive(id);
  live.on_events(std::vector{token(1, 'b')});
  live.on_events(std::vector{token(1, 'c'), finished(1, sched::FinishReason::kLength)});
  live.on_events(std::vector{token(2, 'c'), finished(2, sched::FinishReason::kLength)});
  exchange->leave();
  const std::string text = metrics.serialize();
  for (const char* reason : {"stop", "length", "abort"}) {
    EXPECT_NE(text.find(std::string("finished_reason=\"") + reason + "\",model_name=\"m\"} 1"), std::string::npos)
        << reason << '\n'
        << text.substr(text.find("request_success_total"), 600);
  }
}

TEST_F(LiveRequestsTest, AClientThatLeavesIsCancelled) {
  const auto exchange = start(true, R"(, "n": 2)");
  arrive(1);
  exchange->leave();
  EXPECT_EQ(engine.cancelled, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(live.num_live(), 0);
  live.on_events(std::vector{token(1, 'a'), event(2, sched::CancelledEvent{})});
  EXPECT_EQ(exchange->num_ends, 0);
}

TEST_F(LiveRequestsTest, AClientMayLeaveInTheMiddleOfAWrite) {
  const auto exchange = start(true);
  arrive(1);
  exchange->leaves_on_write = true;
  live.on_events(std::vector{token(1, 'a'), token(1, 'b'), finished(1, sched::FinishReason::kLength)});
  EXPECT_EQ(live.num_live(), 0);
  EXPECT_EQ(exchange->num_ends, 0);
}

TEST_F(LiveRequestsTest, ARefusalHasItsOwnStatus) {
  const auto full = start(true);
  live.on_events(std::vector{event(1, sched::RejectedEvent{Error{ErrorCode::kUnavailable, "queue full", "q"}})});
  EXPECT_EQ(full->response.status, 429);
  EXPECT_EQ(full->num_starts, 0);
  const auto large = start(false, R"(, "n": 2)");
  arrive(2);
  live.on_events(std::vector{event(3, sched::RejectedEvent{Error{ErrorCode::kTooLarge, "no room", ""}})});
  EXPECT_EQ(large->response.status, 400);
  EXPECT_EQ(engine.cancelled, (std::vector<int64_t>{2}));  // its sibling had been taken
  engine.is_full = true;
  EXPECT_EQ(start(false)->response.status, 429);
  EXPECT_EQ(live.num_live(), 0);
}

TEST_F(LiveRequestsTest, AnEngineThatFailsEndsItsStreamsWithAnError) {
  const auto streamed = start(true);
  const auto whole = start(false);
  arrive(1);
  arrive(2);
  live.on_events(std::vector{token(1, 'a')});
  engine.reason = "out of luck";
  live.on_events(std::vector{event(1, sched::CancelledEvent{}), event(2, sched::CancelledEvent{})});
  const auto docs = documents(streamed->stream);
  ASSERT_EQ(docs.size(), 3U);
  EXPECT_EQ(docs[1]["error"]["code"], "engine_failed");
  EXPECT_EQ(whole->response.status, 503);
  EXPECT_EQ(live.num_live(), 0);
}

TEST_F(LiveRequestsTest, CancelAllAnswersEverybody) {
  const auto streamed = start(true);
  const auto whole = start(false);
  arrive(1);
  live.cancel_all();
  EXPECT_EQ(documents(streamed->stream).size(), 2U);
  EXPECT_EQ(whole->response.status, 503);
  EXPECT_EQ(engine.cancelled.size(), 2U);
  EXPECT_EQ(live.num_live(), 0);
}

}  // namespace
}  // namespace ullage::serve
