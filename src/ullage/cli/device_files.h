// The devices that a command knows: the catalogue, and the user's own.
#pragma once

#include <string>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/hardware/device.h"

namespace ullage::cli {

// The built-in catalogue with `file` over it; with an empty name, the file that $ULLAGE_DEVICES names, if it names one.
Result<std::vector<hardware::Device>> load_devices(const std::string& file);

}  // namespace ullage::cli
