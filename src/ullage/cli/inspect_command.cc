#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "ullage/api/inspect.h"
#include "ullage/cli/commands.h"
#include "ullage/cli/loaded_model.h"
#include "ullage/cli/terminal.h"

namespace ullage::cli {
namespace {

struct InspectArgs {
  std::string model;
  bool is_json = false;
};

Result<int> inspect(const InspectArgs& args) {
  ULLAGE_TRY(const ModelHeader header, open_model(args.model, /*allow_bare_config=*/true));
  api::InspectInput input;
  input.shape = header.shape;
  input.path = header.root;
  if (header.checkpoint) input.weights = api::weights_by_role(*header.checkpoint);
  if (args.is_json) {
    print_result(api::inspect(input) + "\n");
  } else {
    print_result(api::inspect_text(input));
  }
  ULLAGE_TRY_VOID(check_output());
  return 0;
}

}  // namespace

Command add_inspect(CLI::App& app) {
  auto args = std::make_shared<InspectArgs>();
  CLI::App* command = app.add_subcommand("inspect", "What a model is and what its cache costs");
  command->footer(
      "Examples:\n"
      "  ullage inspect model.gguf\n"
      "  ullage inspect Qwen/Qwen3-0.6B --json\n"
      "  ullage inspect config.json     (no weights needed)\n");
  command
      ->add_option("model,-m,--model", args->model,
                   "A .gguf file, a Hugging Face directory, a config.json, or a name in the Hugging Face cache")
      ->type_name("MODEL")
      ->required();
  command->add_flag("--json", args->is_json, "One JSON object");
  return [args] { return inspect(*args); };
}

}  // namespace ullage::cli
