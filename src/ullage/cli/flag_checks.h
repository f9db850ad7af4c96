// What a flag's text must be, told while the command line is read. Each check names what was found and what is
// expected.
#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>  // CLI::Validator, whose own header does not stand alone

namespace ullage::cli {

// A finite number within [low, high]; CLI::Range lets NaN pass. `help`: the range in words, for --help.
CLI::Validator number_between(double low, double high, const std::string& help);
// A whole number within [low, high], without suffix.
CLI::Validator integer_between(int64_t low, int64_t high);
// As parse_bytes reads it, within [low, high] bytes: "2GiB", "500MB", "4096".
CLI::Validator size_between(int64_t low, int64_t high);
// As parse_count reads it, within [low, high]: "8192", "8k", "8K".
CLI::Validator count_between(int64_t low, int64_t high);
// The same, or one of the words auto and -1.
CLI::Validator count_or_auto(int64_t low, int64_t high);
// Any unsigned 64-bit integer.
CLI::Validator seed_text();
// How a metric's name may begin, or empty.
CLI::Validator metric_prefix();
// What an HTTP header may hold: printable ASCII, or empty.
CLI::Validator header_text();
// At least one character, and no control characters.
CLI::Validator plain_text();

}  // namespace ullage::cli
