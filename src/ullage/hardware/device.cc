#include "ullage/hardware/device.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/check.h"
#include "ullage/base/json.h"
#include "ullage/hardware/devices_json.h"

namespace ullage::hardware {
namespace {

// Lower-case letters and digits alone, without the words that makers put around the name.
std::string normalise(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') {
      text += static_cast<char>(c - 'A' + 'a');
    } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      text += c;
    }
  }
  for (const std::string_view word : {"nvidia", "geforce", "instinct", "tesla", "amd", "gpu"}) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word)) text.erase(at, word.size());
  }
  return text;
}

// Levenshtein's distance.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::vector<std::string> spellings(const Device& device) {
  std::vector<std::string> all{normalise(device.id), normalise(device.name)};
  for (const std::string& alias : device.aliases) all.push_back(normalise(alias));
  return all;
}

std::string near_names(std::string_view wanted, std::span<const Device> devices) {
  std::vector<std::pair<size_t, std::string_view>> ranked;
  for (const Device& device : devices) {
    size_t best = SIZE_MAX;
    for (const std::string& spelling : spellings(device)) {
      size_t distance = edit_distance(wanted, spelling);
      // "a100" in "a100pcie80gb" is nearer than any edit.
      if (!wanted.empty() &&
          (spelling.find(wanted) != std::string::npos || wanted.find(spelling) != std::string::npos)) {
        distance = 0;
      }
      best = std::min(best, distance);
    }
    ranked.emplace_back(best, device.id);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(ranked.size(), 4); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranked[i].second);
  }
  return text;
}

Result<double> get_positive(const Json& object, const char* key, bool may_be_zero, std::string_view where) {
  ULLAGE_TRY(const double value, get_double(object, key, -1.0, where));
  if (!(value > 0 || (may_be_zero && value == 0)) || value > 1e9) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("expected a number {} up to 1e9, found {}", may_be_zero ? "from 0" : "above 0", value),
                 fmt::format("{}/{}", where, key)};
  }
  return value;
}

Result<Device> parse_device(const Json& entry, const std::string& where) {
  if (!entry.is_object()) return Error{ErrorCode::kInvalidArgument, "a device is a JSON object", where};
  Device device;
  ULLAGE_TRY(device.id, get_string(entry, "id", "", where));
  ULLAGE_TRY(device.name, get_string(entry, "name", device.id, where));
  ULLAGE_TRY(device.kind, get_string(entry, "kind", device.name, where));
  ULLAGE_TRY(device.source, get_string(entry, "source", "", where));
  if (normalise(device.id).empty()) {
    return Error{ErrorCode::kInvalidArgument, "a device needs an id of letters or digits", where + "/id"};
  }
  ULLAGE_TRY(const std::string unit, get_string(entry, "memory_unit", "GiB", where));
  if (unit != "GiB" && unit != "GB") {
    return Error{ErrorCode::kInvalidArgument, fmt::format("expected \"GiB\" or \"GB\", found \"{}\"", unit),
                 where + "/memory_unit"};
  }
  ULLAGE_TRY(const double memory, get_positive(entry, "memory_gb", false, where));
  ULLAGE_TRY(const double usable, get_positive(entry, "usable_gib", false, where));
  ULLAGE_TRY(const double bandwidth, get_positive(entry, "bandwidth_gb_s", false, where));
  device.nominal_memory = Bytes(static_cast<int64_t>(memory * (unit == "GB" ? 1e9 : static_cast<double>(kGiB))));
  device.usable_memory = Bytes(static_cast<int64_t>(usable * static_cast<double>(kGiB)));
  device.bandwidth = bandwidth * 1e9;

  const auto tflops = entry.find("tflops");
  const Json rates = tflops == entry.end() ? Json::object() : *tflops;
  const std::string rates_where = where + "/tflops";
  ULLAGE_TRY(const double fp32, get_positive(rates, "fp32", false, rates_where));
  ULLAGE_TRY(const double bf16, get_positive(rates, "bf16", false, rates_where));
  ULLAGE_TRY(const double fp8, get_positive(rates, "fp8", true, rates_where));
  ULLAGE_TRY(const double int8, get_positive(rates, "int8", true, rates_where));
  device.flops = {fp32 * 1e12, bf16 * 1e12, fp8 * 1e12, int8 * 1e12};

  if (const auto aliases = entry.find("aliases"); aliases != entry.end()) {
    if (!aliases->is_array()) return Error{ErrorCode::kInvalidArgument, "expected an array", where + "/aliases"};
    for (const Json& alias : *aliases) {
      if (!alias.is_string()) return Error{ErrorCode::kInvalidArgument, "expected strings", where + "/aliases"};
      device.aliases.push_back(alias.get<std::string>());
    }
  }
  return device;
}

}  // namespace

Result<std::vector<Device>> parse_devices(std::string_view json, std::string_view where) {
  ULLAGE_TRY(const Json root, parse_json(json, where, JsonLimits{.max_bytes = int64_t{16} << 20, .max_depth = 8}));
  const auto list = root.is_object() ? root.find("devices") : root.end();
  if (!root.is_object() || list == root.end() || !list->is_array()) {
    return Error{ErrorCode::kInvalidArgument, "expected an object with an array \"devices\"", std::string(where)};
  }
  std::vector<Device> devices;
  for (size_t i = 0; i < list->size(); ++i) {
    ULLAGE_TRY(Device device, parse_device((*list)[i], fmt::format("{}#/devices/{}", where, i)));
    devices.push_back(std::move(device));
  }
  return devices;
}

std::vector<Device> known_devices() {
  Result<std::vector<Device>> devices = parse_devices(kDevicesJson, "data/devices.json");
  ULLAGE_CHECK_MSG(devices.has_value(), devices ? "" : devices.error().to_string());
  return *std::move(devices);
}

Result<Device> find_device(std::string_view name, std::span<const Device> devices, std::string_view where) {
  const std::string wanted = normalise(name);
  for (const Device& device : devices) {
    const std::vector<std::string> names = spellings(device);
    if (std::find(names.begin(), names.end(), wanted) != names.end()) return device;
  }
  return Error{ErrorCode::kNotFound,
               fmt::format("no device is called \"{}\"; near names are {} ({} devices are known)", name.substr(0, 80),
                           near_names(std::string_view(wanted).substr(0, 80), devices), devices.size()),
               std::string(where)};
}

Result<Device> find_device(std::string_view name) { return find_device(name, known_devices()); }

}  // namespace ullage::hardware
