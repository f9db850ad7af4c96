// A command line as a shell would split it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/result.h"

namespace ullage::api {

// Words of the first command: quotes, backslashes and lines joined by a backslash as in POSIX sh; nothing is expanded.
// Ends at an unquoted newline (after the first word), ';', '|', '&' or redirection, whose rest is another matter.
// kInvalidArgument for a quote that does not end; kTooLarge above 4,096 words.
Result<std::vector<std::string>> split_shell_words(std::string_view line, std::string_view where);

// The word in quotes where a shell needs them.
std::string quote_shell_word(std::string_view word);

}  // namespace ullage::api
