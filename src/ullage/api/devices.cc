#include "ullage/api/devices.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/hardware/device_json.h"
#include "ullage/hardware/device_key.h"

namespace ullage::api {
namespace {

using hardware::Device;

// The whole is published figures and their sources; a file that a user wrote may say anything.
std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

std::string gib(Bytes bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes.value) / static_cast<double>(kGiB));
}

std::string tera(double rate) {
  if (rate <= 0) return "-";
  return rate < 1e15 ? fmt::format("{:.4g}", rate / 1e12) : fmt::format("{:.0f}", rate / 1e12);
}

std::string rate_or(double rate, const char* none) { return rate > 0 ? format_bandwidth(rate) : std::string(none); }

bool is_like(const std::string& key, const Device& device) {
  if (hardware::device_key(device.id).find(key) != std::string::npos) return true;
  if (hardware::device_key(device.name).find(key) != std::string::npos) return true;
  return std::any_of(device.aliases.begin(), device.aliases.end(), [&key](const std::string& alias) {
    return hardware::device_key(alias).find(key) != std::string::npos;
  });
}

}  // namespace

std::vector<Device> devices_like(std::string_view text, std::span<const Device> devices) {
  const std::string key = hardware::device_key(text);
  std::vector<Device> matching;
  matching.reserve(devices.size());
  for (const Device& device : devices) {
    if (is_like(key, device)) matching.push_back(device);
  }
  return matching;
}

std::string devices_json(std::span<const Device> devices, int indent) {
  Json list = Json::array();
  for (const Device& device : devices) {
    Json entry = hardware::device_json(device);
    entry["ridge_flop_per_byte"] = hardware::ridge_flop_per_byte(device);
    list.push_back(std::move(entry));
  }
  return dump_json(Json{{"schema_version", 1}, {"devices", std::move(list)}}, indent);
}

std::string devices_text(std::span<const Device> devices) {
  std::string text = fmt::format("{:<24}{:>12}{:>12}{:>9}{:>9}{:>9}{:>9}{:>10}{:>12}\n", "device", "usable GiB",
                                 "bandwidth", "bf16 T", "fp8 T", "int8 T", "fp4 T", "FLOP/byte", "link");
  for (const Device& device : devices) {
    text += fmt::format("{:<24}{:>11}{}{:>12}{:>9}{:>9}{:>9}{:>9}{:>10.0f}{:>12}\n", printable(device.id),
                        gib(device.usable_memory), device.is_usable_estimated ? "~" : " ",
                        format_bandwidth(device.bandwidth), tera(device.flops.bf16), tera(device.flops.fp8),
                        tera(device.flops.int8), tera(device.flops.fp4), hardware::ridge_flop_per_byte(device),
                        rate_or(device.link_bandwidth, "-"));
  }
  text += fmt::format(
      "{} devices. Peaks without sparsity, as makers state them; ~ an estimate; FLOP/byte: where bf16 arithmetic and "
      "bandwidth bind alike;\nlink: one direction. `ullage devices NAME` shows one with its sources.\n",
      devices.size());
  return text;
}

std::string device_text(const Device& device) {
  std::string text;
  const auto line = [&text](std::string_view label, const std::string& value) {
    text += fmt::format("{:<20}{}\n", label, printable(value));
  };
  const auto flops = [&line](std::string_view label, double rate) {
    if (rate > 0) line(label, format_flops(rate));
  };
  std::string aliases;
  for (const std::string& alias : device.aliases) aliases += (aliases.empty() ? "" : ", ") + alias;
  line("device", fmt::format("{} ({})", device.name, device.id));
  if (!aliases.empty()) line("also called", aliases);
  line("category", device.category);
  line("memory, as sold", format_bytes(device.nominal_memory));
  line("memory, usable",
       fmt::format("{}{}", format_bytes(device.usable_memory), device.is_usable_estimated ? " (an estimate)" : ""));
  line("bandwidth", format_bandwidth(device.bandwidth));
  flops("fp32", device.flops.fp32);
  flops("bf16, fp16", device.flops.bf16);
  flops("fp8", device.flops.fp8);
  flops("int8", device.flops.int8);
  flops("fp4", device.flops.fp4);
  line("ridge", fmt::format("{:.1f} bf16 FLOP per byte", hardware::ridge_flop_per_byte(device)));
  line("link, one way", rate_or(device.link_bandwidth, "none beside PCIe, or not stated"));
  line("host, one way",
       rate_or(device.host_bandwidth, device.category == "integrated" ? "memory is shared" : "not stated"));
  line("source", device.source);
  return text;
}

}  // namespace ullage::api
