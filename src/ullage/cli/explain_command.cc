#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ullage/api/explain.h"
#include "ullage/api/plan_words.h"
#include "ullage/base/mapped_file.h"
#include "ullage/base/units.h"
#include "ullage/cli/commands.h"
#include "ullage/cli/plan_args.h"
#include "ullage/cli/terminal.h"

namespace ullage::cli {
namespace {

constexpr int64_t kMaxDocumentBytes = 16 * kMiB;

struct ExplainArgs {
  std::string before;
  std::string after;
  LeverArgs levers;
  bool is_json = false;
};

bool is_document(const std::string& text) {
  std::error_code ignored;
  return text.ends_with(".json") && text.find(' ') == std::string::npos && std::filesystem::exists(text, ignored);
}

// A plan's arguments in one word, or a server's line. What `base` has and the text does not say stays, when the text
// only changes it (it begins with a flag).
Result<api::PlanWords> read_side(const std::string& text, const char* where, const api::PlanWords* base) {
  ULLAGE_TRY(api::PlanWords words, api::parse_plan_line(text, where));
  if (base == nullptr || !words.model.empty()) return words;
  api::PlanWords changed = *base;
  for (const api::LeverSetting& setting : words.levers.all()) changed.levers.set(setting);
  return changed;
}

// Flags outside A and B hold for both, unless a side says otherwise.
Result<api::PlanInput> make_side(api::PlanWords words, const api::LeverSettings& common, const std::string& devices) {
  for (const api::LeverSetting& setting : common.all()) words.levers.set_default(setting);
  return make_plan_input(words, {}, devices);
}

Result<api::PlanInput> read_document(const std::string& path) {
  ULLAGE_TRY(const std::string text, read_text_file(path, kMaxDocumentBytes));
  return api::parse_plan_document(text, path);
}

Result<int> run_explain(const ExplainArgs& args) {
  ULLAGE_TRY(const api::LeverSettings common, read_levers(args.levers));
  api::PlanInput before;
  api::PlanInput after;
  if (is_document(args.before) && is_document(args.after)) {
    ULLAGE_TRY(before, read_document(args.before));
    ULLAGE_TRY(after, read_document(args.after));
  } else {
    ULLAGE_TRY(const api::PlanWords first, read_side(args.before, "A", nullptr));
    ULLAGE_TRY(const api::PlanWords second, read_side(args.after, "B", &first));
    ULLAGE_TRY(before, make_side(first, common, args.levers.devices));
    ULLAGE_TRY(after, make_side(second, common, args.levers.devices));
  }
  ULLAGE_TRY(const api::ExplainAnswer answer, api::explain(before, after));
  print_result(args.is_json ? api::explain_json(answer) + "\n" : api::explain_text(answer, terminal_style()));
  ULLAGE_TRY_VOID(check_output());
  return 0;
}

}  // namespace

Command add_explain(CLI::App& app) {
  auto args = std::make_shared<ExplainArgs>();
  CLI::App* command = app.add_subcommand("explain", "Why two plans differ, term by term");
  command->footer(
      "A and B are a plan's arguments in quotes, or a server's line. B may say only what it changes of A; flags\n"
      "outside the quotes hold for both.\n\n"
      "Examples:\n"
      "  ullage explain \"Qwen/Qwen3-8B --kv bf16\" \"--kv fp8\" --device h100\n"
      "  ullage explain 'vllm serve Qwen/Qwen3-8B' 'python -m sglang.launch_server --model-path Qwen/Qwen3-8B'\n"
      "  ullage explain \"Qwen/Qwen3-8B --policy vllm-0.19\" \"--policy vllm-0.29\"\n");
  command->add_option("A", args->before, "The plan before")->type_name("PLAN")->required();
  command->add_option("B", args->after, "The plan after, or what changes")->type_name("PLAN")->required();
  add_lever_options(*command, args->levers);
  command->add_flag("--json", args->is_json, "One JSON object")->group("Output");
  return [args]() -> Result<int> {
    const Result<int> code = run_explain(*args);
    return code ? code : exit_code_of(code.error());
  };
}

}  // namespace ullage::cli
