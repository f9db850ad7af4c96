#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "ullage/api/models.h"
#include "ullage/cli/commands.h"
#include "ullage/cli/terminal.h"

namespace ullage::cli {
namespace {

struct ModelsArgs {
  std::string name;
  bool is_json = false;
};

Result<int> models(const ModelsArgs& args) {
  const std::vector<api::ModelRow> rows = api::model_rows(args.name);
  if (rows.empty()) {
    ULLAGE_TRY([[maybe_unused]] const model::CatalogueModel none, model::find_catalogue_model(args.name, "NAME"));
  }
  print_result(args.is_json ? api::models_json(rows) + "\n" : api::models_text(rows));
  ULLAGE_TRY_VOID(check_output());
  return 0;
}

}  // namespace

Command add_models(CLI::App& app) {
  auto args = std::make_shared<ModelsArgs>();
  CLI::App* command = app.add_subcommand("models", "Models that are known by name, and what their cache costs");
  command->footer(
      "Examples:\n"
      "  ullage models\n"
      "  ullage models qwen3        (those whose name holds it)\n"
      "  ullage models --json\n");
  command->add_option("name", args->name, "Part of a model's name")->type_name("NAME");
  command->add_flag("--json", args->is_json, "One JSON object");
  return [args] { return models(*args); };
}

}  // namespace ullage::cli
