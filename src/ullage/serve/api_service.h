// The routes: what each path does, who may call it, and how a request travels from the io thread to a worker and back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "ullage/base/clock.h"
#include "ullage/serve/api_error.h"
#include "ullage/serve/http_types.h"
#include "ullage/serve/live_requests.h"
#include "ullage/serve/metrics.h"
#include "ullage/serve/model_info.h"
#include "ullage/serve/server.h"

namespace ullage::serve {

// How work gets off the io thread, and its result back.
class Threads {
 public:
  virtual ~Threads() = default;
  virtual void run_on_worker(std::function<void()> call) = 0;
  virtual void run_on_io(std::function<void()> call) = 0;
};

// What /health and the pool's route want to know of the engine. Any thread.
class EngineStatus {
 public:
  virtual ~EngineStatus() = default;
  virtual bool has_failed() const = 0;
  virtual std::string failure() const = 0;
  virtual Nanos since_heartbeat() const = 0;
};

// The io thread's. All references outlive it.
class ApiService {
 public:
  ApiService(const ServerOptions& options, const ModelInfo& model, const text::Tokenizer& tokenizer, Clock& clock,
             Metrics& metrics, Threads& threads, LiveRequests& live, const EngineStatus& engine);

  void handle(HttpRequest request, std::shared_ptr<Exchange> exchange);
  // From now on requests of the API get 503, and /health too.
  void start_draining() { is_draining_ = true; }
  bool is_draining() const { return is_draining_; }
  // CORS and request id, for every answer. `request` may be empty (the request could not be read).
  void add_common_headers(const HttpRequest& request, Headers& headers) const;
  // Generation requests in the hands of a worker or of the engine.
  int64_t num_live() const { return num_preparing_ + live_.num_live(); }

 private:
  using ExchangePtr = std::shared_ptr<Exchange>;
  // Worker to io: an answer, or the error.
  template <class Prepare, class Done>
  void prepare_on_worker(HttpRequest request, ExchangePtr exchange, Prepare prepare, Done done);
  template <class Parse>
  void generate(HttpRequest request, ExchangePtr exchange, Parse parse);
  void start_generation(PreparedRequest prepared, const std::string& request_id, ExchangePtr exchange);

  bool is_authorized(const HttpRequest& request) const;
  void health(Exchange& exchange) const;
  void preflight(const HttpRequest& request, Exchange& exchange) const;
  void list_models(Exchange& exchange) const;
  void show_model(const std::string& id, Exchange& exchange) const;
  void show_metrics(ExchangePtr exchange);
  void tokenize(HttpRequest request, ExchangePtr exchange);
  void detokenize(HttpRequest request, ExchangePtr exchange);
  void log_ignored(const std::vector<std::string>& names);
  RequestLimits request_limits() const;

  const ServerOptions& options_;
  const ModelInfo& model_;
  const text::Tokenizer& tokenizer_;
  Clock& clock_;
  Metrics& metrics_;
  Threads& threads_;
  LiveRequests& live_;
  const EngineStatus& engine_;
  bool is_draining_ = false;
  int64_t num_preparing_ = 0;
  uint64_t num_seeds_ = 0;  // drawn so far
  uint64_t id_salt_ = 0;    // so that ids differ between runs
  uint64_t num_ids_ = 0;
  int64_t start_seconds_ = 0;
  std::set<std::string> logged_fields_;
};

}  // namespace ullage::serve
