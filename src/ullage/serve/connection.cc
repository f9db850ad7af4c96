// Beast's parser is used alone, without its stream operations: reading must go on while an answer is being made.
#include "ullage/serve/connection.h"

#include <poll.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "ullage/base/ascii.h"
#include "ullage/serve/api_error.h"

namespace ullage::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

// Bytes of pipelined requests that are read ahead while one is being answered.
constexpr size_t kMaxReadAhead = 64 << 10;
// The kernel's share of a stream that nobody reads; without a bound it grows to megabytes for each.
constexpr int kSendBufferBytes = 256 << 10;
constexpr std::chrono::seconds kLingerTime{2};
// A body may pause for body_timeout at most, and on the whole must not come more slowly than this: a byte now and then
// would hold a connection for ever.
constexpr int64_t kMinBodyBytesPerSecond = 256;

Connection::Time after(Nanos nanos) { return std::chrono::steady_clock::now() + std::chrono::nanoseconds(nanos); }

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[64];
  const size_t size = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return std::string(text, size);
}

}  // namespace

struct Connection::Parser {
  http::request_parser<http::string_body> http;
  bool has_header = false;
};

Connection::Connection(asio::ip::tcp::socket socket, ConnectionOwner& owner)
    : socket_(std::move(socket)), owner_(owner) {}

Connection::~Connection() = default;

bool Connection::is_busy() const {
  return state_ == State::kAnswering || (state_ == State::kReading && is_write_pending_);
}

void Connection::start() {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
  deadline_ = after(owner_.limits().header_timeout);
  start_read();
}

void Connection::start_refused() {
  keep_alive_ = false;
  refuse(503, "The server has as many connections as it takes; try again later.", "too_many_connections");
}

void Connection::start_read() {
  if (is_read_pending_ || has_peer_closed_ || state_ == State::kClosed) return;
  if (state_ == State::kAnswering && input_.size() >= kMaxReadAhead) return;
  is_read_pending_ = true;
  socket_.async_read_some(asio::buffer(chunk_), [self = shared_from_this()](const error_code& error, size_t num_bytes) {
    self->on_read(error, num_bytes);
  });
}

void Connection::on_read(const error_code& error, size_t num_bytes) {
  is_read_pending_ = false;
  if (state_ == State::kClosed) return;
  if (error) {
    has_peer_closed_ = true;
    // An answer that is complete is still written to a client that has closed its side; one that is being made is not.
    const bool is_writing_rest = state_ == State::kAnswering && !is_exchange_open_ && error == asio::error::eof;
    if (is_writing_rest) return;
    client_gone();
    return;
  }
  if (state_ == State::kLingering) {
    start_read();
    return;
  }
  input_.append(chunk_.data(), num_bytes);
  if (state_ == State::kReading) parse_input();
  start_read();
}

void Connection::parse_input() {
  while (state_ == State::kReading && !input_.empty()) {
    if (parser_ == nullptr) {
      // Empty lines before a request are left by some old clients (RFC 9112, 2.2).
      const size_t begin = input_.find_first_not_of("\r\n");
      input_.erase(0, begin == std::string::npos ? input_.size() : begin);
      if (input_.empty()) return;
      parser_ = std::make_unique<Parser>();
      parser_->http.eager(true);
      parser_->http.header_limit(static_cast<uint32_t>(owner_.limits().max_header_bytes));
      parser_->http.body_limit(static_cast<uint64_t>(owner_.limits().max_body_bytes));
      deadline_ = after(owner_.limits().header_timeout);
    }
    error_code error;
    const size_t used = parser_->http.put(asio::buffer(input_), error);
    input_.erase(0, used);
    if (error == http::error::need_more) error = {};
    if (error == http::error::header_limit) {
      return refuse(431, "The request's header fields are too large.", "header_too_large");
    }
    if (error == http::error::body_limit) {
      return refuse(
          413, fmt::format("The request body is larger than the limit of {} bytes.", owner_.limits().max_body_bytes),
          "body_too_large");
    }
    if (error == http::error::bad_version) {
      return refuse(505, "This server speaks HTTP/1.0 and HTTP/1.1.", "bad_http_version");
    }
    if (error) return refuse(400, fmt::format("This is not a valid HTTP request: {}.", error.message()), "bad_http");
    if (parser_->http.is_header_done()) begin_body(used);
    if (state_ != State::kReading) return;
    if (parser_->http.is_done()) return dispatch();
    if (used == 0) return;
  }
}

// Called after each read from the header's end on. `num_bytes`: what it brought.
void Connection::begin_body(size_t num_bytes) {
  const Time latest = after(owner_.limits().body_timeout);
  if (parser_->has_header) {
    const std::chrono::nanoseconds worth(static_cast<int64_t>(num_bytes) * kNanosPerSecond / kMinBodyBytesPerSecond);
    deadline_ = std::min(latest, deadline_ + worth);
    return;
  }
  deadline_ = latest;
  parser_->has_header = true;
  const auto& message = parser_->http.get();
  is_http10_ = message.version() < 11;
  if (!is_http10_ && message.count(http::field::host) != 1) {
    return refuse(400, "An HTTP/1.1 request must have one Host header.", "bad_http");
  }
  // What other codings do to the body's length is not known here; guessing would let a body pass for the next request.
  if (const auto coding = message.find(http::field::transfer_encoding); coding != message.end()) {
    const bool is_chunked = to_lower({coding->value().data(), coding->value().size()}) == "chunked";
    if (!is_chunked || message.count(http::field::transfer_encoding) != 1) {
      return refuse(501, "Only 'Transfer-Encoding: chunked' is understood.", "bad_http");
    }
    if (is_http10_) return refuse(400, "HTTP/1.0 has no Transfer-Encoding; send a Content-Length.", "bad_http");
  }
  const auto expect = message.find(http::field::expect);
  if (expect == message.end() || is_http10_) return;
  if (to_lower({expect->value().data(), expect->value().size()}) != "100-continue") {
    return refuse(417, "Only 'Expect: 100-continue' is understood.", "bad_http");
  }
  if (parser_->http.is_done()) return;
  output_ += "HTTP/1.1 100 Continue\r\n\r\n";
  queue_write();
}

void Connection::dispatch() {
  auto message = parser_->http.release();
  parser_.reset();
  const std::string_view target(message.target().data(), message.target().size());
  HttpRequest request;
  request.method = std::string(message.method_string());
  std::string_view path = target;
  if (const size_t scheme = path.find("://"); !path.starts_with('/') && scheme != std::string_view::npos) {
    const size_t slash = path.find('/', scheme + 3);  // the absolute form, sent to proxies
    path = slash == std::string_view::npos ? "/" : path.substr(slash);
  }
  request.path = percent_decode(path.substr(0, path.find('?')));
  for (const auto& field : message) {
    request.headers.emplace_back(to_lower({field.name_string().data(), field.name_string().size()}),
                                 std::string(field.value()));
  }
  keep_alive_ = message.keep_alive();
  is_head_ = message.method() == http::verb::head;
  current_ = request;
  request.body = std::move(message.body());
  state_ = State::kAnswering;
  is_exchange_open_ = true;
  is_streaming_ = false;
  route_ = "other";
  owner_.on_request(std::move(request), shared_from_this());
}

// Answers what cannot be read as a request, and ends the connection: where the next request begins is not known.
void Connection::refuse(int status, std::string_view message, std::string_view code) {
  if (parser_ != nullptr && parser_->http.is_header_done()) is_head_ = parser_->http.get().method() == http::verb::head;
  ApiError error;
  error.status = status;
  error.message = message;
  error.code = code;
  if (status >= 500) error.type = "server_error";
  state_ = State::kAnswering;
  is_exchange_open_ = true;
  is_streaming_ = false;
  route_ = "other";
  HttpResponse response;
  response.status = status;
  response.body = format_error(error);
  response.close = true;
  if (status == 503) response.headers.emplace_back("retry-after", "1");
  respond(std::move(response));
}

void Connection::append_head(std::string& out, int status, std::string_view content_type, const Headers& headers) {
  out += fmt::format("HTTP/1.1 {} {}\r\ndate: {}\r\nserver: ullage\r\n", status, status_text(status), http_date());
  if (!content_type.empty()) out += fmt::format("content-type: {}\r\n", content_type);
  Headers common;
  owner_.add_common_headers(&current_, common);
  for (const Headers* list : {static_cast<const Headers*>(&common), &headers}) {
    for (const auto& [name, value] : *list) out += fmt::format("{}: {}\r\n", name, value);
  }
  if (!keep_alive_) {
    out += "connection: close\r\n";
  } else if (is_http10_) {
    out += "connection: keep-alive\r\n";
  }
}

void Connection::respond(HttpResponse response) {
  if (state_ != State::kAnswering || !is_exchange_open_) return;
  if (response.close) keep_alive_ = false;
  append_head(output_, response.status, response.body.empty() ? "" : response.content_type, response.headers);
  if (response.status != 204) output_ += fmt::format("content-length: {}\r\n", response.body.size());
  output_ += "\r\n";
  if (!is_head_) output_ += response.body;
  owner_.on_answered(route_, current_.method, current_.path, response.status);
  end_answer();
}

void Connection::start_stream(const Headers& headers) {
  if (state_ != State::kAnswering || !is_exchange_open_) return;
  is_streaming_ = true;
  // HTTP/1.0 knows no chunks: the stream ends with the connection.
  if (is_http10_) keep_alive_ = false;
  append_head(output_, 200, "text/event-stream; charset=utf-8", headers);
  output_ += "cache-control: no-cache\r\nx-accel-buffering: no\r\n";
  output_ += is_http10_ ? "\r\n" : "transfer-encoding: chunked\r\n\r\n";
  owner_.on_answered(route_, current_.method, current_.path, 200);
  queue_write();
}

void Connection::write(std::string_view data) {
  if (state_ != State::kAnswering || !is_streaming_ || !is_exchange_open_ || data.empty()) return;
  // What is left unread counts, not what comes now: one write may be larger, and its client could not have read it yet.
  const size_t pending = output_.size() + (writing_.size() - written_);
  if (pending > static_cast<size_t>(owner_.limits().max_pending_output_bytes)) return client_gone();
  if (is_http10_) {
    output_ += data;
  } else {
    output_ += fmt::format("{:x}\r\n", data.size());
    output_ += data;
    output_ += "\r\n";
  }
  queue_write();
}

void Connection::finish() {
  if (state_ != State::kAnswering || !is_streaming_ || !is_exchange_open_) return;
  if (!is_http10_) output_ += "0\r\n\r\n";
  end_answer();
}

void Connection::end_answer() {
  is_exchange_open_ = false;
  gone_ = nullptr;
  queue_write();
}

void Connection::queue_write() {
  if (is_write_pending_ || state_ == State::kClosed) return;
  if (written_ == writing_.size()) {
    writing_.clear();
    written_ = 0;
    std::swap(writing_, output_);
  }
  if (writing_.empty()) return;
  is_write_pending_ = true;
  write_deadline_ = after(owner_.limits().write_timeout);
  socket_.async_write_some(
      asio::buffer(writing_.data() + written_, writing_.size() - written_),
      [self = shared_from_this()](const error_code& error, size_t num_bytes) { self->on_written(error, num_bytes); });
}

void Connection::on_written(const error_code& error, size_t num_bytes) {
  is_write_pending_ = false;
  if (state_ == State::kClosed) return;
  if (error) return client_gone();
  written_ += num_bytes;
  if (written_ < writing_.size() || !output_.empty()) return queue_write();
  if (state_ == State::kAnswering && !is_exchange_open_) next_request();
}

void Connection::next_request() {
  if (!keep_alive_) return linger();
  // A large answer's memory is not kept for the next.
  if (writing_.capacity() > kMaxReadAhead) {
    writing_ = {};
    written_ = 0;
  }
  state_ = State::kReading;
  current_ = {};
  parser_.reset();
  deadline_ = after(owner_.limits().idle_timeout);
  parse_input();
  if (state_ == State::kReading && has_peer_closed_) return close();
  start_read();
}

void Connection::linger() {
  state_ = State::kLingering;
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  if (has_peer_closed_) return close();
  deadline_ = std::chrono::steady_clock::now() + kLingerTime;
  input_.clear();
  start_read();
}

void Connection::client_gone() {
  // The callback may drop the last reference to the handler; it runs before the socket goes.
  if (auto gone = std::exchange(gone_, nullptr)) gone();
  close();
}

void Connection::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  is_exchange_open_ = false;
  gone_ = nullptr;
  error_code ignored;
  socket_.close(ignored);
  owner_.on_closed(shared_from_this());
}

void Connection::close_when_written() {
  if (state_ != State::kAnswering || is_exchange_open_) return close();
  keep_alive_ = false;
}

bool Connection::has_hung_up() {
  pollfd poll_fd{.fd = socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
  return poll(&poll_fd, 1, /*timeout=*/0) > 0;
}

void Connection::check_deadline(Time now) {
  if (state_ == State::kClosed) return;
  if (is_write_pending_ && now >= write_deadline_) return client_gone();
  // Behind a full read-ahead no read is pending that would tell of the client's leaving.
  if (state_ == State::kAnswering && !is_read_pending_ && !has_peer_closed_ && has_hung_up()) return client_gone();
  if (state_ == State::kAnswering || now < deadline_) return;
  if (state_ == State::kReading && parser_ != nullptr) {
    refuse(408, "The request did not arrive in time.", "request_timeout");
  } else {
    close();
  }
}

}  // namespace ullage::serve
