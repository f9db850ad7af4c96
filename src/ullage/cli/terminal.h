// What the commands print: results on stdout, progress and errors on stderr.
#pragma once

#include <string_view>

#include "ullage/base/result.h"

namespace ullage::cli {

// Gives closed standard streams a place in /dev/null, so that no file or socket gets their number and then our text.
// Call first.
void open_standard_streams();

// Written and flushed; a failure is remembered for check_output().
void print_result(std::string_view text);
// Nobody may be listening any more: failures are ignored.
void print_progress(std::string_view text);

// kIo once something did not reach stdout (a full disk, a closed stream).
Result<void> check_output();

}  // namespace ullage::cli
