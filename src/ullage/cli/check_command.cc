#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ullage/api/check.h"
#include "ullage/api/plan_words.h"
#include "ullage/base/mapped_file.h"
#include "ullage/base/units.h"
#include "ullage/cli/commands.h"
#include "ullage/cli/http_get.h"
#include "ullage/cli/model_argument.h"
#include "ullage/cli/plan_args.h"
#include "ullage/cli/terminal.h"

namespace ullage::cli {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kMaxLogBytes = 256 * kMiB;
constexpr int64_t kMaxReferenceBytes = int64_t{1} << 30;

struct CheckArgs {
  std::string log;
  std::string metrics;
  std::string model;
  std::string line;
  std::string reference;
  std::string configs;
  LeverArgs levers;
  bool is_json = false;
};

Result<std::string> read_standard_input() {
  std::string text;
  std::string buffer(1 << 16, '\0');
  while (std::cin && static_cast<int64_t>(text.size()) <= kMaxLogBytes) {
    std::cin.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    text.append(buffer.data(), static_cast<size_t>(std::cin.gcount()));
  }
  if (static_cast<int64_t>(text.size()) > kMaxLogBytes) {
    return Error{ErrorCode::kTooLarge, "is over 256 MiB; give the part with the start", "standard input"};
  }
  return text;
}

Result<std::string> read_source(const std::string& source) {
  if (source == "-") return read_standard_input();
  if (source.starts_with("http://") || source.starts_with("https://")) return http_get(source);
  return read_text_file(source, kMaxLogBytes);
}

// The model that the log names, when it can be found; else a note will say that it is not known.
void use_logged_model(const std::string& log, api::PlanInput* input) {
  const auto startup = observe::read_startup_log(log, "");
  if (!startup || !startup->model) return;
  if (auto model = read_plan_model(startup->model->value)) input->model = *std::move(model);
}

Result<api::PlanInput> read_plan(const CheckArgs& args, const std::string& log) {
  ULLAGE_TRY(const api::LeverSettings levers, read_levers(args.levers));
  api::PlanWords words;
  if (!args.line.empty()) {
    ULLAGE_TRY(words, api::parse_plan_line(args.line, "--line"));
  }
  if (!args.model.empty()) words.model = args.model;
  if (!words.model.empty()) return make_plan_input(words, levers, args.levers.devices);
  api::PlanInput input;
  input.levers = levers;
  ULLAGE_TRY_VOID(read_devices(args.levers.devices, &input));
  use_logged_model(log, &input);
  return input;
}

Result<int> run_log(const CheckArgs& args) {
  api::CheckInput input;
  input.log_where = args.log == "-" ? "standard input" : args.log;
  if (!args.log.empty()) {
    ULLAGE_TRY(std::string text, read_source(args.log));
    if (observe::is_metrics(text)) {
      ULLAGE_TRY(input.metrics, observe::read_metrics(text, input.log_where));
    } else {
      input.log = std::move(text);
    }
  }
  if (!args.metrics.empty()) {
    ULLAGE_TRY(const std::string text, read_source(args.metrics));
    ULLAGE_TRY(input.metrics, observe::read_metrics(text, args.metrics));
  }
  ULLAGE_TRY(input.plan, read_plan(args, input.log));
  ULLAGE_TRY(const api::CheckAnswer answer, api::check(input));
  print_result(args.is_json ? api::check_json(answer) + "\n" : api::check_text(answer, terminal_style()));
  ULLAGE_TRY_VOID(check_output());
  return 0;
}

// "configs/x.json" is also looked for under --configs.
Result<std::string> read_reference_file(const CheckArgs& args, const std::string& path) {
  std::error_code ignored;
  fs::path file = fs::path(args.reference) / path;
  if (!fs::exists(file, ignored) && !args.configs.empty() && path.starts_with("configs")) {
    file = fs::path(args.configs) / fs::path(path).filename();
  }
  if (!fs::exists(file, ignored)) {
    return Error{ErrorCode::kNotFound, "is not there", file.string()};
  }
  return read_text_file(file.string(), kMaxReferenceBytes);
}

std::vector<std::string> list_reference_folder(const CheckArgs& args, const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::path(args.reference) / folder, ignored)) {
    if (entry.is_regular_file(ignored)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<int> run_reference(const CheckArgs& args) {
  std::error_code ignored;
  if (!fs::is_directory(args.reference, ignored)) {
    return Error{ErrorCode::kNotFound, "is no folder; give one that is laid out as docs/accuracy.md says",
                 args.reference};
  }
  observe::ReferenceFiles files;
  files.read = [&args](const std::string& path) { return read_reference_file(args, path); };
  files.list = [&args](const std::string& folder) { return list_reference_folder(args, folder); };
  ULLAGE_TRY(const observe::ReferenceReport report, observe::run_reference(files));
  print_result(args.is_json ? api::reference_json(report) + "\n" : observe::format_report(report));
  ULLAGE_TRY_VOID(check_output());
  return report.has_miss() ? 1 : 0;
}

Result<int> run_check(const CheckArgs& args) {
  if (!args.reference.empty()) return run_reference(args);
  if (args.log.empty() && args.metrics.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "is missing: an engine's log, a scrape of its /metrics (--metrics), or - for standard input", "--log"};
  }
  return run_log(args);
}

}  // namespace

Command add_check(CLI::App& app) {
  auto args = std::make_shared<CheckArgs>();
  CLI::App* command = app.add_subcommand("check", "A log or metrics of an engine against the plan");
  command->footer(
      "What the log says (version, flags, device memory) is taken from it; flags here win.\n"
      "Exit codes: 0 read and answered, 1 a file could not be read or a reference set has a miss, 2 the command line\n"
      "was wrong.\n\n"
      "Examples:\n"
      "  ullage check vllm.log --model Qwen/Qwen3-8B --device h100\n"
      "  ullage check --metrics http://localhost:8000/metrics\n"
      "  docker logs vllm 2>&1 | ullage check - --device l40s\n"
      "  ullage check --reference DIR\n");
  command->add_option("log,--log", args->log, "A start-up log, lines of a serving engine, or both; - is standard input")
      ->type_name("LOG");
  command->add_option("--metrics", args->metrics, "A scrape of /metrics: a file or a URL; DCGM's gauges may be in it")
      ->type_name("FILE|URL");
  command->add_option("-m,--model", args->model, "The model, when the log's name of it cannot be found")
      ->type_name("MODEL");
  command->add_option("--line", args->line, "The server's line: 'vllm serve ...'")->type_name("LINE");
  command->add_option("--reference", args->reference, "A folder of recorded answers: prints how many are met")
      ->type_name("DIR");
  command->add_option("--configs", args->configs, "Where configs are that the folder lacks")->type_name("DIR");
  add_lever_options(*command, args->levers);
  command->add_flag("--json", args->is_json, "One JSON object")->group("Output");
  return [args]() -> Result<int> {
    const Result<int> code = run_check(*args);
    return code ? code : exit_code_of(code.error());
  };
}

}  // namespace ullage::cli
