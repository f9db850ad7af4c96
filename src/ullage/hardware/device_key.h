// A device's name as look-ups compare it.
#pragma once

#include <string>
#include <string_view>

namespace ullage::hardware {

// Lower-case letters and digits alone, without makers' words.
std::string device_key(std::string_view name);

}  // namespace ullage::hardware
