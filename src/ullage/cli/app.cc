#include "ullage/cli/app.h"

#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ullage/cli/commands.h"
#include "ullage/cli/signals.h"
#include "ullage/cli/terminal.h"
#include "ullage/cli/usage.h"
#include "ullage/cli/version.h"

namespace ullage::cli {
namespace {

constexpr const char* kDescription =
    "Ullage: what decides how a language model is served is the room left for its KV cache.\n\n"
    "  ullage serve MODEL              an OpenAI-compatible server on this machine's cores\n"
    "  ullage generate MODEL \"text\"    one answer, streamed to the terminal\n"
    "  ullage inspect MODEL            what a model is and what its cache costs, from its header\n"
    "  ullage plan MODEL --device D    what it holds on a device and how fast it will be, no weights needed\n"
    "  ullage explain A B              why two plans differ, term by term\n"
    "  ullage check LOG                an engine's log or metrics against the plan; names what binds\n"
    "  ullage devices [NAME]           accelerators and processors: memory, bandwidth, FLOP/s\n"
    "  ullage models [NAME]            models known by name\n"
    "  ullage calibrate                measures this machine into a device\n\n"
    "MODEL is a .gguf file, a Hugging Face directory, a name in the Hugging Face cache, or stories260K (bundled);\n"
    "plan and inspect take a config.json, too.\n";

// llama-server's short names with more than one letter, which the parser would read as several flags.
std::vector<std::string> arguments(int argc, char** argv) {
  static constexpr std::pair<const char*, const char*> kAliases[] = {{"-np", "--parallel"},
                                                                     {"-ctk", "--cache-type-k"},
                                                                     {"-ctv", "--cache-type-v"},
                                                                     {"-ub", "--ubatch-size"},
                                                                     {"-tp", "--tp"},
                                                                     {"-pp", "--pp"},
                                                                     {"-dp", "--dp"},
                                                                     {"-ep", "--ep"},
                                                                     {"-dcp", "--dcp"}};
  std::vector<std::string> args(argv + 1, argv + argc);
  if (!args.empty() && args.front() == "help") {  // "help plan" is "plan --help"
    args.erase(args.begin());
    args.insert(args.begin() + (args.empty() ? 0 : 1), "--help");
  }
  const bool is_explain = !args.empty() && args.front() == "explain";
  for (std::string& arg : args) {
    // "--kv fp8" in one word is a plan, not a flag; the parser looks at the first character.
    if (is_explain && arg.starts_with("-") && arg.find(' ') < arg.find('=')) arg.insert(0, 1, ' ');
    if (arg == "--") break;  // what follows is somebody else's line
    for (const auto& [alias, name] : kAliases) {
      if (arg == alias) arg = name;
    }
  }
  return {args.rbegin(), args.rend()};  // CLI11 takes them from the back
}

int fail(const Error& error) {
  print_progress(fmt::format("error: {}\n", error.to_string()));
  return 1;
}

// The last resort: exceptions end where they are thrown, but memory can run out anywhere.
Result<int> run_guarded(const Command& command) {
  try {
    return command();
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kTooLarge, "this machine has too little memory left; free some, or take a smaller model",
                 "memory"};
  } catch (const std::exception& error) {
    return Error{ErrorCode::kInternal, error.what(), "internal error"};
  }
}

}  // namespace

int run(int argc, char** argv) {
  open_standard_streams();
  explain_lost_mappings();
  CLI::App app{kDescription, "ullage"};
  app.set_version_flag("--version", std::string("ullage ") + kVersion);
  app.footer(
      "ullage COMMAND --help explains a command's flags.\n"
      "Exit codes: 0 done, 1 it failed (one line on stderr says why), 2 the command line was wrong, 130 "
      "interrupted.\n");
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default(false);
  const std::pair<const char*, Command> commands[] = {
      {"serve", add_serve(app)},     {"generate", add_generate(app)}, {"inspect", add_inspect(app)},
      {"plan", add_plan(app)},       {"explain", add_explain(app)},   {"check", add_check(app)},
      {"devices", add_devices(app)}, {"models", add_models(app)},     {"calibrate", add_calibrate(app)}};
  try {
    app.parse(arguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    std::ostringstream help;
    std::ostringstream ignored;
    if (app.exit(error, help, ignored) == 0) {  // --help, --version
      print_result(help.str());
      const Result<void> written = check_output();
      return written ? 0 : fail(written.error());
    }
    print_progress(usage_error(app, error, argc > 1 ? argv[1] : ""));
    return 2;
  }
  for (const auto& [name, command] : commands) {
    if (!app.got_subcommand(name)) continue;
    const Result<int> result = run_guarded(command);
    return result ? *result : fail(result.error());
  }
  return 2;
}

}  // namespace ullage::cli
