#include "ullage/serve/server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include "ullage/base/check.h"
#include "ullage/base/quote.h"
#include "ullage/serve/api_service.h"
#include "ullage/serve/connection.h"
#include "ullage/serve/event_feed.h"
#include "ullage/serve/live_requests.h"
#include "ullage/serve/metrics.h"

namespace ullage::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// How often deadlines are looked at, and a drain's end.
constexpr std::chrono::milliseconds kSweepInterval{100};
constexpr std::chrono::milliseconds kDrainInterval{20};
// How long stop() waits for clients to take their last answer.
constexpr std::chrono::milliseconds kLastWords{500};
// Connections beyond the limit that are told so; more are closed without a word.
constexpr size_t kMaxRefusedConnections = 64;
constexpr size_t kMaxLoggedPath = 256;  // bytes

}  // namespace

struct Server::State final : ConnectionOwner, Threads, EngineCommands, EngineStatus {
  State(ServerOptions the_options, ModelInfo the_model, const text::Tokenizer& tokenizer, Clock& the_clock);

  // Before start().
  Result<void> bind();
  Result<void> listen_on(const tcp::endpoint& endpoint);

  // Io thread.
  void accept(tcp::acceptor& acceptor);
  void on_accepted(tcp::socket socket);
  void sweep();
  void watch_drain(std::chrono::steady_clock::time_point deadline);
  void log_steady_line();
  void shut();
  // A copy: a connection that closes leaves the set.
  std::vector<std::shared_ptr<Connection>> all_connections() const { return {connections.begin(), connections.end()}; }
  void log(LogLevel level, const std::string& message) const {
    if (options.log) options.log(level, message);
  }
  // Blocks in use, after a cancel: the engine may have no step that would say it.
  void refresh_blocks();

  // ConnectionOwner
  const ServerLimits& limits() const override { return options.limits; }
  void on_request(HttpRequest request, std::shared_ptr<Exchange> exchange) override {
    api.handle(std::move(request), std::move(exchange));
  }
  void add_common_headers(const HttpRequest* request, Headers& headers) override {
    api.add_common_headers(*request, headers);
  }
  void on_answered(std::string_view route, std::string_view method, std::string_view path, int status) override;
  void on_closed(const std::shared_ptr<Connection>& connection) override;

  // Threads
  void run_on_worker(std::function<void()> call) override { asio::post(workers, std::move(call)); }
  void run_on_io(std::function<void()> call) override { asio::post(io, std::move(call)); }

  // EngineCommands, EngineStatus
  Result<void> submit(sched::RequestParams params) override { return engine->submit(std::move(params)); }
  void cancel(RequestId id) override {
    engine->cancel(id);
    refresh_blocks();
  }
  void finish(RequestId id, sched::FinishReason reason) override {
    engine->finish(id, reason);
    refresh_blocks();
  }
  bool has_failed() const override { return engine->has_failed(); }
  std::string failure() const override { return engine->has_failed() ? engine->failure() : std::string(); }
  Nanos since_heartbeat() const override { return engine->since_heartbeat(); }

  ServerOptions options;
  ModelInfo model;
  Clock& clock;
  Metrics metrics;
  EventFeed feed;
  engine::EngineThread* engine = nullptr;

  asio::io_context io{1};
  asio::thread_pool workers;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
  std::vector<std::unique_ptr<tcp::acceptor>> acceptors;
  asio::steady_timer sweep_timer{io};
  asio::steady_timer drain_timer{io};
  asio::steady_timer log_timer{io};
  std::set<std::shared_ptr<Connection>> connections;
  LiveRequests live;
  ApiService api;
  bool is_shut = false;            // io thread
  bool is_refresh_posted = false;  // io thread
  std::atomic<bool> is_line_posted{false};

  std::atomic<uint16_t> bound_port{0};
  std::atomic<int64_t> num_live_now{0};
  std::thread io_thread;
  std::mutex mutex;
  std::condition_variable changed;
  bool is_started = false;  // guarded by mutex
  bool has_ended = false;   // guarded by mutex: the io thread's loop is over
  std::mutex join_mutex;    // held while joining
};

Server::State::State(ServerOptions the_options, ModelInfo the_model, const text::Tokenizer& tokenizer, Clock& the_clock)
    : options(std::move(the_options)),
      model(std::move(the_model)),
      clock(the_clock),
      metrics(options.metrics_prefix, model),
      feed(metrics, the_clock.now()),
      workers(static_cast<size_t>(std::max(1, options.num_workers))),
      live(*this, tokenizer, metrics),
      api(options, model, tokenizer, clock, metrics, *this, live, *this) {
  ULLAGE_CHECK(!model.names.empty());
  // Once a step: what the step's requests got goes to the io thread in one piece.
  feed.set_wake([this] {
    asio::post(io, [this] {
      live.on_events(feed.take());
      num_live_now = api.num_live();
    });
  });
}

Result<void> Server::State::listen_on(const tcp::endpoint& endpoint) {
  error_code error;
  auto acceptor = std::make_unique<tcp::acceptor>(io);
  const auto fail = [&](const char* what) -> Result<void> {
    return Error{
        ErrorCode::kIo,
        fmt::format("cannot {} {}:{}: {}", what, endpoint.address().to_string(), endpoint.port(), error.message()),
        "--host, --port"};
  };
  acceptor->open(endpoint.protocol(), error);
  if (error) return fail("open a socket for");
  acceptor->set_option(asio::socket_base::reuse_address(true), error);
  if (endpoint.address().is_v6()) acceptor->set_option(asio::ip::v6_only(true), error);
  acceptor->bind(endpoint, error);
  if (error) return fail("bind to");
  acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) return fail("listen on");
  if (bound_port == 0) bound_port = acceptor->local_endpoint(error).port();
  acceptors.push_back(std::move(acceptor));
  return {};
}

Result<void> Server::State::bind() {
  error_code error;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(options.host, fmt::format("{}", options.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    return Error{ErrorCode::kIo, fmt::format("cannot find the address '{}': {}", options.host, error.message()),
                 "--host"};
  }
  // A name may have several addresses (localhost: 127.0.0.1 and ::1). The first must do; the others are a courtesy.
  std::vector<tcp::endpoint> endpoints;
  for (const auto& entry : found) endpoints.push_back(entry.endpoint());
  std::stable_sort(endpoints.begin(), endpoints.end(),
                   [](const auto& a, const auto& b) { return a.address().is_v4() && !b.address().is_v4(); });
  std::optional<Error> first_error;
  for (tcp::endpoint& endpoint : endpoints) {
    if (bound_port != 0) endpoint.port(bound_port);
    auto result = listen_on(endpoint);
    if (result) continue;
    if (endpoint.address().is_v4() || endpoints.size() == 1) return result;
    if (!first_error) first_error = result.error();
  }
  if (acceptors.empty()) return *first_error;
  return {};
}

void Server::State::accept(tcp::acceptor& acceptor) {
  acceptor.async_accept([this, &acceptor](const error_code& error, tcp::socket socket) {
    if (is_shut || error == asio::error::operation_aborted) return;
    if (!error) {
      on_accepted(std::move(socket));
      return accept(acceptor);
    }
    // Out of file descriptors, most likely: trying again at once would spin.
    auto timer = std::make_shared<asio::steady_timer>(io, kSweepInterval);
    timer->async_wait([this, timer, &acceptor](const error_code&) {
      if (!is_shut) accept(acceptor);
    });
  });
}

void Server::State::on_accepted(tcp::socket socket) {
  const size_t limit = static_cast<size_t>(options.limits.max_connections);
  if (connections.size() >= limit + kMaxRefusedConnections) return;  // the socket closes itself
  auto connection = std::make_shared<Connection>(std::move(socket), *this);
  connections.insert(connection);
  metrics.set_connections(static_cast<int64_t>(connections.size()));
  if (connections.size() > limit) {
    connection->start_refused();
  } else {
    connection->start();
  }
}

void Server::State::on_closed(const std::shared_ptr<Connection>& connection) {
  connections.erase(connection);
  if (is_shut && connections.empty()) drain_timer.cancel();
  metrics.set_connections(static_cast<int64_t>(connections.size()));
  num_live_now = api.num_live();
}

void Server::State::on_answered(std::string_view route, std::string_view method, std::string_view path, int status) {
  metrics.count_http(route, status);
  if (options.log_requests) {
    log(LogLevel::kInfo, fmt::format("{} {} {}", method.empty() ? "-" : method, quote(path, kMaxLoggedPath), status));
  }
}

void Server::State::refresh_blocks() {
  if (std::exchange(is_refresh_posted, true)) return;
  // After this turn of the io thread, so that many hang-ups make one call.
  asio::post(io, [this] {
    is_refresh_posted = false;
    engine->post([this](engine::Engine& e) {
      metrics.set_blocks(e.num_usable_blocks() - e.num_free_blocks(), e.num_usable_blocks());
      metrics.update(feed.statistics());
    });
  });
}

void Server::State::sweep() {
  sweep_timer.expires_after(kSweepInterval);
  sweep_timer.async_wait([this](const error_code& error) {
    if (error || is_shut) return;
    const auto now = std::chrono::steady_clock::now();
    for (const auto& connection : all_connections()) connection->check_deadline(now);
    sweep();
  });
}

void Server::State::log_steady_line() {
  if (options.log_interval <= 0) return;
  log_timer.expires_after(std::chrono::nanoseconds(options.log_interval));
  log_timer.async_wait([this](const error_code& error) {
    if (error || is_shut) return;
    log_steady_line();
    // In a step longer than the interval the engine's thread says nothing; the next line is about all of that time.
    if (is_line_posted.exchange(true)) return;
    engine->post([this](engine::Engine&) {
      is_line_posted = false;
      const engine::IntervalStatistics interval = feed.statistics().take_interval(clock.now());
      if (!interval.is_idle) log(LogLevel::kInfo, engine::format_steady_line(interval, model.device_kind));
    });
  });
}

void Server::State::watch_drain(std::chrono::steady_clock::time_point deadline) {
  const bool is_busy = api.num_live() > 0 || std::any_of(connections.begin(), connections.end(),
                                                         [](const auto& connection) { return connection->is_busy(); });
  if (!is_busy) {
    log(LogLevel::kInfo, "Drained: no request is left");
    return shut();
  }
  if (std::chrono::steady_clock::now() >= deadline) {
    log(LogLevel::kWarning, fmt::format("Drain timeout: cancelling {} live requests", api.num_live()));
    return shut();
  }
  drain_timer.expires_after(kDrainInterval);
  drain_timer.async_wait([this, deadline](const error_code& error) {
    if (!error && !is_shut) watch_drain(deadline);
  });
}

// Ends everything on the io thread; its loop ends when the last callback has run.
void Server::State::shut() {
  if (std::exchange(is_shut, true)) return;
  api.start_draining();
  live.cancel_all();
  for (const auto& acceptor : acceptors) {
    error_code ignored;
    acceptor->close(ignored);
  }
  // The cancelled requests' errors shall still reach their clients, if those read them now.
  for (const auto& connection : all_connections()) connection->close_when_written();
  sweep_timer.cancel();
  log_timer.cancel();
  work.reset();
  num_live_now = 0;
  drain_timer.cancel();
  if (connections.empty()) return;
  drain_timer.expires_after(kLastWords);
  drain_timer.async_wait([this](const error_code&) {
    for (const auto& connection : all_connections()) connection->close();
  });
}

Server::Server(ServerOptions options, ModelInfo model, const text::Tokenizer& tokenizer, Clock& clock)
    : state_(std::make_unique<State>(std::move(options), std::move(model), tokenizer, clock)) {}

Server::~Server() { stop(); }

engine::EventSink& Server::events() { return state_->feed; }

Result<void> Server::start(engine::EngineThread& engine) {
  State& s = *state_;
  s.engine = &engine;
  ULLAGE_TRY_VOID(s.bind());
  s.work.emplace(s.io.get_executor());
  for (const auto& acceptor : s.acceptors) s.accept(*acceptor);
  s.sweep();
  s.log_steady_line();
  const std::lock_guard lock(s.mutex);
  s.is_started = true;
  s.io_thread = std::thread([&s] {
    s.io.run();
    s.workers.join();
    const std::lock_guard end_lock(s.mutex);
    s.has_ended = true;
    s.changed.notify_all();
  });
  return {};
}

uint16_t Server::port() const { return state_->bound_port; }

void Server::request_drain() {
  State& s = *state_;
  asio::post(s.io, [&s] {
    if (s.is_shut || s.api.is_draining()) return;
    s.api.start_draining();
    s.log(LogLevel::kInfo, fmt::format("Draining: {} live requests, at most {:.0f} s", s.api.num_live(),
                                       to_seconds(s.options.drain_timeout)));
    s.watch_drain(std::chrono::steady_clock::now() + std::chrono::nanoseconds(s.options.drain_timeout));
  });
}

void Server::stop() {
  State& s = *state_;
  asio::post(s.io, [&s] { s.shut(); });
  wait();
}

void Server::wait() {
  State& s = *state_;
  {
    std::unique_lock lock(s.mutex);
    if (!s.is_started) return;
    s.changed.wait(lock, [&s] { return s.has_ended; });
  }
  const std::lock_guard lock(s.join_mutex);
  if (s.io_thread.joinable()) s.io_thread.join();
}

int64_t Server::num_live() const { return state_->num_live_now; }

}  // namespace ullage::serve
