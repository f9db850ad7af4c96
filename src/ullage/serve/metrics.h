// What /metrics says: vLLM's names, true to their meaning here, and ullage_* for what vLLM does not have.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "ullage/engine/statistics.h"
#include "ullage/serve/model_info.h"

namespace ullage::serve {

// How a choice ended for its client.
enum class ChoiceEnding : uint8_t { kStop, kLength, kAbort, kError };

// The listener's calls come on the engine's thread; all other functions from any thread. An observation costs tens of
// nanoseconds: no label is looked up.
class Metrics final : public engine::StatisticsListener {
 public:
  // `prefix`: of the names that vLLM has too ("vllm:").
  Metrics(const std::string& prefix, const ModelInfo& model);
  ~Metrics() override;

  void on_first_token(const engine::RequestRecord& record) override;
  void on_inter_token(const engine::RequestRecord& record, Nanos gap) override;
  void on_request_end(const engine::RequestRecord& record) override;
  void on_step(const sched::StepEvent& step) override;
  // Brings counters and gauges up to the statistics. Engine's thread, after each batch of events.
  void update(const engine::Statistics& statistics);
  // Blocks in use now: a cancel frees blocks without a step. Engine's thread.
  void set_blocks(int64_t num_used, int64_t num_usable);

  // Of each prompt that has ended: what its client asked for, and the most tokens that one of its choices got.
  void observe_request(int64_t n, int64_t max_tokens, int64_t longest_output);
  // Of each choice that has ended. Told by who answers the client: a stop string ends a choice for which the engine,
  // some tokens later, has another reason.
  void count_ending(ChoiceEnding ending);
  void count_http(std::string_view route, int status);
  void set_connections(int64_t num_open);

  // The text format 0.0.4; reads the process's own figures first. About a millisecond.
  std::string serialize();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ullage::serve
