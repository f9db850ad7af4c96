#include "ullage/cli/plan_args.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ullage/base/mapped_file.h"
#include "ullage/base/units.h"
#include "ullage/cli/device_files.h"
#include "ullage/cli/model_argument.h"
#include "ullage/cli/terminal.h"

namespace ullage::cli {
namespace {

constexpr int64_t kMaxDeviceFileBytes = kMiB;

// The parser reads "-np" as two flags; app.cc turns such into long ones before.
std::string parser_names(const api::Lever& lever) {
  std::string names;
  std::string_view rest = lever.flags;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    if (name.starts_with("--") || name.size() == 2) names += (names.empty() ? "" : ",") + std::string(name);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return names;
}

const char* type_name(api::LeverKind kind) {
  using enum api::LeverKind;
  switch (kind) {
    case kCount:
      return "N";
    case kBytes:
      return "SIZE";
    case kRatio:
      return "SHARE";
    case kNumber:
      return "NUMBER";
    case kDuration:
      return "TIME";
    case kBandwidth:
      return "RATE";
    case kFlops:
      return "FLOPS";
    case kMoney:
      return "USD";
    case kWord:
      return "NAME";
    case kFlag:
      return "";
  }
  return "";
}

CLI::Validator lever_check(const api::Lever& lever) {
  return CLI::Validator(
      [&lever](std::string& text) -> std::string {
        const auto value = api::parse_lever(lever, text, "");
        return value ? "" : value.error().message;
      },
      "");
}

Result<void> read_device_file(const std::string& path, api::PlanInput* input) {
  ULLAGE_TRY(std::string text, read_text_file(path, kMaxDeviceFileBytes));
  // One device alone is enough.
  if (text.find("\"devices\"") == std::string::npos) text = "{\"devices\": [" + text + "]}";
  ULLAGE_TRY(std::vector<hardware::Device> devices, hardware::parse_devices(text, path));
  if (devices.empty()) return Error{ErrorCode::kInvalidArgument, "has no device in it", path};
  input->device = std::move(devices.front());
  return {};
}

bool is_utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view text = value;
    return text.find("UTF-8") != std::string_view::npos || text.find("utf8") != std::string_view::npos ||
           text.find("utf-8") != std::string_view::npos || text.find("UTF8") != std::string_view::npos;
  }
  return false;
}

int terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace

void add_lever_options(CLI::App& command, LeverArgs& args) {
  const auto levers = api::levers();
  args.texts.assign(levers.size(), "");
  args.flags.assign(levers.size(), 0);
  command.add_option("--devices", args.devices, "A file of your own devices, over the catalogue ($ULLAGE_DEVICES)")
      ->type_name("FILE")
      ->group("Device");
  for (size_t i = 0; i < levers.size(); ++i) {
    const api::Lever& lever = levers[i];
    const std::string help(lever.help);
    if (lever.kind == api::LeverKind::kFlag) {
      char* given = &args.flags[i];
      command.add_flag_callback(parser_names(lever), [given] { *given = 1; }, help)->group(std::string(lever.group));
      continue;
    }
    command.add_option(parser_names(lever), args.texts[i], help)
        ->check(lever_check(lever))
        ->type_name(type_name(lever.kind))
        ->take_last()
        ->group(std::string(lever.group));
  }
}

Result<api::LeverSettings> read_levers(const LeverArgs& args) {
  api::LeverSettings settings;
  const auto levers = api::levers();
  for (size_t i = 0; i < levers.size(); ++i) {
    const std::string& text = args.flags[i] != 0 ? "true" : args.texts[i];
    if (text.empty()) continue;
    const std::string where = api::main_flag(levers[i]);
    ULLAGE_TRY(api::LeverValue value, api::parse_lever(levers[i], text, where));
    settings.set(api::LeverSetting{&levers[i], std::move(value), where});
  }
  return settings;
}

Result<void> read_devices(const std::string& devices, api::PlanInput* input) {
  const api::LeverSetting* device = input->levers.find("device");
  if (device != nullptr && device->value.text.ends_with(".json")) {
    return read_device_file(device->value.text, input);
  }
  ULLAGE_TRY(input->devices, load_devices(devices));
  return {};
}

Result<api::PlanInput> make_plan_input(const api::PlanWords& words, const api::LeverSettings& levers,
                                       const std::string& devices) {
  api::PlanInput input;
  input.notes = words.notes;
  input.levers = words.levers;
  for (const api::LeverSetting& setting : levers.all()) input.levers.set(setting);
  ULLAGE_TRY_VOID(read_devices(devices, &input));
  if (!words.model.empty()) {
    ULLAGE_TRY(input.model, read_plan_model(words.model));
  } else if (!api::has_model_numbers(input.levers)) {
    return Error{ErrorCode::kInvalidArgument,
                 "is missing: a config.json, a .gguf file, a directory or a name; or a model by its numbers, such as "
                 "--layers 40 --kv-heads 8 --head-dim 128 --hidden 5120",
                 "MODEL"};
  }
  return input;
}

api::TextStyle terminal_style() {
  api::TextStyle style;
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool is_dumb = term == nullptr || std::string_view(term) == "dumb";
  style.width = is_terminal ? terminal_width() : 100;
  style.has_unicode = is_terminal && is_utf8_locale();
  style.has_colour = is_terminal && !is_dumb && (no_colour == nullptr || *no_colour == '\0');
  return style;
}

Result<int> exit_code_of(const Error& error) {
  const bool is_usage = error.where.starts_with("-") || error.where == "MODEL" || error.where == "A" ||
                        error.where == "B" || error.where.starts_with("A: ") || error.where.starts_with("B: ");
  if (!is_usage) return error;
  print_progress(fmt::format("error: {}\n", error.to_string()));
  return 2;
}

}  // namespace ullage::cli
