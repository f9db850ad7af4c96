#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <CLI/CLI.hpp>

#include "ullage/base/ascii.h"
#include "ullage/base/clock.h"
#include "ullage/base/log.h"
#include "ullage/cli/commands.h"
#include "ullage/cli/engine_args.h"
#include "ullage/cli/engine_setup.h"
#include "ullage/cli/flag_checks.h"
#include "ullage/cli/loaded_model.h"
#include "ullage/cli/signals.h"
#include "ullage/cli/terminal.h"
#include "ullage/cli/version.h"
#include "ullage/engine/engine_thread.h"
#include "ullage/serve/server.h"

namespace ullage::cli {
namespace {

struct ServeArgs {
  EngineArgs engine;
  std::string host = "127.0.0.1";
  int64_t port = 8000;
  std::vector<std::string> served_model_names;
  std::vector<std::string> api_keys;
  std::string chat_template;
  std::string allowed_origin = "*";
  std::string metrics_prefix = "vllm:";
  std::string max_body_size = "32MiB";
  std::string max_header_size = "32KiB";
  int64_t max_connections = 4096;
  double header_timeout = 30;
  double body_timeout = 60;
  double idle_timeout = 75;
  double write_timeout = 60;
  double drain_timeout = 30;
  double log_interval = 10;
  bool has_metrics = true;
  bool log_requests = false;
  bool log_stats = true;
  std::string log_level = "info";
};

Nanos nanos(double seconds) { return static_cast<Nanos>(seconds * static_cast<double>(kNanosPerSecond)); }

void add_server_options(CLI::App& command, ServeArgs& args) {
  const char* const http = "HTTP";
  command.add_option("--host", args.host, "Address to listen on")
      ->check(plain_text())
      ->capture_default_str()
      ->group(http);
  command.add_option("--port", args.port, "Port; 0 = any free one")
      ->check(integer_between(0, 65535))
      ->capture_default_str()
      ->group(http);
  command
      .add_option("--served-model-name,-a,--alias", args.served_model_names,
                  "What clients call the model; several are accepted, the first is shown")
      ->check(plain_text())
      ->group(http);
  command.add_option("--api-key", args.api_keys, "Clients must send it as a bearer token (also from ULLAGE_API_KEY)")
      ->check(plain_text())
      ->allow_extra_args(false)  // one a flag: what follows may be the model
      ->envname("ULLAGE_API_KEY")
      ->group(http);
  command
      .add_option("--chat-template", args.chat_template,
                  "chatml, llama2, llama3, mistral or gemma, instead of what the model's own template says")
      ->check(CLI::IsMember({"chatml", "llama2", "llama3", "mistral", "gemma"}))
      ->group(http);
  command.add_option("--allowed-origins", args.allowed_origin, "CORS: *, one origin, or \"\" for none")
      ->check(header_text())
      ->capture_default_str()
      ->group(http);
  command.add_option("--metrics-prefix", args.metrics_prefix, "Of the metrics that vLLM has too")
      ->check(metric_prefix())
      ->capture_default_str()
      ->group(http);
  command.add_flag("--metrics", args.has_metrics, "Always served; taken for llama-server's sake")->group("");

  const char* const limits = "Limits";
  command.add_option("--max-body-size", args.max_body_size, "A larger request body is answered 413")
      ->check(size_between(1, INT64_MAX))
      ->capture_default_str()
      ->group(limits);
  command.add_option("--max-header-size", args.max_header_size, "Larger request headers are answered 431")
      ->check(size_between(256, INT64_MAX))
      ->capture_default_str()
      ->group(limits);
  command.add_option("--max-connections", args.max_connections, "Open at once; one more is answered 503")
      ->check(integer_between(1, 1000000))
      ->capture_default_str()
      ->group(limits);
  const CLI::Validator seconds = number_between(0.001, 86400, "from 0.001 to 86400");
  command.add_option("--header-timeout", args.header_timeout, "Seconds for a request's headers to arrive")
      ->check(seconds)
      ->capture_default_str()
      ->group(limits);
  command.add_option("--body-timeout", args.body_timeout, "Seconds a request's body may pause")
      ->check(seconds)
      ->capture_default_str()
      ->group(limits);
  command.add_option("--idle-timeout", args.idle_timeout, "Seconds a kept-alive connection may be silent")
      ->check(seconds)
      ->capture_default_str()
      ->group(limits);
  command.add_option("--write-timeout", args.write_timeout, "Seconds a client may leave its answer unread")
      ->check(seconds)
      ->capture_default_str()
      ->group(limits);
  command.add_option("--drain-timeout", args.drain_timeout, "Seconds that SIGTERM waits for live requests")
      ->check(number_between(0, 86400, "from 0 to 86400"))
      ->capture_default_str()
      ->group(limits);

  const char* const logging = "Logging";
  command.add_option("--log-level", args.log_level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str()
      ->group(logging);
  command.add_option("--log-interval", args.log_interval, "Seconds between two lines of statistics under load")
      ->check(seconds)
      ->capture_default_str()
      ->group(logging);
  command.add_flag("--log-stats,!--disable-log-stats", args.log_stats, "Log those lines (on)")->group(logging);
  command.add_flag("--log-requests", args.log_requests, "One line for every HTTP request")->group(logging);
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

void start_logging(const std::string& level) {
  auto logger = spdlog::stderr_color_mt("ullage");
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
  set_log_hook([](LogLevel at, std::string_view message) { spdlog::log(to_spdlog(at), "{}", message); });
}

Result<serve::ServerOptions> server_options(const ServeArgs& args) {
  serve::ServerOptions options;
  ULLAGE_TRY(const Bytes body, parse_bytes(args.max_body_size, "--max-body-size"));
  ULLAGE_TRY(const Bytes header, parse_bytes(args.max_header_size, "--max-header-size"));
  options.host = args.host;
  options.port = static_cast<uint16_t>(args.port);
  for (const std::string& key : args.api_keys) {
    if (!key.empty()) options.api_keys.push_back(key);
  }
  options.allowed_origin = args.allowed_origin;
  options.metrics_prefix = args.metrics_prefix;
  options.seed = args.engine.seed;
  options.log_requests = args.log_requests;
  options.log_interval = args.log_stats ? nanos(args.log_interval) : 0;
  options.drain_timeout = nanos(args.drain_timeout);
  options.version = kVersion;
  options.log = [](LogLevel level, std::string_view message) { log(level, message); };
  options.limits.max_body_bytes = body.value;
  options.limits.max_header_bytes = header.value;
  options.limits.max_connections = args.max_connections;
  options.limits.header_timeout = nanos(args.header_timeout);
  options.limits.body_timeout = nanos(args.body_timeout);
  options.limits.idle_timeout = nanos(args.idle_timeout);
  options.limits.write_timeout = nanos(args.write_timeout);
  return options;
}

// "KV pool" -> "kv_pool".
std::string metric_label(std::string_view role) {
  std::string label = to_lower(role);
  std::replace(label.begin(), label.end(), ' ', '_');
  return label;
}

serve::ModelInfo model_info(const ServeArgs& args, const LoadedModel& model, const EngineSetup& setup) {
  serve::ModelInfo info;
  info.names = args.served_model_names;
  if (info.names.empty()) info.names.push_back(model.name);
  info.root = model.root;
  info.max_model_len = setup.options.max_model_len;
  if (args.engine.executor == "cpu") info.vocab_size = model.shape.vocab_size;
  info.engine = setup.options;
  info.capacity = setup.capacity;
  info.generation = model.generation;
  info.chat_template = model.chat_template;
  info.device_kind = setup.executor->device_kind();
  info.kv_cache_dtype = setup.kv_cache_dtype;
  for (const memory::FootprintRole& role : memory::roles(setup.footprint)) {
    info.memory.push_back({metric_label(role.name), role.bytes.value});
  }
  return info;
}

void print_how_to_try(const std::string& host, uint16_t port, const std::string& name, bool has_chat, bool needs_key) {
  const std::string base =
      fmt::format("http://{}:{}", host.find(':') == std::string::npos ? host : "[" + host + "]", port);
  print_result(fmt::format("\nServing {} on {}   (metrics: {}/metrics; stop with Ctrl-C)\nTry:\n", name, base, base));
  const char* const key = needs_key ? " -H 'Authorization: Bearer YOUR_KEY'" : "";
  if (has_chat) {
    print_result(
        fmt::format("  curl -N {}/v1/chat/completions -H 'Content-Type: application/json'{} -d "
                    "'{{\"messages\": [{{\"role\": \"user\", \"content\": \"What is a cache?\"}}], \"max_tokens\": 64, "
                    "\"stream\": true}}'\n\n",
                    base, key));
  } else {
    print_result(
        fmt::format("  curl -N {}/v1/completions -H 'Content-Type: application/json'{} -d "
                    "'{{\"prompt\": \"Once upon a time\", \"max_tokens\": 64, \"stream\": true}}'\n\n",
                    base, key));
  }
}

// What SIGINT and SIGTERM do: while the model loads there is nothing to keep, and the program ends at once; afterwards
// the first drains the server and the second stops it.
class StopSwitch {
 public:
  // Ends before the server does.
  class Serving {
   public:
    Serving(StopSwitch& stop, serve::Server& server) : stop_(stop) { stop_.set(&server); }
    ~Serving() { stop_.set(nullptr); }
    Serving(const Serving&) = delete;
    Serving& operator=(const Serving&) = delete;

   private:
    StopSwitch& stop_;
  };

  void on_signal(int count) {
    const std::lock_guard lock(mutex_);
    if (is_loading_) {
      log(LogLevel::kInfo, "interrupted");
      std::_Exit(130);
    }
    if (server_ == nullptr) return;
    if (count == 1) {
      log(LogLevel::kInfo,
          fmt::format("stopping: {} live requests may end first; signal again to stop at once", server_->num_live()));
      server_->request_drain();
    } else {
      server_->stop();
    }
  }

 private:
  void set(serve::Server* server) {
    const std::lock_guard lock(mutex_);
    server_ = server;
    is_loading_ = false;
  }

  std::mutex mutex_;  // guards both
  serve::Server* server_ = nullptr;
  bool is_loading_ = true;
};

// A connection is an open file, and a shell's usual limit of 1024 is below --max-connections' default.
void raise_file_limit(int64_t max_connections) {
  constexpr rlim_t kOtherFiles = 256;  // refused connections, listening sockets, the model, the log
  const rlim_t wanted = static_cast<rlim_t>(max_connections) + kOtherFiles;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == wanted) return;
  log(LogLevel::kWarning, fmt::format("only {} files may be open (ulimit -n), fewer than --max-connections {} needs: "
                                      "connections beyond it will wait unanswered",
                                      limit.rlim_cur, max_connections));
}

Result<int> serve_model(const ServeArgs& args) {
  block_stop_signals();
  start_logging(args.log_level);
  StopSwitch stop;
  SignalWatcher watcher([&stop](int count) { stop.on_signal(count); });
  raise_file_limit(args.max_connections);
  const Nanos started = RealClock().now();
  ULLAGE_TRY(serve::ServerOptions options, server_options(args));
  ULLAGE_TRY(LoadedModel model, load_model(args.engine, args.chat_template));
  ULLAGE_TRY(const std::unique_ptr<EngineSetup> setup, make_engine(args.engine, model));
  for (const std::string& line : boot_lines(*setup)) log(LogLevel::kInfo, line);

  const std::string name = args.served_model_names.empty() ? model.name : args.served_model_names[0];
  serve::Server server(options, model_info(args, model, *setup), *model.tokenizer, *setup->clock);
  setup->engine->add_sink(server.events());
  engine::EngineThread thread(*setup->engine);
  ULLAGE_TRY_VOID(server.start(thread));
  const StopSwitch::Serving serving(stop, server);
  log(LogLevel::kInfo, fmt::format("ready after {:.2f} s", to_seconds(setup->clock->now() - started)));
  print_how_to_try(args.host, server.port(), name, model.chat_template.has_value(), !options.api_keys.empty());
  server.wait();
  thread.stop();
  if (thread.has_failed()) return Error{ErrorCode::kInternal, thread.failure(), "engine"};
  ULLAGE_TRY_VOID(check_decision_log(*setup));
  log(LogLevel::kInfo, "stopped");
  return 0;
}

}  // namespace

Command add_serve(CLI::App& app) {
  auto args = std::make_shared<ServeArgs>();
  CLI::App* command = app.add_subcommand("serve", "An OpenAI-compatible server");
  command->footer(
      "Examples:\n"
      "  ullage serve stories260K --port 8001\n"
      "  ullage serve model.gguf --max-model-len 8k --kv-cache-memory 2GiB --api-key secret\n"
      "  ullage serve --executor modelled --model config.json --device h100   (an API to try, without weights)\n");
  add_engine_options(*command, args->engine);
  add_server_options(*command, *args);
  return [args] { return serve_model(*args); };
}

}  // namespace ullage::cli
