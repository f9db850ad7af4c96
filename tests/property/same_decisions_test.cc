// Invariant 6 across executors: the same recorded arrivals with the same sampled tokens give the same decision log,
// whether a real model ran on the CPU or a device was only modelled.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/property/random_session.h"
#include "ullage/base/clock.h"
#include "ullage/cpu/cpu_executor.h"
#include "ullage/engine/decision_log.h"
#include "ullage/engine/engine.h"
#include "ullage/engine/recording.h"
#include "ullage/engine/replay.h"
#include "ullage/hardware/device.h"
#include "ullage/model/checkpoint.h"
#include "ullage/sim/modelled_executor.h"
#include "ullage/sim/token_source.h"

namespace ullage {
namespace {

using Lines = std::vector<std::string>;

engine::DecisionLog::LineSink into(Lines& lines) {
  return [&lines](std::string_view line) { lines.emplace_back(line); };
}

int64_t count(const Lines& lines, std::string_view part) {
  return std::count_if(lines.begin(), lines.end(), [&](const auto& l) { return l.find(part) != std::string::npos; });
}

// Runs the session on the real executor, and gives the lines and the hash of its log.
Hash128 record(const property::Session& s, engine::Executor& executor, Lines& lines) {
  VirtualClock clock;
  engine::DecisionLog log(into(lines));
  engine::Engine engine(s.options, executor, clock);
  engine.set_decision_log(&log);
  size_t next = 0;
  for (int64_t step = 0; next < s.requests.size() || engine.has_work(); ++step) {
    for (; next < s.requests.size() && s.arrival_steps[next] <= step; ++next)
      (void)engine.add_request(s.requests[next]);
    for (size_t i = 0; i < next; ++i) {
      if (s.cancel_steps[i] == step) engine.cancel(s.requests[i].id);
    }
    const auto stepped = engine.step();
    EXPECT_TRUE(stepped) << stepped.error().to_string();
    if (!stepped) break;
    clock.advance(1000);
  }
  return log.hash();
}

void expect_same_decisions(const engine::Recording& recording, engine::Executor& executor, const Lines& lines) {
  VirtualClock clock;
  Lines replayed;
  const auto result = engine::replay(recording, executor, clock, into(replayed));
  ASSERT_TRUE(result) << executor.device_kind() << ": " << result.error().to_string();
  const auto [a, b] = std::mismatch(lines.begin(), lines.end(), replayed.begin(), replayed.end());
  EXPECT_TRUE(a == lines.end() && b == replayed.end())
      << executor.device_kind() << ", line " << a - lines.begin() << ":\n"
      << (a == lines.end() ? "(end)" : *a) << "\n"
      << (b == replayed.end() ? "(end)" : *b);
  EXPECT_EQ(to_hex(result->hash), to_hex(recording.hash)) << executor.device_kind();
}

TEST(SameDecisions, RecordedOnTheCpuReplayedOnModelledDevices) {
  auto checkpoint = model::Checkpoint::open(std::string(ULLAGE_SOURCE_DIR) + "/data/stories260K.gguf");
  ASSERT_TRUE(checkpoint) << checkpoint.error().to_string();
  const model::ModelShape& shape = checkpoint->shape();
  const sim::SeededTokens tokens(shape.vocab_size);
  int64_t num_steps = 0;
  int64_t num_preemptions = 0;
  int64_t num_cancels = 0;
  for (uint64_t seed = 1001; seed <= 1030; ++seed) {
    SCOPED_TRACE("session " + std::to_string(seed));
    const property::Session s = property::draw_session(seed, shape);
    const auto executor = [&] {
      return property::make_executor(*checkpoint, s.options, s.kv_dtype, s.num_threads, s.isa);
    };
    Lines lines;
    const Hash128 hash = record(s, *executor(), lines);
    std::string text;
    for (const auto& line : lines) text += line + "\n";
    const auto recording = engine::read_recording(text, "recording");
    ASSERT_TRUE(recording) << recording.error().to_string();
    EXPECT_EQ(to_hex(recording->hash), to_hex(hash));

    expect_same_decisions(*recording, *executor(), lines);
    for (const char* name : {"h100", "l4"}) {
      const auto device = hardware::find_device(name);
      ASSERT_TRUE(device) << device.error().to_string();
      VirtualClock clock;
      auto modelled = sim::ModelledExecutor::create(shape, *device, {}, tokens, clock);
      ASSERT_TRUE(modelled) << modelled.error().to_string();
      expect_same_decisions(*recording, **modelled, lines);
    }
    num_steps += recording->num_steps;
    num_preemptions += count(lines, "\"preempted\":[") - count(lines, "\"preempted\":[]");
    num_cancels += count(lines, "\"type\":\"cancel\"");
    if (HasFailure()) break;
  }
  std::cout << num_steps << " steps, " << num_preemptions << " of them with preemptions, " << num_cancels
            << " cancels\n";
  EXPECT_GT(num_preemptions, 5);
  EXPECT_GT(num_cancels, 5);
}

// The hash is no constant: one other sampled token gives another log.
TEST(SameDecisions, AnotherTokenGivesAnotherHash) {
  auto checkpoint = model::Checkpoint::open(std::string(ULLAGE_SOURCE_DIR) + "/data/stories260K.gguf");
  ASSERT_TRUE(checkpoint) << checkpoint.error().to_string();
  const property::Session s = property::draw_session(2001, checkpoint->shape());
  auto executor = property::make_executor(*checkpoint, s.options, s.kv_dtype, s.num_threads, s.isa);
  Lines lines;
  (void)record(s, *executor, lines);
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  auto recording = engine::read_recording(text, "recording");
  ASSERT_TRUE(recording) << recording.error().to_string();
  ASSERT_FALSE(recording->tokens.empty());
  TokenId& token = recording->tokens.begin()->second.front();
  token = token == 5 ? 6 : 5;
  VirtualClock clock;
  const auto result = engine::replay(*recording, *executor, clock);
  EXPECT_TRUE(!result || result->hash != recording->hash);
}

}  // namespace
}  // namespace ullage
