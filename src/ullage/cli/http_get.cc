#include "ullage/cli/http_get.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <fmt/format.h>

#include "ullage/base/quote.h"

namespace ullage::cli {
namespace {

constexpr size_t kMaxBytes = size_t{64} << 20;
constexpr timeval kPatience{5, 0};

struct Url {
  std::string host;
  std::string port = "80";
  std::string path = "/";
};

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Error io_error(const std::string& url, std::string_view what) {
  return Error{ErrorCode::kIo, fmt::format("{}: {}", what, std::strerror(errno)), url};
}

Result<Url> parse_url(const std::string& text) {
  static constexpr std::string_view kScheme = "http://";
  if (!text.starts_with(kScheme)) {
    return Error{ErrorCode::kUnsupported, "only http:// is read; fetch it with curl and give the file, or - and a pipe",
                 text};
  }
  std::string_view rest = std::string_view(text).substr(kScheme.size());
  Url url;
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos) url.path = std::string(rest.substr(slash));
  rest = rest.substr(0, slash);
  const size_t colon = rest.rfind(':');
  const bool has_port = colon != std::string_view::npos && rest.find(']', colon) == std::string_view::npos;
  if (has_port) url.port = std::string(rest.substr(colon + 1));
  url.host = std::string(has_port ? rest.substr(0, colon) : rest);
  if (url.host.starts_with("[") && url.host.ends_with("]")) url.host = url.host.substr(1, url.host.size() - 2);
  const bool is_plain = text.find_first_of(" \r\n\t") == std::string::npos;
  if (url.host.empty() || url.port.empty() || !is_plain) {
    return Error{ErrorCode::kInvalidArgument, "is no URL; write http://host:port/metrics", quote(text)};
  }
  return url;
}

Result<int> connect_to(const Url& url, const std::string& text) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found);
  if (status != 0) {
    return Error{ErrorCode::kIo, fmt::format("the host cannot be found: {}", ::gai_strerror(status)), text};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    const int fd = ::socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, address->ai_protocol);
    if (fd < 0) continue;
    ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);  // connect waits so long, too
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
    if (::connect(fd, address->ai_addr, address->ai_addrlen) == 0) return fd;
    const int reason = errno;
    ::close(fd);
    errno = reason;
  }
  return io_error(text, "cannot be reached");
}

// The body after the headers; an answer in chunks is not asked for (HTTP/1.0).
Result<std::string> body_of(const std::string& answer, const std::string& text) {
  const size_t line_end = answer.find("\r\n");
  const std::string status = answer.substr(0, line_end);
  if (status.rfind("HTTP/1.", 0) != 0 || status.find(" 200") == std::string::npos) {
    return Error{ErrorCode::kIo, fmt::format("answered {}; a 200 was expected", quote(status)), text};
  }
  const size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? std::string() : answer.substr(end + 4);
}

}  // namespace

Result<std::string> http_get(const std::string& text) {
  ULLAGE_TRY(const Url url, parse_url(text));
  ULLAGE_TRY(const int fd, connect_to(url, text));
  const Socket socket(fd);
  const std::string request =
      fmt::format("GET {} HTTP/1.0\r\nHost: {}\r\nAccept: text/plain\r\n\r\n", url.path, url.host);
  size_t sent = 0;
  while (sent < request.size()) {
    const ssize_t n = ::send(socket.fd(), request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return io_error(text, "cannot be asked");
    sent += static_cast<size_t>(n);
  }
  std::string answer;
  std::string buffer(1 << 16, '\0');
  while (true) {
    const ssize_t n = ::recv(socket.fd(), buffer.data(), buffer.size(), 0);
    if (n == 0) return body_of(answer, text);
    if (n < 0) return io_error(text, "stopped answering");
    answer.append(buffer.data(), static_cast<size_t>(n));
    if (answer.size() > kMaxBytes) return Error{ErrorCode::kTooLarge, "answers with over 64 MiB", text};
  }
}

}  // namespace ullage::cli
