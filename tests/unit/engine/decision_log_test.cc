#include "ullage/engine/decision_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/engine/test_parts.h"
#include "ullage/engine/recording.h"
#include "ullage/engine/replay.h"

namespace ullage::engine {
namespace {

struct Logged {
  std::string text;
  Hash128 hash;
  int64_t num_steps = 0;
};

sched::RequestParams fancy_request() {
  sched::RequestParams params = request(3, 7, 5, 40);
  params.sampling.temperature = 0.7;
  params.sampling.top_p = 0.9;
  params.sampling.top_k = 40;
  params.sampling.seed = UINT64_MAX;
  params.sampling.num_logprobs = 3;
  params.sampling.logit_bias = {{5, -1.25f}, {9, 0.1f}};
  params.stop.min_tokens = 2;
  params.stop.ignore_eos = true;
  params.stop.eos_token_ids = {2};
  params.stop.stop_token_ids = {7, 8};
  params.priority = -4;
  params.arrival = 1;
  params.cache_salt = "s\"alt";
  return params;
}

// Two requests, a refusal, a cancel in mid-run, a finish of the caller's, and a third request.
Logged run_once(FakeExecutor& executor, bool has_sink = true) {
  Logged logged;
  DecisionLog log(has_sink ? DecisionLog::LineSink([&](std::string_view line) { (logged.text += line) += '\n'; })
                           : DecisionLog::LineSink{});
  VirtualClock clock;
  clock.advance(10);
  Engine engine(small_options(), executor, clock);
  engine.set_decision_log(&log);
  EXPECT_TRUE(engine.add_request(request(1, 10, 30)));
  EXPECT_TRUE(engine.add_request(request(2, 12, 30)));
  EXPECT_TRUE(engine.step());
  EXPECT_FALSE(engine.add_request(request(9, 500, 1)));
  EXPECT_TRUE(engine.add_request(fancy_request()));
  EXPECT_TRUE(engine.step());
  EXPECT_TRUE(engine.cancel(RequestId(1)));
  EXPECT_TRUE(engine.step());
  EXPECT_TRUE(engine.finish(RequestId(2), sched::FinishReason::kStop));
  while (engine.has_work()) EXPECT_TRUE(engine.step());
  logged.hash = log.hash();
  logged.num_steps = log.num_steps();
  return logged;
}

TEST(DecisionLog, HashNeedsNoSink) {
  FakeExecutor executor;
  const Logged with = run_once(executor);
  const Logged without = run_once(executor, false);
  EXPECT_EQ(with.hash, without.hash);
  EXPECT_NE(with.hash, Hash128{});
  EXPECT_TRUE(without.text.empty());
}

TEST(DecisionLog, LinesSayWhatWasDecided) {
  FakeExecutor executor;
  const std::string text = run_once(executor).text;
  EXPECT_EQ(text.rfind("{\"type\":\"header\",\"schema_version\":1,", 0), 0u);
  EXPECT_NE(text.find("{\"type\":\"step\",\"step\":0,\"scheduled\":[[1,0,10],[2,8,4]],\"preempted\":[],"
                      "\"admitted\":[[1,0],[2,8]],\"sampled\":[[1,100],[2,100]],\"finished\":[],"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\"type\":\"refuse\",\"step\":1,\"id\":9,\"code\":\"too_large\""), std::string::npos) << text;
  EXPECT_NE(text.find("{\"type\":\"cancel\",\"step\":2,\"id\":1}"), std::string::npos) << text;
  EXPECT_NE(text.find("{\"type\":\"finish\",\"step\":3,\"id\":2,\"reason\":\"stop\"}"), std::string::npos) << text;
}

TEST(DecisionLog, HashTellsTokensApart) {
  FakeExecutor executor;
  const Hash128 first = run_once(executor).hash;
  executor.change_result = [](sched::StepResult& result) {
    if (!result.tokens.empty()) result.tokens.back().token ^= 1;
  };
  EXPECT_NE(run_once(executor).hash, first);
}

TEST(Recording, ReadsWhatTheLogWrote) {
  FakeExecutor executor;
  const Logged logged = run_once(executor);
  const auto recording = read_recording(logged.text, "log");
  ASSERT_TRUE(recording) << recording.error().to_string();
  EXPECT_EQ(recording->hash, logged.hash);
  EXPECT_EQ(recording->num_steps, logged.num_steps);
  EXPECT_EQ(recording->options.num_blocks, 33);
  ASSERT_EQ(recording->arrivals.size(), 6u);  // four requests, a cancel, a finish
  const sched::RequestParams& read = recording->arrivals[3].params;
  const sched::RequestParams want = fancy_request();
  EXPECT_EQ(recording->arrivals[3].step_index, 1);
  EXPECT_EQ(read.id, want.id);
  EXPECT_EQ(read.prompt, want.prompt);
  EXPECT_EQ(read.sampling, want.sampling);
  EXPECT_EQ(read.stop, want.stop);
  EXPECT_EQ(read.priority, want.priority);
  EXPECT_EQ(read.arrival, want.arrival);
  EXPECT_EQ(read.cache_salt, want.cache_salt);
  EXPECT_EQ(recording->tokens.at(RequestId(2)), (std::vector<TokenId>{100, 101, 102}));
}

TEST(Recording, NamesTheBadLine) {
  FakeExecutor executor;
  const std::string good = run_once(executor).text;
  const size_t second_line = good.find('\n') + 1;
  const struct {
    std::string text, where;
  } rows[] = {
      {"", "log"},
      {"{}\n", "log:1"},
      {good.substr(second_line), "log:1"},
      {good.substr(0, second_line) + "[1]\n", "log:2"},
      {good.substr(0, second_line) + "{\"type\":\"dance\",\"step\":0}\n", "log:2"},
      {good.substr(0, second_line) + "{\"type\":\"step\",\"step\":4,\"hash\":\"00000000000000000000000000000000\"}\n",
       "log:2"},
      {good.substr(0, second_line) + "{\"type\":\"step\",\"step\":0,\"hash\":\"xyz\"}\n", "log:2"},
      {good.substr(0, second_line) + "{\"type\":\"request\",\"step\":0,\"prompt\":[1,\"a\"]}\n", "log:2/prompt"},
      {good.substr(0, second_line) + "{\"type\":\"cancel\",\"step\":7,\"id\":1}\n", "log:2"}};
  for (const auto& row : rows) {
    const auto recording = read_recording(row.text, "log");
    ASSERT_FALSE(recording) << row.text;
    EXPECT_EQ(recording.error().where, row.where) << recording.error().to_string();
  }
}

TEST(Replay, GivesTheSameLog) {
  FakeExecutor executor;
  // Tokens that the replaying executor would never sample by itself.
  executor.change_result = [](sched::StepResult& result) {
    for (auto& token : result.tokens) token.token = token.token * 17 % 91;
  };
  const Logged logged = run_once(executor);
  const auto recording = read_recording(logged.text, "log");
  ASSERT_TRUE(recording);
  FakeExecutor other;
  VirtualClock clock;
  std::string text;
  const auto replayed = replay(*recording, other, clock, [&](std::string_view line) { (text += line) += '\n'; });
  ASSERT_TRUE(replayed) << replayed.error().to_string();
  EXPECT_EQ(replayed->hash, logged.hash);
  EXPECT_EQ(replayed->num_steps, logged.num_steps);
  // All that was decided is the same, line for line.
  size_t at = 0;
  for (size_t end = logged.text.find('\n'); end != std::string::npos; end = logged.text.find('\n', at)) {
    const std::string line = logged.text.substr(at, end - at);
    if (line.find("\"type\":\"step\"") != std::string::npos) {
      EXPECT_NE(text.find(line), std::string::npos) << line;
    }
    at = end + 1;
  }
}

TEST(Replay, SaysWhenItHasLeftTheRecording) {
  FakeExecutor executor;
  auto recording = read_recording(run_once(executor).text, "log");
  ASSERT_TRUE(recording);
  recording->tokens[RequestId(2)].pop_back();
  VirtualClock clock;
  const auto replayed = replay(*recording, executor, clock);
  ASSERT_FALSE(replayed);
  EXPECT_NE(replayed.error().message.find("request 2"), std::string::npos) << replayed.error().message;
  recording = read_recording(run_once(executor).text, "log");
  recording->num_steps += 5;
  EXPECT_FALSE(replay(*recording, executor, clock));
}

}  // namespace
}  // namespace ullage::engine
