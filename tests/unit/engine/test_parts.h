// Small parts for engine tests: an executor that answers from a function, and a sink that keeps what it is told.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ullage/engine/engine.h"
#include "ullage/engine/executor.h"

namespace ullage::engine {

// Samples token 100 + output index, in 1 ms, unless told otherwise.
class FakeExecutor final : public Executor {
 public:
  Result<sched::StepResult> execute(const sched::StepPlan& plan) override {
    ++num_steps;
    if (on_execute) ULLAGE_TRY_VOID(on_execute(plan));
    sched::StepResult result;
    result.duration = 1'000'000;
    for (const sched::ScheduledRequest& request : plan.requests) {
      if (!request.is_sampled) continue;
      sched::SampledToken token;
      token.id = request.id;
      token.token = static_cast<TokenId>(100 + request.first_position + request.num_tokens - request.num_prompt_tokens);
      result.tokens.push_back(token);
    }
    if (change_result) change_result(result);
    return result;
  }
  const std::string& device_kind() const override { return kind_; }

  int64_t num_steps = 0;
  std::function<Result<void>(const sched::StepPlan&)> on_execute;
  std::function<void(sched::StepResult&)> change_result;

 private:
  std::string kind_ = "Fake";
};

// Keeps every event; counts arrivals, refusals and ends per request.
class KeepingSink final : public EventSink {
 public:
  struct Counts {
    int arrived = 0, rejected = 0, finished = 0, cancelled = 0, tokens = 0;
    int ends() const { return finished + cancelled; }
  };
  void on_events(std::span<const sched::Event> batch) override {
    for (const sched::Event& event : batch) {
      events.push_back(event);
      if (std::holds_alternative<sched::StepEvent>(event.body)) continue;
      Counts& counts = by_request[event.request.value];
      counts.arrived += std::holds_alternative<sched::ArrivedEvent>(event.body);
      counts.rejected += std::holds_alternative<sched::RejectedEvent>(event.body);
      counts.finished += std::holds_alternative<sched::FinishedEvent>(event.body);
      counts.cancelled += std::holds_alternative<sched::CancelledEvent>(event.body);
      counts.tokens += std::holds_alternative<sched::TokenEvent>(event.body);
    }
  }
  std::vector<TokenId> tokens_of(RequestId id) const {
    std::vector<TokenId> tokens;
    for (const sched::Event& event : events) {
      const auto* token = std::get_if<sched::TokenEvent>(&event.body);
      if (token != nullptr && event.request == id) tokens.push_back(token->sampled.token);
    }
    return tokens;
  }
  std::vector<sched::Event> events;
  std::map<int64_t, Counts> by_request;
};

inline EngineOptions small_options() {
  EngineOptions options;
  options.block_size = 4;
  options.num_blocks = 33;
  options.max_model_len = 64;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 32;
  options.is_paranoid = true;
  return options;
}

inline sched::RequestParams request(int64_t id, int64_t num_prompt_tokens, int64_t max_tokens, TokenId first = 1) {
  sched::RequestParams params;
  params.id = RequestId(id);
  for (int64_t i = 0; i < num_prompt_tokens; ++i) params.prompt.push_back(first + static_cast<TokenId>(i));
  params.stop.max_tokens = max_tokens;
  params.sampling.seed = static_cast<uint64_t>(id);
  return params;
}

}  // namespace ullage::engine
