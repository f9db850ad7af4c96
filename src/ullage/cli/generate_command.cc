#include <atomic>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include "ullage/base/json.h"
#include "ullage/base/log.h"
#include "ullage/cli/commands.h"
#include "ullage/cli/engine_args.h"
#include "ullage/cli/engine_setup.h"
#include "ullage/cli/flag_checks.h"
#include "ullage/cli/loaded_model.h"
#include "ullage/cli/terminal.h"
#include "ullage/engine/engine.h"

namespace ullage::cli {
namespace {

struct GenerateArgs {
  EngineArgs engine;
  std::string prompt;
  std::string system;
  std::string chat_template;
  int64_t max_tokens = 256;
  int64_t min_tokens = 0;
  double temperature = 0;
  double top_p = 1;
  int64_t top_k = 0;
  double min_p = 0;
  double repetition_penalty = 1;
  bool is_chat = false;
  bool is_ignoring_eos = false;
  bool has_no_kv_cache = false;
  bool is_json = false;
};

std::atomic<bool> g_interrupted{false};  // set by SIGINT's handler, the one thing that a handler may do

void interrupt(int) { g_interrupted = true; }

// Prints the text as it comes, and remembers what the summary needs.
class Printer final : public engine::EventSink {
 public:
  Printer(const text::Tokenizer& tokenizer, const Clock& clock, bool is_streaming)
      : decoder_(tokenizer, /*skip_special=*/true), clock_(clock), is_streaming_(is_streaming) {}

  void on_events(std::span<const sched::Event> events) override {
    for (const sched::Event& event : events) {
      if (const auto* token = std::get_if<sched::TokenEvent>(&event.body)) {
        if (tokens.empty()) first_token_at = clock_.now();
        last_token_at = clock_.now();
        tokens.push_back(token->sampled.token);
        emit(decoder_.push(token->sampled.token));
      } else if (const auto* finished = std::get_if<sched::FinishedEvent>(&event.body)) {
        finish_reason = finished->reason == sched::FinishReason::kLength ? "length" : "stop";
        emit(decoder_.flush());
      }
    }
  }

  std::vector<TokenId> tokens;
  std::string text;
  std::string finish_reason = "cancelled";
  Nanos first_token_at = 0;
  Nanos last_token_at = 0;

 private:
  void emit(const std::string& piece) {
    text += piece;
    if (!is_streaming_ || piece.empty()) return;
    print_result(piece);
  }

  text::StreamDecoder decoder_;
  const Clock& clock_;
  bool is_streaming_ = true;
};

// The prompt's tokens: as given, or as the model's chat template wraps it.
Result<std::vector<TokenId>> prompt_tokens(const GenerateArgs& args, const LoadedModel& model) {
  std::string prompt = args.prompt;
  if (prompt == "-") prompt.assign(std::istreambuf_iterator<char>(std::cin), {});
  if (!args.is_chat) return model.tokenizer->encode(prompt);
  ULLAGE_TRY(const text::ChatTemplate chat, model.chat_template);
  std::vector<text::ChatMessage> messages;
  if (!args.system.empty()) messages.push_back({"system", args.system});
  messages.push_back({"user", prompt});
  ULLAGE_TRY(const text::ChatPrompt wrapped, chat.render(messages, /*add_generation_prompt=*/true));
  text::EncodeOptions options;
  options.add_special_tokens = false;
  options.parse_special_everywhere = false;
  options.special_ranges = wrapped.template_ranges;
  return model.tokenizer->encode(wrapped.text, options);
}

// A tokenizer may know tokens that the model has no embedding for.
Result<void> check_embedded(const GenerateArgs& args, const LoadedModel& model, const std::vector<TokenId>& prompt) {
  if (args.engine.executor != "cpu") return {};
  for (const TokenId token : prompt) {
    if (token < model.shape.vocab_size) continue;
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("has token {} (\"{}\"), which the tokenizer knows and the model, of {} tokens, does not; is it "
                    "the model's own tokenizer?",
                    token, model.tokenizer->token_name(token), model.shape.vocab_size),
        "prompt"};
  }
  return {};
}

sched::RequestParams request(const GenerateArgs& args, const LoadedModel& model, std::vector<TokenId> prompt,
                             int64_t max_model_len, Nanos now) {
  sched::RequestParams params;
  params.id = RequestId(1);
  params.arrival = now;
  params.stop.max_tokens =
      std::max<int64_t>(1, std::min(args.max_tokens, max_model_len - static_cast<int64_t>(prompt.size())));
  params.stop.min_tokens = args.min_tokens;
  params.stop.ignore_eos = args.is_ignoring_eos;
  params.stop.eos_token_ids = model.generation.eos_token_ids;
  const auto more = model.tokenizer->eos_tokens();
  params.stop.eos_token_ids.insert(params.stop.eos_token_ids.end(), more.begin(), more.end());
  params.sampling.temperature = args.temperature;
  params.sampling.top_p = args.top_p;
  params.sampling.top_k = args.top_k;
  params.sampling.min_p = args.min_p;
  params.sampling.repetition_penalty = args.repetition_penalty;
  params.sampling.seed = args.engine.seed;
  params.prompt = std::move(prompt);
  return params;
}

double rate(int64_t count, Nanos time) { return time > 0 ? static_cast<double>(count) / to_seconds(time) : 0; }

Result<int> generate(GenerateArgs args) {
  if (args.min_tokens > args.max_tokens) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} is over --max-tokens {}", args.min_tokens, args.max_tokens), "--min-tokens"};
  }
  if (!args.is_chat && !(args.system.empty() && args.chat_template.empty())) {
    return Error{ErrorCode::kInvalidArgument, "counts only together with --chat; add it",
                 args.system.empty() ? "--chat-template" : "--system"};
  }
  set_log_hook([](LogLevel level, std::string_view message) {
    if (level >= LogLevel::kWarning) print_progress(fmt::format("{}\n", message));
  });
  ULLAGE_TRY(const LoadedModel model, load_model(args.engine, args.chat_template));
  ULLAGE_TRY(std::vector<TokenId> prompt, prompt_tokens(args, model));
  const auto num_prompt = static_cast<int64_t>(prompt.size());
  if (num_prompt == 0) {
    return Error{ErrorCode::kInvalidArgument, "the prompt has no tokens; write some text", "prompt"};
  }
  ULLAGE_TRY_VOID(check_embedded(args, model, prompt));
  // One request needs no more pool than itself.
  if (args.engine.max_num_seqs.empty()) args.engine.max_num_seqs = "1";
  args.engine.recomputes_past = args.has_no_kv_cache;
  if (args.has_no_kv_cache) args.engine.has_prefix_caching = false;
  ULLAGE_TRY(const std::unique_ptr<EngineSetup> setup, make_engine(args.engine, model));
  if (num_prompt + args.max_tokens > setup->options.max_model_len && num_prompt < setup->options.max_model_len) {
    print_progress(fmt::format("note: only {} tokens fit after the prompt's {} (max_model_len {})\n",
                               setup->options.max_model_len - num_prompt, num_prompt, setup->options.max_model_len));
  }

  Printer printer(*model.tokenizer, *setup->clock, !args.is_json);
  setup->engine->add_sink(printer);
  struct sigaction action{};
  action.sa_handler = interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second Ctrl-C ends a step that hangs
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);

  const Nanos started = setup->clock->now();
  ULLAGE_TRY_VOID(
      setup->engine->add_request(request(args, model, std::move(prompt), setup->options.max_model_len, started)));
  const bool shows_progress = isatty(STDERR_FILENO) != 0 && !args.is_json;
  while (!g_interrupted && check_output() && setup->engine->has_work()) {
    ULLAGE_TRY([[maybe_unused]] const bool did_work, setup->engine->step());
    if (shows_progress && printer.tokens.empty()) {
      print_progress(fmt::format("\rreading the prompt: {:.1f} s", to_seconds(setup->clock->now() - started)));
    } else if (shows_progress && printer.tokens.size() == 1 && setup->clock->now() - started > kNanosPerSecond) {
      print_progress("\r\033[K");
    }
  }
  if (setup->engine->has_work()) setup->engine->cancel(RequestId(1));  // interrupted, or nobody reads

  const auto num_output = static_cast<int64_t>(printer.tokens.size());
  const Nanos ttft = num_output > 0 ? printer.first_token_at - started : 0;
  const Nanos decode = printer.last_token_at - printer.first_token_at;
  if (args.is_json) {
    Json json;
    json["schema_version"] = 1;
    json["model"] = model.name;
    json["text"] = printer.text;
    json["token_ids"] = printer.tokens;
    json["finish_reason"] = printer.finish_reason;
    json["num_prompt_tokens"] = num_prompt;
    json["num_output_tokens"] = num_output;
    json["ttft_seconds"] = to_seconds(ttft);
    json["decode_seconds"] = to_seconds(decode);
    json["decode_tokens_per_second"] = rate(num_output - 1, decode);
    json["kv_cache"] = !args.has_no_kv_cache;
    print_result(dump_json(json, 2) + "\n");
  } else {
    print_result("\n");
    print_progress(fmt::format(
        "\n{} prompt tokens, TTFT {:.3f} s ({:.1f} tokens/s prefill); {} output tokens, {:.1f} tokens/s decode{}; "
        "{}\n",
        num_prompt, to_seconds(ttft), rate(num_prompt, ttft), num_output, rate(num_output - 1, decode),
        args.has_no_kv_cache ? " without a KV cache" : "", printer.finish_reason));
    if (!args.is_chat && model.chat_template && isatty(STDERR_FILENO) != 0) {
      print_progress("(the prompt was continued as it stands; --chat asks it as a question)\n");
    }
  }
  ULLAGE_TRY_VOID(check_output());
  ULLAGE_TRY_VOID(check_decision_log(*setup));
  return g_interrupted ? 130 : 0;
}

}  // namespace

Command add_generate(CLI::App& app) {
  auto args = std::make_shared<GenerateArgs>();
  CLI::App* command = app.add_subcommand("generate", "One answer, streamed to the terminal");
  command->footer(
      "Examples:\n"
      "  ullage generate stories260K \"Once upon a time\"\n"
      "  ullage generate model.gguf --chat \"Why is the sky blue?\" --max-tokens 100\n"
      "  ullage generate model.gguf \"Once\" --max-tokens 512 --ignore-eos --no-kv-cache   (feel the difference)\n");
  add_engine_options(*command, args->engine);
  command->add_option("prompt,--prompt", args->prompt, "The text to continue; - reads it from stdin")->required();
  const char* const sampling = "Sampling";
  command->add_flag("--chat", args->is_chat, "Wrap the prompt in the model's chat template")->group(sampling);
  command->add_option("--system", args->system, "System message, with --chat")->group(sampling);
  command->add_option("--chat-template", args->chat_template, "chatml, llama2, llama3, mistral or gemma")
      ->check(CLI::IsMember({"chatml", "llama2", "llama3", "mistral", "gemma"}))
      ->group(sampling);
  command->add_option("-n,--max-tokens,--predict", args->max_tokens, "Output tokens, at most")
      ->check(integer_between(1, 1 << 30))
      ->capture_default_str()
      ->group(sampling);
  command->add_option("--min-tokens", args->min_tokens, "Output tokens, at least")
      ->check(integer_between(0, 1 << 30))
      ->group(sampling);
  command->add_flag("--ignore-eos", args->is_ignoring_eos, "Go on past the end token")->group(sampling);
  command->add_option("--temperature,--temp", args->temperature, "0 = greedy")
      ->check(number_between(0, 100, "from 0 to 100"))
      ->capture_default_str()
      ->group(sampling);
  command->add_option("--top-p", args->top_p)
      ->check(number_between(1e-9, 1, "over 0, to 1"))
      ->capture_default_str()
      ->group(sampling);
  command->add_option("--top-k", args->top_k, "0 = all")
      ->check(integer_between(0, 1 << 30))
      ->capture_default_str()
      ->group(sampling);
  command->add_option("--min-p", args->min_p)
      ->check(number_between(0, 1, "from 0 to 1"))
      ->capture_default_str()
      ->group(sampling);
  command->add_option("--repetition-penalty", args->repetition_penalty)
      ->check(number_between(1e-3, 100, "from 0.001 to 100"))
      ->capture_default_str()
      ->group(sampling);
  command
      ->add_flag("--no-kv-cache", args->has_no_kv_cache,
                 "Recompute every past token at every step, as if nothing were kept")
      ->group("Memory");
  command->add_flag("--json", args->is_json, "One JSON object instead of the stream");
  return [args] { return generate(*args); };
}

}  // namespace ullage::cli
