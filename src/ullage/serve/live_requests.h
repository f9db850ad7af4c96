// The requests that the engine works on for clients: their choices' events become chunks or whole answers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ullage/base/ids.h"
#include "ullage/base/units.h"
#include "ullage/sched/event.h"
#include "ullage/serve/http_types.h"
#include "ullage/serve/openai_response.h"
#include "ullage/serve/prepare.h"
#include "ullage/text/tokenizer.h"

namespace ullage::serve {

class Metrics;

// What is asked of the engine here; EngineThread's part, so that tests need no thread.
class EngineCommands {
 public:
  virtual ~EngineCommands() = default;
  virtual Result<void> submit(sched::RequestParams params) = 0;
  virtual void cancel(RequestId id) = 0;
  virtual void finish(RequestId id, sched::FinishReason reason) = 0;
  // Why the engine does not work any more; empty while it does.
  virtual std::string failure() const = 0;
};

// The io thread's. Tokenizer, engine and metrics outlive it.
class LiveRequests {
 public:
  LiveRequests(EngineCommands& engine, const text::Tokenizer& tokenizer, Metrics& metrics);
  ~LiveRequests();

  // Sends every choice of the request to the engine, and answers on the exchange. `arrival`: the engine's clock.
  void start(PreparedRequest request, ResponseHead head, uint64_t seed, Nanos arrival,
             std::shared_ptr<Exchange> exchange);
  // What EventFeed::take() gave.
  void on_events(std::span<const sched::Event> events);
  // Cancels everything; the exchanges get an error.
  void cancel_all();
  int64_t num_live() const { return num_live_; }

 private:
  struct Choice;
  struct Request;

  void on_event(Choice& choice, const sched::Event& event);
  void on_arrived(Request& request);
  void flush_token(Choice& choice, const std::optional<EngineEnd>& end);
  void end_choice(Choice& choice, sched::FinishReason reason);
  void complete(Request& request);
  void fail(Request& request, const ApiError& error);
  // Cancels what still runs and forgets the request. `request` is gone after.
  void drop(Request& request);
  void flush_output(Request& request);

  EngineCommands& engine_;
  const text::Tokenizer& tokenizer_;
  Metrics& metrics_;
  int64_t last_id_ = 0;
  int64_t num_live_ = 0;
  std::unordered_map<int64_t, Choice*> choices_;  // by request id; only look-ups, never walked
  std::unordered_map<Request*, std::unique_ptr<Request>> requests_;
  std::vector<std::unique_ptr<Request>> dropped_;  // kept until no caller up the stack can still hold them
};

}  // namespace ullage::serve
