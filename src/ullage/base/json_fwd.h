// The name Json for headers that pass JSON by reference; base/json.h, for .cc files, has the rest.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace ullage {

using Json = nlohmann::ordered_json;

}  // namespace ullage
