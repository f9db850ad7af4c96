#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ullage/api/link.h"
#include "ullage/api/plan.h"
#include "ullage/api/plan_words.h"
#include "ullage/api/serve_line.h"
#include "ullage/api/sweep.h"
#include "ullage/base/json.h"
#include "ullage/base/mapped_file.h"
#include "ullage/base/quote.h"
#include "ullage/base/units.h"
#include "ullage/cli/commands.h"
#include "ullage/cli/model_argument.h"
#include "ullage/cli/plan_args.h"
#include "ullage/cli/sweep_output.h"
#include "ullage/cli/terminal.h"

namespace ullage::cli {
namespace {

constexpr int64_t kMaxDocumentBytes = 16 * kMiB;
constexpr int kExitNotMet = 3;

struct PlanArgs {
  std::vector<std::string> words;  // MODEL, or a server's line
  std::string line;
  std::string document;
  LeverArgs levers;
  std::vector<std::string> sweep;
  std::string print_line;
  bool is_json = false;
  bool is_csv = false;
  bool has_derivation = false;
  bool has_exit_status = false;
  bool is_link = false;
};

// MODEL, or the words of a server's line, or that line in one word.
Result<api::PlanWords> read_words(const PlanArgs& args) {
  if (!args.line.empty()) return api::parse_plan_line(args.line, "--line");
  if (api::is_serve_line(args.words)) return api::parse_plan_words(args.words, "");
  api::PlanWords words;
  for (const std::string& word : args.words) {
    if (args.words.size() == 1 && word.find(' ') != std::string::npos) {
      const auto line = api::parse_plan_line(word, "");
      if (line && !line->levers.all().empty()) return line;
    }
    if (!words.model.empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("is \"{}\" and then \"{}\"; give one, or a server's line behind --", words.model, word),
                   "MODEL"};
    }
    words.model = word;
  }
  return words;
}

// `--sweep kv=bf16,fp8 MODEL`: the parser gives MODEL to the flag, which takes several words.
void take_model_from_sweep(PlanArgs* args) {
  const bool is_model_last = !args->sweep.empty() && args->sweep.back().find('=') == std::string::npos;
  if (!is_model_last || args->sweep.size() < 2 || !args->words.empty()) return;
  args->words.push_back(args->sweep.back());
  args->sweep.pop_back();
}

// What the lab's address bar holds. Flags beside it win.
Result<api::PlanInput> read_link(const PlanArgs& args, const api::LeverSettings& levers) {
  ULLAGE_TRY(const api::ParsedLink link, api::parse_link(args.words[0], "MODEL"));
  ULLAGE_TRY(api::PlanInput input, api::parse_plan_document(link.document, "MODEL"));
  for (const std::string& key : link.unknown) {
    input.notes.push_back(fmt::format("the link says {}, which this version does not know", quote(key)));
  }
  for (const api::LeverSetting& setting : levers.all()) input.levers.set(setting);
  if (!input.device) ULLAGE_TRY_VOID(read_devices(args.levers.devices, &input));
  return input;
}

Result<api::PlanInput> read_input(const PlanArgs& args) {
  ULLAGE_TRY(const api::LeverSettings levers, read_levers(args.levers));
  if (!args.document.empty()) {
    ULLAGE_TRY(const std::string text, read_text_file(args.document, kMaxDocumentBytes));
    ULLAGE_TRY(api::PlanInput input, api::parse_plan_document(text, args.document));
    for (const api::LeverSetting& setting : levers.all()) input.levers.set(setting);
    if (!input.device) ULLAGE_TRY_VOID(read_devices(args.levers.devices, &input));
    return input;
  }
  if (args.words.size() == 1 && api::is_link(args.words[0])) return read_link(args, levers);
  ULLAGE_TRY(const api::PlanWords words, read_words(args));
  return make_plan_input(words, levers, args.levers.devices);
}

bool sweeps_model(const PlanArgs& args) {
  for (const std::string& axis : args.sweep) {
    if (axis.starts_with("model=")) return true;
  }
  return false;
}

Result<int> run_sweep(const PlanArgs& args) {
  std::vector<api::SweepAxis> axes;
  axes.reserve(args.sweep.size());
  for (const std::string& text : args.sweep) {
    ULLAGE_TRY(api::SweepAxis axis, api::parse_sweep_axis(text, "--sweep"));
    axes.push_back(std::move(axis));
  }
  api::PlanInput input;
  if (args.words.empty() && args.line.empty() && args.document.empty() && sweeps_model(args)) {
    ULLAGE_TRY(input.levers, read_levers(args.levers));
    ULLAGE_TRY_VOID(read_devices(args.levers.devices, &input));
  } else {
    ULLAGE_TRY(input, read_input(args));
  }
  ULLAGE_TRY(api::Sweep sweep, api::Sweep::make(std::move(input), std::move(axes), read_plan_model));
  return print_sweep(sweep, args.is_csv    ? SweepFormat::kCsv
                            : args.is_json ? SweepFormat::kJsonLines
                                           : SweepFormat::kText);
}

Result<int> print_line(const PlanArgs& args, const api::PlanInput& input) {
  const std::string model = input.model != nullptr ? input.model->name : "MODEL";
  ULLAGE_TRY(const api::PrintedLine printed, api::print_serve_line(args.print_line, model, input.levers));
  print_result(printed.line + "\n");
  for (const std::string& note : printed.notes) print_progress("note: " + note + "\n");
  ULLAGE_TRY_VOID(check_output());
  return 0;
}

Result<int> print_link(const api::PlanInput& input) {
  ULLAGE_TRY(const Json document, api::plan_document_of(input));
  ULLAGE_TRY(const std::string link, api::print_link(document, "MODEL"));
  print_result(link + "\n");
  ULLAGE_TRY_VOID(check_output());
  return 0;
}

Result<int> run_plan(PlanArgs& args) {
  take_model_from_sweep(&args);
  if (!args.sweep.empty()) return run_sweep(args);
  if (args.is_csv) return Error{ErrorCode::kInvalidArgument, "goes with --sweep; for one plan give --json", "--csv"};
  ULLAGE_TRY(const api::PlanInput input, read_input(args));
  if (!args.print_line.empty()) return print_line(args, input);
  if (args.is_link) return print_link(input);
  ULLAGE_TRY(const api::PlanAnswer answer, api::plan(input, {.has_derivation = args.has_derivation}));
  print_result(args.is_json ? api::plan_json(answer) + "\n" : api::plan_text(answer, terminal_style()));
  ULLAGE_TRY_VOID(check_output());
  const bool is_met = answer.evaluation.fit == plan::Fit::kFits && (!answer.inverse || answer.inverse->is_met);
  return args.has_exit_status && !is_met ? kExitNotMet : 0;
}

}  // namespace

Command add_plan(CLI::App& app) {
  auto args = std::make_shared<PlanArgs>();
  CLI::App* command = app.add_subcommand("plan", "What a model holds on a device, and how fast it will be");
  command->footer(
      "Sizes: 30GiB is 2^30, 30GB is 10^9. Counts: 128k is 128,000, 128K is 131,072. Times: 500ms, 2s.\n"
      "Exit codes: 0 answered (also when the answer is no), 1 a file could not be read, 2 the command line was wrong,\n"
      "3 with --exit-status when it does not fit or a target is missed.\n\n"
      "Examples:\n"
      "  ullage plan Qwen/Qwen3-8B --device h100\n"
      "  ullage plan config.json --device l40s --tp 2 --prompt 4k --output 512 --users 50\n"
      "  ullage plan -- vllm serve Qwen/Qwen3-8B --max-model-len 32768 --kv-cache-dtype fp8\n"
      "  ullage plan Qwen/Qwen3-8B --csv --sweep kv=bf16,fp8 prompt=1k..128k\n"
      "  ullage plan --layers 40 --kv-heads 8 --head-dim 128 --hidden 5120 --kv-memory 30GiB\n");
  command
      ->add_option(
          "model", args->words,
          "A config.json, a directory, a .gguf or .safetensors file, a name of the catalogue (`ullage models`) or "
          "of the Hugging Face cache, or - for a config.json on standard input; a link (#v1;...); or a server's line "
          "behind --")
      ->type_name("MODEL");
  command->add_option("--line", args->line, "A server's line in one word: 'vllm serve ...'")->type_name("LINE");
  command->add_option("--scenario", args->document, "A plan document (docs/plan-json.md)")->type_name("FILE");
  add_lever_options(*command, args->levers);
  const char* const output = "Output";
  command->add_flag("--explain", args->has_derivation, "Show how each figure comes about")->group(output);
  command->add_flag("--json", args->is_json, "One JSON object; with --sweep one a line")->group(output);
  command->add_flag("--csv", args->is_csv, "With --sweep: comma-separated values")->group(output);
  command
      ->add_option("--sweep", args->sweep,
                   "Plan every combination: kv=bf16,fp8 prompt=1k..128k (doubling) tp=1..8:1; any flag, and model=")
      ->type_name("LEVER=VALUES")
      ->expected(1, 64)
      ->group(output);
  command
      ->add_option("--print-line", args->print_line, "Print the line that starts vllm, ullage, llama-server or sglang")
      ->type_name("SERVER")
      ->group(output);
  command
      ->add_flag("--link", args->is_link,
                 "Print the scenario as the end of a link (#v1;model=...), which `ullage plan` and the lab read")
      ->group(output);
  command->add_flag("--exit-status", args->has_exit_status, "Exit with 3 when it does not fit or a target is missed")
      ->group(output);
  return [args]() -> Result<int> {
    const Result<int> code = run_plan(*args);
    return code ? code : exit_code_of(code.error());
  };
}

}  // namespace ullage::cli
