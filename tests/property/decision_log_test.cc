// Invariant 6: the same arrivals (recorded as step and request) and the same sampled tokens give the same decision log,
// whichever executor runs.
#include "ullage/engine/decision_log.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/property/replay_harness.h"
#include "ullage/hardware/device.h"
#include "ullage/sim/modelled_executor.h"

namespace ullage::testing {
namespace {

constexpr int kSessions = 50;

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

ExecutorFactory modelled(const char* device) {
  return [device](const engine::EngineOptions&, Clock& clock) -> std::unique_ptr<engine::Executor> {
    static const sim::SeededTokens source(512);
    auto executor =
        sim::ModelledExecutor::create(tiny(), *hardware::find_device(device), {.eos_probability = 0.05}, source, clock);
    EXPECT_TRUE(executor);
    return *std::move(executor);
  };
}

ExecutorFactory erratic(uint64_t seed) {
  return [seed](const engine::EngineOptions&, Clock& clock) {
    return std::make_unique<ErraticExecutor>(seed, 512, clock);
  };
}

TEST(DecisionLog, IsTheSameOnEveryExecutor) {
  for (uint64_t seed = 0; seed < kSessions; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Session session = record_session(seed, {}, modelled("h100"));
    expect_same_decisions(session, modelled("h100"), "the same device");
    expect_same_decisions(session, modelled("t4"), "another device");
    expect_same_decisions(session, erratic(seed), "an erratic executor");
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(DecisionLog, OfAnErraticExecutorIsTheSameOnAModelledOne) {
  for (uint64_t seed = 1000; seed < 1000 + kSessions; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    expect_same_decisions(record_session(seed, {}, erratic(seed)), modelled("h100"), "modelled");
    if (::testing::Test::HasFailure()) return;
  }
}

// The sessions do meet what they are meant to: else the test above would say little.
TEST(DecisionLog, SessionsPreemptHitChunkRefuseAndCancel) {
  int64_t preempted = 0, hits = 0, chunks = 0, refused = 0, cancelled = 0, finished = 0;
  std::set<Hash128> hashes;
  for (uint64_t seed = 0; seed < kSessions; ++seed) {
    const Session session = record_session(seed, {}, modelled("h100"));
    hashes.insert(session.hash);
    preempted += session.num_preempted > 0;
    hits += session.num_hit_tokens > 0;
    chunks += session.num_chunks > 0;
    refused += session.num_refused > 0;
    cancelled += session.num_cancelled > 0;
    finished += session.num_finished > 0;
  }
  EXPECT_EQ(hashes.size(), static_cast<size_t>(kSessions));
  for (const int64_t sessions : {preempted, hits, chunks, refused, cancelled, finished}) {
    EXPECT_GE(sessions, kSessions / 10);
  }
}

}  // namespace
}  // namespace ullage::testing
