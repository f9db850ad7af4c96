#include "ullage/sim/modelled_executor.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "ullage/engine/engine.h"
#include "ullage/sched/event.h"

namespace ullage::sim {
namespace {

model::ModelShape tiny() {
  model::ModelShape shape;
  shape.architecture = "llama";
  shape.vocab_size = 512;
  shape.hidden_size = 64;
  shape.max_position_embeddings = 512;
  model::Attention attention;
  attention.num_heads = 8;
  attention.num_kv_heads = 4;
  attention.head_dim = 8;
  shape.layers.assign(5, model::LayerShape{attention, model::DenseFfn{172, false}});
  return shape;
}

class Sink final : public engine::EventSink {
 public:
  void on_events(std::span<const sched::Event> batch) override {
    for (const sched::Event& event : batch) {
      if (const auto* token = std::get_if<sched::TokenEvent>(&event.body)) tokens.push_back(token->sampled);
      if (const auto* end = std::get_if<sched::FinishedEvent>(&event.body)) finished = *end;
      if (const auto* step = std::get_if<sched::StepEvent>(&event.body)) steps.push_back(*step);
    }
  }
  std::vector<TokenId> ids() const {
    std::vector<TokenId> out;
    for (const auto& token : tokens) out.push_back(token.token);
    return out;
  }
  std::vector<sched::SampledToken> tokens;
  std::vector<sched::StepEvent> steps;
  sched::FinishedEvent finished;
};

struct Outcome {
  Sink sink;
  Nanos elapsed = 0;
};

Outcome run(sched::RequestParams params, const TokenSource& source, const ModelledOptions& options = {},
            int64_t budget = 32) {
  VirtualClock clock;
  auto executor = *ModelledExecutor::create(tiny(), *hardware::find_device("h100"), options, source, clock);
  engine::EngineOptions engine_options;
  engine_options.block_size = 4;
  engine_options.num_blocks = 100;
  engine_options.max_model_len = 256;
  engine_options.max_num_batched_tokens = budget;
  engine::Engine engine(engine_options, *executor, clock);
  Outcome out;
  engine.add_sink(out.sink);
  params.id = RequestId(1);
  EXPECT_TRUE(engine.add_request(std::move(params)));
  while (engine.has_work()) EXPECT_TRUE(engine.step());
  out.elapsed = clock.now();
  return out;
}

sched::RequestParams request(int64_t num_prompt, int64_t max_tokens, uint64_t seed = 7) {
  sched::RequestParams params;
  params.prompt.assign(static_cast<size_t>(num_prompt), 5);
  params.stop.max_tokens = max_tokens;
  params.sampling.seed = seed;
  return params;
}

TEST(ModelledExecutor, TokensDependOnSeedAndIndexAlone) {
  const SeededTokens source(512, 3);
  const auto whole = run(request(20, 30), source).sink.ids();
  EXPECT_EQ(whole.size(), 30u);
  EXPECT_EQ(run(request(20, 30), source, {}, 3).sink.ids(), whole) << "not on chunking";
  EXPECT_NE(run(request(20, 30, 8), source).sink.ids(), whole);
  for (const TokenId token : whole) {
    EXPECT_GE(token, 3);
    EXPECT_LT(token, 512);
  }
  EXPECT_GT(std::set<TokenId>(whole.begin(), whole.end()).size(), 20u);
}

TEST(ModelledExecutor, FillerTextIsCycled) {
  const std::vector<TokenId> text{10, 11, 12, 13, 14};
  const auto ids = run(request(4, 12), FillerText(text)).sink.ids();
  for (size_t i = 1; i < ids.size(); ++i) EXPECT_EQ(ids[i], 10 + (ids[i - 1] - 10 + 1) % 5);
}

TEST(ModelledExecutor, ClockMovesByTheSumOfSteps) {
  const SeededTokens source(512);
  const Outcome r = run(request(20, 5), source);
  Nanos sum = 0;
  for (const auto& step : r.sink.steps) {
    EXPECT_GT(step.duration, 0);
    sum += step.duration;
  }
  EXPECT_EQ(r.elapsed, sum);
  const Outcome slow = run(request(20, 5), source, {.speed = 0.5});
  EXPECT_NEAR(static_cast<double>(slow.elapsed) / static_cast<double>(r.elapsed), 2.0, 0.05);
}

TEST(ModelledExecutor, NeverStopsByChance) {
  // Half of the vocabulary would end the request.
  auto params = request(4, 100);
  for (TokenId token = 0; token < 512; token += 2) params.stop.eos_token_ids.push_back(token);
  params.stop.stop_token_ids = {1, 3, 5};
  const Outcome r = run(params, SeededTokens(512));
  EXPECT_EQ(r.sink.finished.reason, sched::FinishReason::kLength);
  EXPECT_EQ(r.sink.tokens.size(), 100u);
}

TEST(ModelledExecutor, StopsWhenAskedTo) {
  auto params = request(4, 100);
  params.stop.eos_token_ids = {2};
  params.stop.min_tokens = 10;
  const ModelledOptions options{.eos_probability = 1.0};
  Outcome r = run(params, SeededTokens(512, 3), options);
  EXPECT_EQ(r.sink.finished.reason, sched::FinishReason::kStop);
  EXPECT_EQ(r.sink.tokens.size(), 11u) << "ten tokens, then EOS";
  params.stop.ignore_eos = true;
  r = run(params, SeededTokens(512, 3), options);
  EXPECT_EQ(r.sink.finished.reason, sched::FinishReason::kLength);
}

TEST(ModelledExecutor, LogprobsAreWhole) {
  auto params = request(4, 6);
  params.sampling.num_logprobs = 5;
  const Outcome r = run(params, SeededTokens(512));
  for (const auto& token : r.sink.tokens) {
    ASSERT_EQ(token.top.size(), 5u);
    EXPECT_EQ(token.rank, 1);
    EXPECT_LT(token.logprob, 0);
    EXPECT_EQ(token.top[0].token, token.token);
    std::set<TokenId> distinct;
    for (size_t i = 0; i < 5; ++i) {
      distinct.insert(token.top[i].token);
      if (i > 0) {
        EXPECT_LE(token.top[i].logprob, token.top[i - 1].logprob);
      }
    }
    EXPECT_EQ(distinct.size(), 5u);
  }
  params.sampling.num_logprobs = 0;
  for (const auto& token : run(params, FillerText({9})).sink.tokens) EXPECT_TRUE(token.top.empty());
  params.sampling.num_logprobs = 3;  // more than the source has
  for (const auto& token : run(params, FillerText({9})).sink.tokens) EXPECT_EQ(token.top.size(), 3u);
}

TEST(ModelledExecutor, IsNamedAfterItsDevice) {
  VirtualClock clock;
  const SeededTokens source(512);
  const auto device = *hardware::find_device("h100");
  EXPECT_EQ((*ModelledExecutor::create(tiny(), device, {}, source, clock))->device_kind(), "H100 (modelled)");
  EXPECT_FALSE(ModelledExecutor::create(tiny(), device, {.speed = 0}, source, clock));
  EXPECT_FALSE(ModelledExecutor::create(tiny(), device, {.eos_probability = 1.5}, source, clock));
}

}  // namespace
}  // namespace ullage::sim
