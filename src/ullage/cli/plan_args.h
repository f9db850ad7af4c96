// The flags that plan, explain and check share: every lever, and how the answer is printed.
#pragma once

#include <string>
#include <vector>

#include "ullage/api/plan.h"
#include "ullage/api/plan_words.h"
#include "ullage/base/result.h"

namespace CLI {
class App;
}

namespace ullage::cli {

struct LeverArgs {
  std::vector<std::string> texts;  // of each lever in api::levers(), as given; empty = not given
  std::vector<char> flags;         // of those without a value: 1 = given
  std::string devices;             // a file of one's own devices; empty = what $ULLAGE_DEVICES names, if it does
};

// Adds every lever's flags in the order and groups of api::levers().
void add_lever_options(CLI::App& command, LeverArgs& args);
// Those that were given.
Result<api::LeverSettings> read_levers(const LeverArgs& args);

// Levers of the command line over those of a pasted line; the model, `--device FILE.json` and one's own devices are
// read.
Result<api::PlanInput> make_plan_input(const api::PlanWords& words, const api::LeverSettings& levers,
                                       const std::string& devices);
// The devices that --device names, into an input made otherwise.
Result<void> read_devices(const std::string& devices, api::PlanInput* input);

// How many columns and which characters standard output can show.
api::TextStyle terminal_style();

// An Error of a flag's value, which is the command line's (exit code 2), is printed; others (1) are passed on.
Result<int> exit_code_of(const Error& error);

}  // namespace ullage::cli
