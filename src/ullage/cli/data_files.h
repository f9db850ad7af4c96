// Where the files that come with Ullage lie: the bundled model, and nothing else so far.
#pragma once

#include <string>

#include "ullage/base/result.h"

namespace ullage::cli {

inline constexpr const char* kBundledModel = "stories260K";

// The path of a file of data/: in $ULLAGE_DATA_DIR, beside an installed binary (../share/ullage), or in the source tree
// that the binary was built in. kNotFound lists the places.
Result<std::string> find_data_file(const std::string& name);

}  // namespace ullage::cli
