#include "ullage/serve/api_error.h"

#include "ullage/serve/json_text.h"

namespace ullage::serve {
namespace {

void append_or_null(std::string& out, const std::string& text) {
  if (text.empty()) {
    out += "null";
  } else {
    append_json_string(out, text);
  }
}

}  // namespace

ApiError to_api_error(const Error& error) {
  ApiError api;
  api.message = error.message;
  api.param = error.where;
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kCorrupt:
      api.status = 400;
      break;
    case ErrorCode::kUnsupported:
      api.status = 400;
      api.code = "unsupported_parameter";
      break;
    case ErrorCode::kTooLarge:
      api.status = 400;
      if (!error.where.empty()) api.code = "context_length_exceeded";
      break;
    case ErrorCode::kNotFound:
      api.status = 404;
      api.code = "model_not_found";
      break;
    case ErrorCode::kUnavailable:
      api.status = 429;
      api.type = "rate_limit_error";
      api.code = "queue_full";
      api.retry_after_seconds = 1;
      break;
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      api.status = 500;
      api.type = "server_error";
      api.code = "internal_error";
      break;
  }
  return api;
}

std::string format_error(const ApiError& error) {
  std::string out = "{\"error\":{\"message\":";
  append_json_string(out, error.message);
  out += ",\"type\":";
  append_json_string(out, error.type);
  out += ",\"param\":";
  append_or_null(out, error.param);
  out += ",\"code\":";
  append_or_null(out, error.code);
  out += "}}";
  return out;
}

HttpResponse make_error_response(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = format_error(error);
  if (error.retry_after_seconds > 0) {
    response.headers.emplace_back("retry-after", std::to_string(error.retry_after_seconds));
  }
  if (error.status == 401) response.headers.emplace_back("www-authenticate", "Bearer");
  return response;
}

}  // namespace ullage::serve
