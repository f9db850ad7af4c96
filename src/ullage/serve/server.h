// The HTTP server: OpenAI's API as vLLM speaks it, over an engine thread and a tokenizer.
//
// How the parts are put together (the event sink must be in the engine before its thread starts):
//
//   Server server(options, model, tokenizer, clock);
//   engine.add_sink(server.events());
//   engine::EngineThread thread(engine);      // declared after the server: it is gone first
//   ULLAGE_TRY_VOID(server.start(thread));    // binds, listens, answers
//   ... print server.port() ...
//   server.wait();                            // until stop(), or until a drain has ended
//   thread.stop();
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ullage/base/clock.h"
#include "ullage/base/log.h"
#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/engine/engine.h"
#include "ullage/engine/engine_thread.h"
#include "ullage/serve/model_info.h"
#include "ullage/text/tokenizer.h"

namespace ullage::serve {

// What one client may ask for, and how long a socket may stay silent.
struct ServerLimits {
  int64_t max_body_bytes = 32 << 20;    // a larger body is 413
  int64_t max_header_bytes = 32 << 10;  // request line and header fields; larger is 431
  int64_t max_json_depth = 64;          // deeper is 400
  int64_t max_connections = 4096;       // open at once; one more is answered 503 and closed
  int64_t max_n = 128;                  // choices of one prompt
  int64_t max_prompts = 1024;           // prompts in one completions request
  int64_t max_choices = 1024;           // prompts * n of one request
  int64_t max_stop_strings = 16;
  int64_t max_logprobs = 20;                    // as vLLM's --max-logprobs
  int64_t max_pending_output_bytes = 4 << 20;   // written but not yet read by a streaming client; more drops it
  Nanos header_timeout = 30 * kNanosPerSecond;  // from the first byte (or the accept) to the last of the header
  Nanos body_timeout = 60 * kNanosPerSecond;    // between two reads of a body; less for one that only trickles
  Nanos idle_timeout = 75 * kNanosPerSecond;    // keep-alive: between two requests
  Nanos write_timeout = 60 * kNanosPerSecond;   // one write that makes no progress
};

struct ServerOptions {
  std::string host = "127.0.0.1";               // an address, or a name that resolves to one
  uint16_t port = 8000;                         // 0 = any free one; see Server::port()
  std::vector<std::string> api_keys;            // any of them opens /v1/*; empty = no key needed
  std::string allowed_origin = "*";             // CORS: "*", one origin, or empty = no CORS headers
  std::string metrics_prefix = "vllm:";         // of the metrics that vLLM has too
  int num_workers = 2;                          // threads that parse bodies and tokenise
  uint64_t seed = 0;                            // requests without a seed draw theirs from it, in order of arrival
  bool log_requests = false;                    // one line for every HTTP request
  Nanos log_interval = 10 * kNanosPerSecond;    // of the steady line; 0 = never
  Nanos drain_timeout = 30 * kNanosPerSecond;   // how long request_drain() waits for live requests
  Nanos stuck_timeout = 120 * kNanosPerSecond;  // /health is 503 when the engine has not moved for so long
  std::string version = "0.1.0";                // GET /version
  LogHook log;                                  // called from any thread; empty = silent
  ServerLimits limits;
};

// Owns its io thread, its worker threads and its connections. Tokenizer and clock outlive it; the clock is the
// engine's. All functions may be called from any thread; none from a signal handler.
class Server {
 public:
  Server(ServerOptions options, ModelInfo model, const text::Tokenizer& tokenizer, Clock& clock);
  ~Server();  // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Give this to Engine::add_sink before the engine's thread starts. Lives as long as the server.
  engine::EventSink& events();
  // Binds, listens and starts the threads. The engine thread must stay alive until wait() or stop() has returned.
  // Call once. An Error (kIo: address in use, no permission, unknown host) names the address.
  Result<void> start(engine::EngineThread& engine);
  // The port that is bound; 0 before start().
  uint16_t port() const;
  // Refuses new requests with 503, lets live ones end (at most drain_timeout), then stops. Returns at once.
  void request_drain();
  // Cancels what is live, closes every connection and joins the threads. Idempotent.
  void stop();
  // Returns when the server has stopped, by whatever way.
  void wait();
  // Requests of the API that are not answered yet.
  int64_t num_live() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ullage::serve
