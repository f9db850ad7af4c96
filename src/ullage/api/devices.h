// The catalogue of devices, as JSON and as text.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/hardware/device.h"

namespace ullage::api {

// Those whose id, name or an alias holds the text, as look-ups compare names; all for an empty text.
std::vector<hardware::Device> devices_like(std::string_view text, std::span<const hardware::Device> devices);

// One JSON object with an array "devices", in the form that --devices FILE reads. `indent` as in dump_json.
std::string devices_json(std::span<const hardware::Device> devices, int indent = 2);
// A table, a line a device.
std::string devices_text(std::span<const hardware::Device> devices);
// Everything about one.
std::string device_text(const hardware::Device& device);

}  // namespace ullage::api
