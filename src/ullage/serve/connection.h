// One client's socket: reads requests (HTTP/1.0 and 1.1, keep-alive, pipelining), writes answers. Include from .cc
// files only: Asio is heavy.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/ip/tcp.hpp>

#include "ullage/serve/http_types.h"
#include "ullage/serve/server.h"

namespace ullage::serve {

class Connection;

// What a connection needs of the server. Outlives the connections; io thread.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  virtual const ServerLimits& limits() const = 0;
  virtual void on_request(HttpRequest request, std::shared_ptr<Exchange> exchange) = 0;
  // Fields that every answer to `request` carries (CORS).
  virtual void add_common_headers(const HttpRequest* request, Headers& headers) = 0;
  virtual void on_answered(std::string_view route, std::string_view method, std::string_view path, int status) = 0;
  virtual void on_closed(const std::shared_ptr<Connection>& connection) = 0;
};

// Lives in shared pointers: the owner's set, its own pending operations, and the handler of its running exchange.
// A read is pending even while a request is being answered, so that a client's leaving is seen at once.
class Connection final : public Exchange, public std::enable_shared_from_this<Connection> {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Connection(boost::asio::ip::tcp::socket socket, ConnectionOwner& owner);
  ~Connection() override;

  void start();
  // Answers 503 at once: there are too many connections.
  void start_refused();
  // Closes what has waited too long; called a few times a second.
  void check_deadline(Time now);
  void close();
  // Closes when the answer at hand, which must be complete, is written; at once when there is none.
  void close_when_written();
  // A request has come and its answer is not yet written.
  bool is_busy() const;

  void on_gone(std::function<void()> gone) override { gone_ = std::move(gone); }
  void set_route(std::string_view route) override { route_ = route; }
  void respond(HttpResponse response) override;
  void start_stream(const Headers& headers) override;
  void write(std::string_view data) override;
  void finish() override;

 private:
  struct Parser;  // Beast's
  enum class State {
    kReading,    // waiting for a request, or in the middle of one
    kAnswering,  // a request is being answered
    kLingering,  // everything is written; what still comes is thrown away, so that the answer is not lost by a reset
    kClosed
  };

  void start_read();
  void on_read(const boost::system::error_code& error, size_t num_bytes);
  void parse_input();
  void begin_body(size_t num_bytes);
  void dispatch();
  void refuse(int status, std::string_view message, std::string_view code);
  void append_head(std::string& out, int status, std::string_view content_type, const Headers& headers);
  void queue_write();
  void on_written(const boost::system::error_code& error, size_t num_bytes);
  void end_answer();
  void next_request();
  void linger();
  bool has_hung_up();
  void client_gone();

  boost::asio::ip::tcp::socket socket_;
  ConnectionOwner& owner_;
  State state_ = State::kReading;
  Time deadline_;        // of reading; unused while answering
  Time write_deadline_;  // of the write at hand

  std::array<char, 16384> chunk_;  // one read
  std::string input_;              // read and not yet parsed
  std::unique_ptr<Parser> parser_;
  bool is_read_pending_ = false;
  bool has_peer_closed_ = false;

  // The exchange at hand.
  HttpRequest current_;  // without its body
  std::string route_;
  std::function<void()> gone_;
  bool is_exchange_open_ = false;  // begun, and neither respond() nor finish() were called
  bool is_streaming_ = false;
  bool is_http10_ = false;
  bool is_head_ = false;
  bool keep_alive_ = true;

  std::string output_;   // to be written after writing_
  std::string writing_;  // [written_, end) is being written
  size_t written_ = 0;
  bool is_write_pending_ = false;
};

}  // namespace ullage::serve
