// What a device is: memory, bandwidth and arithmetic, as published; and the catalogue of well-known ones.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/base/units.h"

namespace ullage::hardware {

// Peak arithmetic without sparsity, FLOP/s (operations/s for int8). 0 = the device has no such unit, or nobody states
// it.
struct FlopsPerSecond {
  double fp32 = 0;
  double bf16 = 0;  // and fp16; where the device has no bf16 (T4), fp16's
  double fp8 = 0;
  double int8 = 0;
  double fp4 = 0;
  friend bool operator==(const FlopsPerSecond&, const FlopsPerSecond&) = default;
};

struct Device {
  std::string id;                // "h100": the catalogue's key
  std::string name;              // "NVIDIA H100 SXM5 80GB"
  std::string kind;              // "H100": what boot lines call it
  std::string category = "gpu";  // "gpu", "integrated" (memory shared with the host), "accelerator", "cpu"
  std::vector<std::string> aliases;
  Bytes nominal_memory;              // as sold
  Bytes usable_memory;               // what a process on an idle device is told: driver and ECC taken off
  bool is_usable_estimated = false;  // usable_memory was not read from a log
  double bandwidth = 0;              // of the memory, bytes/s
  FlopsPerSecond flops;
  double link_bandwidth = 0;  // to the other devices of its node, bytes/s, one direction; 0 = PCIe only
  double host_bandwidth = 0;  // to the host's memory (PCIe, C2C), bytes/s, one direction; 0 = not known
  std::string source;         // where the figures are from
  friend bool operator==(const Device&, const Device&) = default;
};

// bf16 FLOP per byte of memory traffic at which arithmetic and bandwidth bind alike (Williams et al. 2009).
double ridge_flop_per_byte(const Device& device);

// Reads a catalogue's JSON (docs/devices.md). `where` names the file in errors.
Result<std::vector<Device>> parse_devices(std::string_view json, std::string_view where);
// The same over `known`: an entry whose id is known changes the fields it states and keeps the others; other entries
// are added. The result is `known` with the changes, then what is new.
Result<std::vector<Device>> merge_devices(std::vector<Device> known, std::string_view json, std::string_view where);

// The catalogue that was built in (data/devices.json). Parsed at each call: keep the result.
std::vector<Device> known_devices();

// A device by a forgiving name: case, spaces, punctuation and makers' words are ignored, so "h100", "H100-80GB" and
// "NVIDIA H100 80GB HBM3" (nvidia-smi's spelling) are one. An unknown name is kNotFound, with the nearest known names.
Result<Device> find_device(std::string_view name, std::span<const Device> devices, std::string_view where = "--device");
Result<Device> find_device(std::string_view name);

// "H100", "4xH100", "H100x4", "8 x MI300X". A name that could mean two things ("mi250x8") is an Error that says so.
struct DeviceGroup {
  Device device;
  int64_t count = 1;
  bool has_count = false;  // the text states it
};
Result<DeviceGroup> find_device_group(std::string_view text, std::span<const Device> devices,
                                      std::string_view where = "--device");

}  // namespace ullage::hardware
