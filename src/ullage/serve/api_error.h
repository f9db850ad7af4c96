// Errors as OpenAI's clients read them: a status, and {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <string>

#include "ullage/base/result.h"
#include "ullage/serve/http_types.h"

namespace ullage::serve {

struct ApiError {
  int status = 500;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;            // empty = null
  std::string code;             // empty = null
  int retry_after_seconds = 0;  // > 0: a Retry-After header
};

// What an Error of parsing, preparing or admission is to a client: 400 for bad or unsupported input and for what can
// never fit, 404 for an unknown model, 429 for a full queue, 500 for faults of ours.
ApiError to_api_error(const Error& error);
// The body.
std::string format_error(const ApiError& error);
HttpResponse make_error_response(const ApiError& error);

}  // namespace ullage::serve
