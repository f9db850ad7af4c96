// The commands, each with its flags. A command's function runs after the command line was parsed.
#pragma once

#include <functional>

#include "ullage/base/result.h"

namespace CLI {
class App;
}

namespace ullage::cli {

using Command = std::function<Result<int>()>;  // the exit code, or the Error to print

// Adds the command to the app and returns what runs it.
Command add_serve(CLI::App& app);
Command add_generate(CLI::App& app);
Command add_inspect(CLI::App& app);
Command add_devices(CLI::App& app);
Command add_models(CLI::App& app);
Command add_calibrate(CLI::App& app);
Command add_plan(CLI::App& app);
Command add_explain(CLI::App& app);
Command add_check(CLI::App& app);

}  // namespace ullage::cli
