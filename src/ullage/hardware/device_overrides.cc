#include "ullage/hardware/device_overrides.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace ullage::hardware {
namespace {

// Far above what exists, far below where products overflow.
constexpr double kMaxRate = 1e21;

Result<void> check_rate(double value, bool may_be_zero, const char* flag) {
  if ((value > 0 || (may_be_zero && value == 0)) && value <= kMaxRate) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("found {:g} a second; expected {}, at most {:g}", value,
                           may_be_zero ? "0 (none) or more" : "more than 0", kMaxRate),
               flag};
}

}  // namespace

Result<Device> override_device(Device device, const DeviceOverrides& overrides) {
  std::string changed;
  const auto note = [&changed](const char* what) { changed += changed.empty() ? what : std::string(", ") + what; };
  if (overrides.memory) {
    if (overrides.memory->value <= 0) {
      return Error{ErrorCode::kInvalidArgument, "a device has more than 0 bytes of memory", "--memory"};
    }
    device.usable_memory = *overrides.memory;
    device.nominal_memory = std::max(device.nominal_memory, device.usable_memory);
    device.is_usable_estimated = false;
    note("memory");
  }
  if (overrides.bandwidth) {
    ULLAGE_TRY_VOID(check_rate(*overrides.bandwidth, false, "--bandwidth"));
    device.bandwidth = *overrides.bandwidth;
    note("bandwidth");
  }
  if (overrides.flops) {
    ULLAGE_TRY_VOID(check_rate(*overrides.flops, false, "--flops"));
    const double factor = device.flops.bf16 > 0 ? *overrides.flops / device.flops.bf16 : 1;
    device.flops.fp32 *= factor;
    device.flops.fp8 *= factor;
    device.flops.int8 *= factor;
    device.flops.fp4 *= factor;
    device.flops.bf16 = *overrides.flops;
    note("FLOP/s");
  }
  if (overrides.link_bandwidth) {
    ULLAGE_TRY_VOID(check_rate(*overrides.link_bandwidth, true, "--link-bandwidth"));
    device.link_bandwidth = *overrides.link_bandwidth;
    note("links");
  }
  if (overrides.host_bandwidth) {
    ULLAGE_TRY_VOID(check_rate(*overrides.host_bandwidth, true, "--host-bandwidth"));
    device.host_bandwidth = *overrides.host_bandwidth;
    note("host link");
  }
  if (!changed.empty()) {
    device.source += fmt::format("{}given by the user: {}", device.source.empty() ? "" : "; ", changed);
  }
  return device;
}

}  // namespace ullage::hardware
