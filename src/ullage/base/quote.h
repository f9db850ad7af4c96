// Foreign text (a file's key, a request's field) made fit for a message: short, printable, in quotes.
#pragma once

#include <string>
#include <string_view>

namespace ullage {

// "text" in double quotes; bytes outside printable ASCII, quotes and backslashes as \xNN; cut with "..." after
// `max_bytes` bytes.
std::string quote(std::string_view text, size_t max_bytes = 80);

}  // namespace ullage
