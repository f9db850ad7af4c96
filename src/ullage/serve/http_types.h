// HTTP as the API sees it: plain values and one abstract exchange. No Beast here.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ullage::serve {

using Headers = std::vector<std::pair<std::string, std::string>>;  // lower-case names

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // percent-decoded, without the query
  Headers headers;     // names in lower case, in order of arrival
  std::string body;

  // The first field of that (lower-case) name; empty when there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;
  bool close = false;  // end the connection after it
};

// One request and its answer, on one connection. Everything happens on the io thread. Ends with respond() or finish();
// when the client leaves first, the `gone` callback is called once and all later calls do nothing.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // Called when the client has left, or was dropped for not reading, before the answer was complete.
  virtual void on_gone(std::function<void()> gone) = 0;
  // A name for metrics and logs, from a closed set ("/v1/completions", "other").
  virtual void set_route(std::string_view route) = 0;
  // The whole answer.
  virtual void respond(HttpResponse response) = 0;
  // Begins an answer of server-sent events (status 200).
  virtual void start_stream(const Headers& headers) = 0;
  virtual void write(std::string_view data) = 0;
  virtual void finish() = 0;
};

const char* status_text(int status);
// "%2F" -> "/"; what is no valid escape stays as it is.
std::string percent_decode(std::string_view text);
// Equal in a time that depends on the lengths alone.
bool is_equal_constant_time(std::string_view a, std::string_view b);

}  // namespace ullage::serve
