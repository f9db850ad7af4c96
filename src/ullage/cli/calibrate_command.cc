#include <atomic>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ullage/api/devices.h"
#include "ullage/base/json.h"
#include "ullage/cli/commands.h"
#include "ullage/cli/flag_checks.h"
#include "ullage/cli/terminal.h"
#include "ullage/cpu/calibrate.h"
#include "ullage/cpu/thread_pool.h"
#include "ullage/hardware/device_json.h"

namespace ullage::cli {
namespace {

struct CalibrateArgs {
  int64_t threads = 0;
  int64_t rounds = 7;
  std::string isa = "auto";
  std::string stream = "512MiB";
  std::string out;
  bool is_json = false;
};

std::atomic<bool> g_interrupted{false};  // set by SIGINT's handler, the one thing that a handler may do

void interrupt(int) { g_interrupted = true; }

void watch_interrupts() {
  struct sigaction action{};
  action.sa_handler = interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

Json rate_json(const hardware::Rate& rate) {
  return Json{{"median", rate.median}, {"lowest", rate.lowest}, {"highest", rate.highest}, {"rounds", rate.num_rounds}};
}

// The form of `ullage devices --json`, so that --devices reads it; what was measured beside it.
std::string result_json(const cpu::Calibration& calibration, const hardware::Device& device) {
  Json kernels = Json::array();
  for (const cpu::KernelRate& kernel : calibration.kernels) {
    kernels.push_back(Json{{"weights", model::info(kernel.dtype).name},
                           {"prefill_flop_per_s", rate_json(kernel.flops)},
                           {"decode_read_bytes_per_s", rate_json(kernel.read)}});
  }
  Json list = Json::array();
  list.push_back(hardware::device_json(device));
  return dump_json(Json{{"schema_version", 1},
                        {"tier", "calibrated"},
                        {"devices", std::move(list)},
                        {"measured", Json{{"threads", calibration.num_threads},
                                          {"kernels", calibration.kernel_name},
                                          {"read_bytes_per_s", rate_json(calibration.read)},
                                          {"by_weights", std::move(kernels)}}}},
                   2) +
         "\n";
}

std::string spread(const hardware::Rate& rate, std::string (*format)(double)) {
  return fmt::format("{:<15} ({} to {})", format(rate.median), format(rate.lowest), format(rate.highest));
}

std::string result_text(const cpu::Calibration& calibration, const hardware::Device& device) {
  std::string text = api::device_text(device);
  text += fmt::format("\n{:<20}{}\n", "reading memory", spread(calibration.read, format_bandwidth));
  text += fmt::format("\n{:<10}{:<52}{}\n", "weights", "many tokens (prefill)", "one token (decode), bytes read");
  for (const cpu::KernelRate& kernel : calibration.kernels) {
    text += fmt::format("{:<10}{:<52}{}\n", model::info(kernel.dtype).name, spread(kernel.flops, format_flops),
                        spread(kernel.read, format_bandwidth));
  }
  text += fmt::format(
      "\nMedian (lowest to highest) of {} rounds. ullage calibrate --out this.json keeps it; then ullage "
      "devices this --devices this.json, and likewise for plan.\n",
      calibration.read.num_rounds);
  return text;
}

Result<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.flush();
  if (file) return {};
  return Error{ErrorCode::kIo, "cannot be written", path};
}

Result<int> calibrate(const CalibrateArgs& args) {
  cpu::CalibrationOptions options;
  options.num_threads = args.threads > 0 ? args.threads : cpu::available_threads();
  options.measure.num_rounds = args.rounds;
  ULLAGE_TRY(options.isa, cpu::parse_isa(args.isa, "--isa"));
  ULLAGE_TRY(options.stream, parse_bytes(args.stream, "--stream"));
  watch_interrupts();
  const RealClock clock;
  const Result<cpu::Calibration> calibration = cpu::calibrate(
      options, clock, [](const std::string& step) { print_progress(fmt::format("measuring: {}\n", step)); },
      [] { return g_interrupted.load(); });
  if (!calibration && g_interrupted) {
    print_progress("interrupted\n");
    return 130;
  }
  if (!calibration) return calibration.error();
  const hardware::Device device = cpu::calibrated_device(*calibration);
  const std::string json = result_json(*calibration, device);
  if (!args.out.empty()) ULLAGE_TRY_VOID(write_file(args.out, json));
  print_result(args.is_json ? json : result_text(*calibration, device));
  ULLAGE_TRY_VOID(check_output());
  return 0;
}

}  // namespace

Command add_calibrate(CLI::App& app) {
  auto args = std::make_shared<CalibrateArgs>();
  CLI::App* command =
      app.add_subcommand("calibrate", "Measure this machine: bandwidth, and FLOP/s of the engine's own kernels");
  command->footer(
      "Takes some twenty seconds; the machine should be idle.\n\n"
      "Examples:\n"
      "  ullage calibrate\n"
      "  ullage calibrate --out this.json && ullage devices this --devices this.json\n");
  command->add_option("--threads,-t", args->threads, "Threads; 0 = those that this process may use")
      ->check(integer_between(0, 1024));
  command->add_option("--rounds", args->rounds, "Rounds of each measurement; the median counts")
      ->check(integer_between(1, 1000));
  command->add_option("--isa", args->isa, "Kernels: auto, portable, avx2 or avx512")->type_name("NAME");
  command->add_option("--stream", args->stream, "Memory to read through; more than the caches hold")
      ->check(size_between(int64_t{1} << 20, int64_t{1} << 40))
      ->type_name("SIZE");
  command->add_option("--out", args->out, "Also write the JSON here, for --devices")->type_name("FILE");
  command->add_flag("--json", args->is_json, "One JSON object");
  return [args] { return calibrate(*args); };
}

}  // namespace ullage::cli
