// What to tell someone whose command line cannot be read.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace ullage::cli {

// "error: ..." in one line, naming the word that was wrong and the nearest one that would be right. `app` is the top
// command as the parser left it; `first` the first argument, or empty.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error, const std::string& first);

}  // namespace ullage::cli
