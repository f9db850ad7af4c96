#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ullage/api/devices.h"
#include "ullage/cli/commands.h"
#include "ullage/cli/device_files.h"
#include "ullage/cli/terminal.h"

namespace ullage::cli {
namespace {

struct DevicesArgs {
  std::string name;
  std::string file;
  bool is_json = false;
};

Result<int> devices(const DevicesArgs& args) {
  ULLAGE_TRY(const std::vector<hardware::Device> known, load_devices(args.file));
  std::vector<hardware::Device> chosen;
  const Result<hardware::Device> one = hardware::find_device(args.name, known, "NAME");
  if (!args.name.empty() && one) {
    chosen.push_back(*one);
  } else {
    chosen = api::devices_like(args.name, known);
  }
  if (chosen.empty()) return one.error();
  if (args.is_json) {
    print_result(api::devices_json(chosen) + "\n");
  } else {
    print_result(chosen.size() == 1 ? api::device_text(chosen[0]) : api::devices_text(chosen));
  }
  ULLAGE_TRY_VOID(check_output());
  return 0;
}

}  // namespace

Command add_devices(CLI::App& app) {
  auto args = std::make_shared<DevicesArgs>();
  CLI::App* command = app.add_subcommand("devices", "What accelerators and processors are: memory, bandwidth, FLOP/s");
  command->footer(
      "Examples:\n"
      "  ullage devices\n"
      "  ullage devices h100               (those whose name holds it; one alone is shown in full)\n"
      "  ullage devices --json > mine.json (a file that --devices reads)\n");
  command->add_option("name", args->name, "A device, or part of its name")->type_name("NAME");
  command
      ->add_option("--devices", args->file, "A file with devices of your own, over the built-in ones ($ULLAGE_DEVICES)")
      ->type_name("FILE");
  command->add_flag("--json", args->is_json, "One JSON object");
  return [args] { return devices(*args); };
}

}  // namespace ullage::cli
