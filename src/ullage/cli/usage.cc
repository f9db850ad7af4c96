#include "ullage/cli/usage.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

namespace ullage::cli {
namespace {

// Edits (insert, delete, replace a character) from one word to the other.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// The nearest candidate, or empty when none is near: begun alike, or at most a third of the letters different.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  if (word.size() > 64) return best;
  for (const std::string& candidate : candidates) {
    const bool begins = word.size() >= 3 && candidate.starts_with(word);
    const size_t edits = begins ? 1 : distance(word, candidate);
    if (edits < best_distance) {
      best = candidate;
      best_distance = edits;
    }
  }
  return best;
}

// "--max_tokens=4" -> "max-tokens".
std::string bare_name(const std::string& argument) {
  std::string name = argument.substr(0, argument.find('='));
  name.erase(0, name.find_first_not_of('-'));
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

bool is_flag(const std::string& argument) { return argument.size() > 2 && argument.starts_with("--"); }

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    const auto& long_names = option->get_lnames();
    names.insert(names.end(), long_names.begin(), long_names.end());
  }
  return names;
}

std::string unknown_flag(const CLI::App& command, const std::string& flag) {
  const std::string near = nearest(bare_name(flag), flag_names(command));
  return fmt::format("ullage {} has no flag {}{}", command.get_name(), flag.substr(0, flag.find('=')),
                     near.empty() ? "" : fmt::format("; did you mean --{}?", near));
}

std::string extra_argument(const CLI::App& command, const std::string& argument) {
  return fmt::format("ullage {} does not expect \"{}\"{}", command.get_name(), argument,
                     command.get_name() == "generate" ? "; put a prompt of several words in quotes" : "");
}

std::string unknown_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  const std::string near = nearest(word, names);
  return fmt::format(
      "there is no command \"{}\"; {}", word,
      near.empty() ? fmt::format("commands are {}", fmt::join(names, ", ")) : fmt::format("did you mean {}?", near));
}

// What was left over explains more than what was missed: a mistyped flag takes its value's place.
std::string explain(const CLI::App& command, const CLI::ParseError& error) {
  const std::vector<std::string> rest = command.remaining();
  const auto flag = std::find_if(rest.begin(), rest.end(), is_flag);
  if (flag != rest.end()) return unknown_flag(command, *flag);
  std::string message = error.what();
  if (message == "--model is required") return "MODEL is missing: a .gguf file, a directory, a name, or stories260K";
  if (message == "A is required" || message == "B is required") {
    return "two plans are wanted: each a plan's arguments in quotes, or B what changes of A";
  }
  if (message == "--prompt is required") return "the prompt is missing: a text in quotes, or - to read it from stdin";
  if (!rest.empty()) return extra_argument(command, rest.front());
  return message;
}

}  // namespace

std::string usage_error(const CLI::App& app, const CLI::ParseError& error, const std::string& first) {
  const std::vector<CLI::App*> commands = app.get_subcommands();
  const bool is_flag_first = first.starts_with("-");
  if (!commands.empty() && !is_flag_first) {
    return fmt::format("error: {}\n(ullage {} --help explains every flag)\n", explain(*commands[0], error),
                       commands[0]->get_name());
  }
  const std::string why = first.empty()   ? "a command is missing, such as plan, serve, generate or inspect"
                          : is_flag_first ? fmt::format("a command comes first, before {}", first)
                                          : unknown_command(app, first);
  return fmt::format("error: {}\n(ullage --help explains the commands)\n", why);
}

}  // namespace ullage::cli
