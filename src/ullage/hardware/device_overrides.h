// One device's figures changed by hand.
#pragma once

#include <optional>

#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/hardware/device.h"

namespace ullage::hardware {

// What is not given stays. Each above 0, checked.
struct DeviceOverrides {
  std::optional<Bytes> memory = std::nullopt;  // what a process can use; the nominal size follows when it is smaller
  std::optional<double> bandwidth = std::nullopt;       // bytes/s
  std::optional<double> flops = std::nullopt;           // bf16 FLOP/s; the other rates change in proportion
  std::optional<double> link_bandwidth = std::nullopt;  // bytes/s, one direction; 0 = none
  std::optional<double> host_bandwidth = std::nullopt;  // bytes/s, one direction; 0 = none
};

// The device with the changes; its source then says which figures are the user's.
Result<Device> override_device(Device device, const DeviceOverrides& overrides);

}  // namespace ullage::hardware
