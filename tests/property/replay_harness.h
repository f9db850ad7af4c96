// Invariant 6 for any executor: a random session is recorded on one, replayed on another, and the decision logs must be
// the same. An executor comes from a factory, so that the CPU executor can be put beside the modelled one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ullage/base/clock.h"
#include "ullage/base/random.h"
#include "ullage/engine/decision_log.h"
#include "ullage/engine/engine.h"
#include "ullage/engine/executor.h"
#include "ullage/engine/recording.h"
#include "ullage/engine/replay.h"

namespace ullage::testing {

// Makes a fresh executor for an engine of these options. The clock outlives it.
using ExecutorFactory = std::function<std::unique_ptr<engine::Executor>(const engine::EngineOptions&, Clock&)>;

struct SessionLimits {
  int64_t vocab_size = 512;
  int64_t max_model_len = 64;  // at most; the executors' model must reach it
  int64_t max_steps = 120;
};

// Small pools and budgets, so that chunks, hits, preemptions and refusals all come about.
inline engine::EngineOptions random_options(RandomStream& random, const SessionLimits& limits) {
  engine::EngineOptions options;
  options.block_size = int64_t{1} << random.below(5);
  options.max_model_len = 8 + static_cast<int64_t>(random.below(static_cast<uint64_t>(limits.max_model_len - 7)));
  const int64_t one_request = ceil_div(options.max_model_len, options.block_size);
  options.num_blocks = 2 + one_request / 2 + static_cast<int64_t>(random.below(static_cast<uint64_t>(3 * one_request)));
  options.max_num_seqs = 1 + static_cast<int64_t>(random.below(8));
  options.max_num_batched_tokens = 1 + static_cast<int64_t>(random.below(48));
  options.max_queue_len = 4 + static_cast<int64_t>(random.below(8));
  options.enable_prefix_caching = random.below(4) != 0;
  options.enable_chunked_prefill = random.below(4) != 0;
  options.is_priority_policy = random.below(2) != 0;
  options.is_paranoid = true;
  return options;
}

inline sched::RequestParams random_request(RandomStream& random, RequestId id, const engine::EngineOptions& options,
                                           const SessionLimits& limits) {
  sched::RequestParams params;
  params.id = id;
  // Prompts share prefixes: they are cut from two texts.
  const TokenId text = random.below(2) == 0 ? 3 : 100;
  const auto length = 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(options.max_model_len)));
  for (int64_t i = 0; i < length; ++i) {
    params.prompt.push_back(static_cast<TokenId>((text + i * 7) % limits.vocab_size));
  }
  if (random.below(3) == 0) params.prompt.back() = static_cast<TokenId>(random.below(16));
  params.stop.max_tokens = 1 + static_cast<int64_t>(random.below(24));
  params.stop.min_tokens = static_cast<int64_t>(random.below(static_cast<uint64_t>(params.stop.max_tokens)));
  for (int i = 0; i < 4; ++i) {
    params.stop.eos_token_ids.push_back(static_cast<TokenId>(random.below(static_cast<uint64_t>(limits.vocab_size))));
  }
  params.sampling.seed = random.bits();
  params.priority = static_cast<int64_t>(random.below(3));
  if (random.below(4) == 0) params.cache_salt = "salt";
  return params;
}

struct Session {
  std::string log;  // lines of the decision log
  Hash128 hash;
  int64_t num_steps = 0;
  // What came about.
  int64_t num_preempted = 0, num_hit_tokens = 0, num_chunks = 0, num_refused = 0, num_cancelled = 0, num_finished = 0;
};

// Counts what came about in a session.
class SessionCounter final : public engine::EventSink {
 public:
  explicit SessionCounter(Session& session) : session_(session) {}
  void on_events(std::span<const sched::Event> events) override {
    for (const sched::Event& event : events) {
      session_.num_preempted += std::holds_alternative<sched::PreemptedEvent>(event.body);
      session_.num_refused += std::holds_alternative<sched::RejectedEvent>(event.body);
      session_.num_cancelled += std::holds_alternative<sched::CancelledEvent>(event.body);
      session_.num_finished += std::holds_alternative<sched::FinishedEvent>(event.body);
      if (const auto* hit = std::get_if<sched::AdmittedEvent>(&event.body)) {
        session_.num_hit_tokens += hit->num_cached_tokens;
      } else if (const auto* chunk = std::get_if<sched::ChunkComputedEvent>(&event.body)) {
        session_.num_chunks += chunk->is_prompt && chunk->first_position > 0;
      }
    }
  }

 private:
  Session& session_;
};

// Random arrivals, cancels and finishes on the executor of `make`, until all have ended or max_steps are run.
inline Session record_session(uint64_t seed, const SessionLimits& limits, const ExecutorFactory& make) {
  RandomStream random(seed, 6);
  const engine::EngineOptions options = random_options(random, limits);
  VirtualClock clock;
  clock.advance(1);
  Session session;
  engine::DecisionLog log([&](std::string_view line) { (session.log += line) += '\n'; });
  const std::unique_ptr<engine::Executor> executor = make(options, clock);
  engine::Engine engine(options, *executor, clock);
  engine.set_decision_log(&log);
  SessionCounter counter(session);
  engine.add_sink(counter);
  int64_t num_requests = 0;
  const auto some_id = [&] {
    return RequestId(1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(num_requests))));
  };
  while (log.num_steps() < limits.max_steps) {
    const bool is_arriving = log.num_steps() < limits.max_steps / 2;
    if (is_arriving) {
      for (uint64_t n = random.below(3); n > 0; --n) {
        (void)engine.add_request(random_request(random, RequestId(++num_requests), options, limits));
      }
    }
    if (num_requests > 0 && random.below(10) == 0) engine.cancel(some_id());
    if (num_requests > 0 && random.below(20) == 0) engine.finish(some_id(), sched::FinishReason::kStop);
    const Result<bool> stepped = engine.step();
    EXPECT_TRUE(stepped) << stepped.error().to_string();
    if (!stepped || (!*stepped && !is_arriving)) break;
  }
  session.hash = log.hash();
  session.num_steps = log.num_steps();
  return session;
}

// Replays on the executor of `make`; a failure shows the first line that differs.
inline void expect_same_decisions(const Session& session, const ExecutorFactory& make, std::string_view name) {
  const Result<engine::Recording> recording = engine::read_recording(session.log, "recording");
  ASSERT_TRUE(recording) << recording.error().to_string();
  engine::EngineOptions options = recording->options;
  VirtualClock clock;
  const std::unique_ptr<engine::Executor> executor = make(options, clock);
  std::string log;
  const Result<engine::ReplayResult> replayed =
      engine::replay(*recording, *executor, clock, [&](std::string_view line) { (log += line) += '\n'; });
  ASSERT_TRUE(replayed) << name << ": " << replayed.error().to_string();
  EXPECT_EQ(replayed->num_steps, session.num_steps) << name;
  if (replayed->hash == session.hash) return;
  size_t line_begin = 0;
  for (size_t i = 0; i < std::min(log.size(), session.log.size()) && log[i] == session.log[i]; ++i) {
    if (log[i] == '\n') line_begin = i + 1;
  }
  const auto line = [&](const std::string& text) {
    return text.substr(line_begin, text.find('\n', line_begin) - line_begin);
  };
  ADD_FAILURE() << name << " decided otherwise\n recorded: " << line(session.log) << "\n replayed: " << line(log);
}

// Tokens and durations from a hash of everything: nothing like a model.
class ErraticExecutor final : public engine::Executor {
 public:
  ErraticExecutor(uint64_t seed, int64_t vocab_size, Clock& clock)
      : random_(seed, 66), vocab_size_(vocab_size), clock_(clock) {}
  Result<sched::StepResult> execute(const sched::StepPlan& plan) override {
    sched::StepResult result;
    result.duration = static_cast<Nanos>(1 + random_.below(10'000'000'000));
    for (const sched::ScheduledRequest& request : plan.requests) {
      if (!request.is_sampled) continue;
      sched::SampledToken token;
      token.id = request.id;
      token.token = static_cast<TokenId>(random_.below(static_cast<uint64_t>(vocab_size_)));
      result.tokens.push_back(std::move(token));
    }
    clock_.sleep_until(clock_.now() + result.duration);
    return result;
  }
  const std::string& device_kind() const override { return kind_; }

 private:
  RandomStream random_;
  int64_t vocab_size_;
  Clock& clock_;
  std::string kind_ = "Erratic";
};

}  // namespace ullage::testing
