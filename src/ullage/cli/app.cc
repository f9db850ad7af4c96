#include "ullage/cli/app.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ullage/cli/commands.h"
#include "ullage/cli/version.h"

namespace ullage::cli {
namespace {

constexpr const char* kDescription =
    "Ullage: what decides how a language model is served is the room left for its KV cache.\n\n"
    "  ullage serve MODEL              an OpenAI-compatible server on this machine's cores\n"
    "  ullage generate MODEL \"text\"    one answer, streamed to the terminal\n"
    "  ullage inspect MODEL            what a model is and what its cache costs, from its header\n\n"
    "MODEL is a .gguf file, a Hugging Face directory, a name in the Hugging Face cache, or stories260K (bundled).\n";

// llama-server's short names with more than one letter, which the parser would read as several flags.
std::vector<std::string> arguments(int argc, char** argv) {
  static constexpr std::pair<const char*, const char*> kAliases[] = {
      {"-np", "--parallel"}, {"-ctk", "--cache-type-k"}, {"-ctv", "--cache-type-v"}, {"-ub", "--ubatch-size"}};
  std::vector<std::string> args(argv + 1, argv + argc);
  for (std::string& arg : args) {
    for (const auto& [alias, name] : kAliases) {
      if (arg == alias) arg = name;
    }
  }
  return {args.rbegin(), args.rend()};  // CLI11 takes them from the back
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app{kDescription, "ullage"};
  app.set_version_flag("--version", std::string("ullage ") + kVersion);
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default(false);
  const std::pair<const char*, Command> commands[] = {
      {"serve", add_serve(app)}, {"generate", add_generate(app)}, {"inspect", add_inspect(app)}};
  try {
    app.parse(arguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);  // prints help, version, or what was wrong
    return code == 0 ? 0 : 2;
  }
  for (const auto& [name, command] : commands) {
    if (!app.got_subcommand(name)) continue;
    const Result<int> result = command();
    if (result) return *result;
    fmt::print(stderr, "error: {}\n", result.error().to_string());
    return 1;
  }
  return 2;
}

}  // namespace ullage::cli
