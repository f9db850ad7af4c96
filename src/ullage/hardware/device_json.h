// Devices as JSON: the form of data/devices.json, of --devices files and of what `ullage devices --json` prints.
#pragma once

#include "ullage/base/json_fwd.h"
#include "ullage/hardware/device.h"

namespace ullage::hardware {

// What parse_devices reads back to an equal Device. Bytes are exact; rates are rounded to a millionth of their unit.
Json device_json(const Device& device);

}  // namespace ullage::hardware
