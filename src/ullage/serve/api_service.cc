#include "ullage/serve/api_service.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/ascii.h"
#include "ullage/base/quote.h"
#include "ullage/base/random.h"
#include "ullage/serve/api_documents.h"

namespace ullage::serve {
namespace {

// Of random_bits: the seeds of requests that bring none, and response ids.
constexpr uint64_t kSeedStream = 1;
constexpr uint64_t kIdStream = 2;
constexpr size_t kMaxRequestIdBytes = 128;
constexpr size_t kMaxLoggedFields = 256;

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

ApiError make_error(int status, std::string message, std::string code, std::string type = "invalid_request_error") {
  ApiError error;
  error.status = status;
  error.message = std::move(message);
  error.code = std::move(code);
  error.type = std::move(type);
  return error;
}

// A client's request id may go into headers and logs only when it is plain.
std::string plain_id(std::string_view id) {
  const bool is_plain = !id.empty() && id.size() <= kMaxRequestIdBytes &&
                        std::all_of(id.begin(), id.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  return is_plain ? std::string(id) : std::string();
}

struct Route {
  std::string_view path;
  std::string_view methods;  // what Allow says; HEAD goes wherever GET goes
};
constexpr Route kRoutes[] = {
    {"/v1/completions", "POST"}, {"/v1/chat/completions", "POST"},
    {"/v1/models", "GET"},       {"/tokenize", "POST"},
    {"/detokenize", "POST"},     {"/health", "GET"},
    {"/ping", "GET, POST"},      {"/metrics", "GET"},
    {"/version", "GET"},         {"/load", "GET"},
    {"/props", "GET"},           {"/slots", "GET"},
};
constexpr std::string_view kModelPath = "/v1/models/";

const Route* find_route(std::string_view path) {
  for (const Route& route : kRoutes) {
    if (route.path == path) return &route;
  }
  static constexpr Route kModel{"/v1/models/{id}", "GET"};
  return path.starts_with(kModelPath) && path.size() > kModelPath.size() ? &kModel : nullptr;
}

bool is_allowed(const Route& route, std::string_view method) {
  if (method == "HEAD") method = "GET";
  return route.methods.find(method) != std::string_view::npos && (method == "GET" || method == "POST");
}

void answer_json(Exchange& exchange, std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  exchange.respond(std::move(response));
}

void answer_error(Exchange& exchange, const ApiError& error) { exchange.respond(make_error_response(error)); }

}  // namespace

ApiService::ApiService(const ServerOptions& options, const ModelInfo& model, const text::Tokenizer& tokenizer,
                       Clock& clock, Metrics& metrics, Threads& threads, LiveRequests& live, const EngineStatus& engine)
    : options_(options),
      model_(model),
      tokenizer_(tokenizer),
      clock_(clock),
      metrics_(metrics),
      threads_(threads),
      live_(live),
      engine_(engine),
      start_seconds_(unix_seconds()) {
  std::random_device device;
  id_salt_ = (static_cast<uint64_t>(device()) << 32) ^ device();
}

void ApiService::handle(HttpRequest request, ExchangePtr exchange) {
  if (request.method == "OPTIONS") return preflight(request, *exchange);
  const Route* route = find_route(request.path);
  if (route != nullptr) exchange->set_route(route->path);
  const bool is_private = request.path.starts_with("/v1/") || request.path == "/props" || request.path == "/slots";
  if (is_private && !is_authorized(request)) {
    return answer_error(*exchange,
                        make_error(401, "Incorrect or missing API key; send it as 'Authorization: Bearer KEY'.",
                                   "invalid_api_key", "authentication_error"));
  }
  if (route == nullptr) {
    return answer_error(*exchange, make_error(404,
                                              fmt::format("There is nothing at {} {}.", request.method,
                                                          std::string_view(request.path).substr(0, 256)),
                                              "not_found"));
  }
  if (!is_allowed(*route, request.method)) {
    HttpResponse response = make_error_response(make_error(
        405, fmt::format("{} takes {}, not {}.", route->path, route->methods, request.method), "method_not_allowed"));
    response.headers.emplace_back("allow", std::string(route->methods) + ", OPTIONS");
    return exchange->respond(std::move(response));
  }
  if (const std::string_view coding = request.header("content-encoding"); !coding.empty() && coding != "identity") {
    return answer_error(
        *exchange,
        make_error(415,
                   fmt::format("Bodies with Content-Encoding '{}' are not read; send it plain.", coding.substr(0, 64)),
                   "unsupported_content_encoding"));
  }
  const std::string& path = request.path;
  if (path == "/v1/completions") {
    return generate(std::move(request), std::move(exchange), parse_completion_request);
  }
  if (path == "/v1/chat/completions") {
    return generate(std::move(request), std::move(exchange), parse_chat_request);
  }
  if (path == "/tokenize") return tokenize(std::move(request), std::move(exchange));
  if (path == "/detokenize") return detokenize(std::move(request), std::move(exchange));
  if (path == "/metrics") return show_metrics(std::move(exchange));
  if (path == "/health" || path == "/ping") return health(*exchange);
  if (path == "/version") return answer_json(*exchange, format_version(options_.version));
  if (path == "/load") return answer_json(*exchange, fmt::format("{{\"server_load\":{}}}", num_live()));
  if (path == "/props") return answer_json(*exchange, format_props(model_, options_.version));
  if (path == "/slots") return answer_json(*exchange, format_slots(model_, num_live()));
  if (path == "/v1/models") return list_models(*exchange);
  show_model(path.substr(kModelPath.size()), *exchange);
}

bool ApiService::is_authorized(const HttpRequest& request) const {
  if (options_.api_keys.empty()) return true;
  std::string_view value = request.header("authorization");
  constexpr std::string_view kScheme = "bearer ";
  if (!equals_ignoring_case(value.substr(0, kScheme.size()), kScheme)) return false;
  value.remove_prefix(kScheme.size());
  bool is_known = false;
  for (const std::string& key : options_.api_keys) is_known |= is_equal_constant_time(value, key);
  return is_known;
}

void ApiService::health(Exchange& exchange) const {
  if (is_draining_)
    return answer_error(exchange, make_error(503, "The server is stopping.", "draining", "server_error"));
  if (engine_.has_failed()) {
    return answer_error(
        exchange, make_error(503, "The engine has failed: " + engine_.failure(), "engine_failed", "server_error"));
  }
  if (options_.stuck_timeout > 0 && live_.num_live() > 0 && engine_.since_heartbeat() > options_.stuck_timeout) {
    return answer_error(
        exchange,
        make_error(503, fmt::format("The engine has not moved for {:.0f} s.", to_seconds(engine_.since_heartbeat())),
                   "engine_stuck", "server_error"));
  }
  exchange.respond(HttpResponse{});
}

void ApiService::preflight(const HttpRequest& request, Exchange& exchange) const {
  HttpResponse response;
  response.status = 204;
  response.headers.emplace_back("allow", "GET, HEAD, POST, OPTIONS");
  if (!options_.allowed_origin.empty()) {
    response.headers.emplace_back("access-control-allow-methods", "GET, HEAD, POST, OPTIONS");
    // "*" would not cover authorization: the asked-for names are allowed by name (x-stainless-* among them).
    const std::string_view asked = request.header("access-control-request-headers");
    response.headers.emplace_back("access-control-allow-headers",
                                  asked.empty() ? "authorization, content-type, x-request-id" : std::string(asked));
    response.headers.emplace_back("access-control-max-age", "600");
    if (request.header("access-control-request-private-network") == "true") {
      response.headers.emplace_back("access-control-allow-private-network", "true");
    }
  }
  exchange.respond(std::move(response));
}

void ApiService::add_common_headers(const HttpRequest& request, Headers& headers) const {
  const std::string id = plain_id(request.header("x-request-id"));
  if (!id.empty()) headers.emplace_back("x-request-id", id);
  const std::string& allowed = options_.allowed_origin;
  if (allowed.empty()) return;
  if (allowed == "*") {
    headers.emplace_back("access-control-allow-origin", "*");
  } else {
    headers.emplace_back("vary", "origin");
    if (request.header("origin") != allowed) return;
    headers.emplace_back("access-control-allow-origin", allowed);
  }
  headers.emplace_back("access-control-expose-headers", "x-request-id, retry-after");
}

void ApiService::list_models(Exchange& exchange) const { answer_json(exchange, format_models(model_, start_seconds_)); }

void ApiService::show_model(const std::string& id, Exchange& exchange) const {
  if (auto known = check_model_name(id, model_); !known) return answer_error(exchange, to_api_error(known.error()));
  answer_json(exchange, format_model(model_, id, start_seconds_));
}

void ApiService::show_metrics(ExchangePtr exchange) {
  threads_.run_on_worker([this, exchange = std::move(exchange)] {
    HttpResponse response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = metrics_.serialize();
    threads_.run_on_io(
        [exchange, response = std::move(response)]() mutable { exchange->respond(std::move(response)); });
  });
}

// `prepare`: body -> Result<T>, on a worker. `done`: T, on the io thread, unless the client has left meanwhile.
template <class Prepare, class Done>
void ApiService::prepare_on_worker(HttpRequest request, ExchangePtr exchange, Prepare prepare, Done done) {
  auto is_gone = std::make_shared<bool>(false);
  exchange->on_gone([is_gone] { *is_gone = true; });
  ++num_preparing_;
  threads_.run_on_worker([this, request = std::move(request), exchange = std::move(exchange), is_gone,
                          prepare = std::move(prepare), done = std::move(done)]() mutable {
    auto result = prepare(request.body);
    request.body = {};
    // A std::function must be copyable, and what was prepared shall not be copied.
    auto shared = std::make_shared<decltype(result)>(std::move(result));
    threads_.run_on_io([this, request = std::move(request), exchange = std::move(exchange), is_gone, shared,
                        done = std::move(done)]() mutable {
      --num_preparing_;
      if (*is_gone) return;
      if (!*shared) return answer_error(*exchange, to_api_error(shared->error()));
      done(request, exchange, std::move(**shared));
    });
  });
}

template <class Parse>
void ApiService::generate(HttpRequest request, ExchangePtr exchange, Parse parse) {
  if (is_draining_) {
    ApiError error = make_error(503, "The server is stopping and takes no new requests.", "draining", "server_error");
    error.retry_after_seconds = 1;
    return answer_error(*exchange, error);
  }
  if (engine_.has_failed()) {
    return answer_error(
        *exchange, make_error(503, "The engine has failed: " + engine_.failure(), "engine_failed", "server_error"));
  }
  prepare_on_worker(
      std::move(request), std::move(exchange),
      [this, parse, limits = request_limits()](const std::string& body) -> Result<PreparedRequest> {
        ULLAGE_TRY(auto parsed, parse(body, limits));
        return prepare(std::move(parsed), model_, tokenizer_);
      },
      [this](const HttpRequest& origin, const ExchangePtr& to, PreparedRequest prepared) {
        start_generation(std::move(prepared), plain_id(origin.header("x-request-id")), to);
      });
}

void ApiService::start_generation(PreparedRequest prepared, const std::string& request_id, ExchangePtr exchange) {
  const GenerationFields& fields = prepared.fields;
  log_ignored(fields.ignored);
  std::string unique = plain_id(fields.request_id);
  if (unique.empty()) unique = request_id;
  if (unique.empty()) {
    unique = fmt::format("{:016x}{:016x}", random_bits(id_salt_, kIdStream, num_ids_),
                         random_bits(id_salt_, kIdStream + 1, num_ids_));
    ++num_ids_;
  }
  ResponseHead head;
  head.api = prepared.api;
  head.id = make_response_id(prepared.api, unique);
  head.model = fields.model.empty() ? model_.names.front() : fields.model;
  head.created = unix_seconds();
  head.has_logprobs = fields.num_logprobs >= 0;
  head.has_token_ids = fields.return_token_ids;
  head.has_usage = fields.include_usage;
  const uint64_t seed = fields.seed ? *fields.seed : random_bits(options_.seed, kSeedStream, num_seeds_++);
  live_.start(std::move(prepared), std::move(head), seed, clock_.now(), std::move(exchange));
}

void ApiService::tokenize(HttpRequest request, ExchangePtr exchange) {
  prepare_on_worker(
      std::move(request), std::move(exchange),
      [this, limits = request_limits()](const std::string& body) -> Result<std::string> {
        ULLAGE_TRY(const TokenizeRequest parsed, parse_tokenize_request(body, limits));
        ULLAGE_TRY_VOID(check_model_name(parsed.model, model_));
        std::vector<TokenId> tokens;
        if (parsed.is_chat) {
          ULLAGE_TRY(tokens, tokenize_chat(parsed.messages, parsed.add_generation_prompt,
                                           parsed.add_special_tokens.value_or(false), model_, tokenizer_));
        } else {
          ULLAGE_TRY(tokens, tokenize_text(parsed.prompt, parsed.add_special_tokens.value_or(true), model_, tokenizer_,
                                           "prompt"));
        }
        return format_tokens(tokens, model_.max_model_len, parsed.return_token_strs ? &tokenizer_ : nullptr);
      },
      [](const HttpRequest&, const ExchangePtr& to, std::string body) { answer_json(*to, std::move(body)); });
}

void ApiService::detokenize(HttpRequest request, ExchangePtr exchange) {
  prepare_on_worker(
      std::move(request), std::move(exchange),
      [this, limits = request_limits()](const std::string& body) -> Result<std::string> {
        ULLAGE_TRY(const DetokenizeRequest parsed, parse_detokenize_request(body, limits));
        ULLAGE_TRY_VOID(check_model_name(parsed.model, model_));
        for (const TokenId token : parsed.tokens) {
          if (token >= tokenizer_.vocab_size()) {
            return Error{ErrorCode::kInvalidArgument,
                         fmt::format("token id {} is not in the model's vocabulary of {} tokens", token,
                                     tokenizer_.vocab_size()),
                         "tokens"};
          }
        }
        return format_prompt(tokenizer_.decode(parsed.tokens, /*skip_special=*/false));
      },
      [](const HttpRequest&, const ExchangePtr& to, std::string body) { answer_json(*to, std::move(body)); });
}

void ApiService::log_ignored(const std::vector<std::string>& names) {
  if (!options_.log) return;
  for (const std::string& name : names) {
    if (logged_fields_.size() >= kMaxLoggedFields) return;
    if (!logged_fields_.insert(name).second) continue;
    options_.log(
        LogLevel::kInfo,
        fmt::format("Ignoring the request field {}, which this server does not know (said once)", quote(name)));
  }
}

RequestLimits ApiService::request_limits() const {
  RequestLimits limits;
  limits.max_json_depth = options_.limits.max_json_depth;
  limits.max_n = options_.limits.max_n;
  limits.max_prompts = options_.limits.max_prompts;
  limits.max_choices = options_.limits.max_choices;
  limits.max_stop_strings = options_.limits.max_stop_strings;
  limits.max_logprobs = options_.limits.max_logprobs;
  return limits;
}

}  // namespace ullage::serve
