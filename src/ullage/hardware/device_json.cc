#include "ullage/hardware/device_json.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/quote.h"
#include "ullage/hardware/device_key.h"

namespace ullage::hardware {
namespace {

constexpr double kMaxFigure = 1e9;
constexpr int64_t kMaxMemory = int64_t{1} << 60;
constexpr std::array<std::string_view, 4> kCategories = {"gpu", "integrated", "accelerator", "cpu"};
constexpr std::array<std::pair<const char*, double FlopsPerSecond::*>, 5> kRates = {{{"fp32", &FlopsPerSecond::fp32},
                                                                                     {"bf16", &FlopsPerSecond::bf16},
                                                                                     {"fp8", &FlopsPerSecond::fp8},
                                                                                     {"int8", &FlopsPerSecond::int8},
                                                                                     {"fp4", &FlopsPerSecond::fp4}}};

bool has(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && !it->is_null();
}

Error missing(const char* key, const std::string& where) {
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("has no \"{}\"; a device that the catalogue does not know needs it", key), where};
}

// Changes `value` (in its unit times `scale`) where the key is stated.
Result<void> read_figure(const Json& object, const char* key, double scale, bool may_be_zero, const std::string& where,
                         double* value) {
  if (!has(object, key)) return {};
  ULLAGE_TRY(const double figure, get_double(object, key, 0, where));
  if (!(figure > 0 || (may_be_zero && figure == 0)) || figure > kMaxFigure) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("found {:g}; expected a number {} up to 1e9", figure, may_be_zero ? "from 0" : "above 0"),
                 fmt::format("{}/{}", where, key)};
  }
  *value = figure * scale;
  return {};
}

// From `bytes_key` in bytes, or `key` in units of `scale`.
Result<void> read_memory(const Json& object, const char* key, double scale, const char* bytes_key,
                         const std::string& where, Bytes* memory) {
  double bytes = 0;
  ULLAGE_TRY_VOID(read_figure(object, key, scale, false, where, &bytes));
  if (bytes > 0) *memory = Bytes(static_cast<int64_t>(bytes));
  if (!has(object, bytes_key)) return {};
  ULLAGE_TRY(const int64_t exact, get_int(object, bytes_key, 0, where));
  if (exact < 1 || exact > kMaxMemory) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("found {}; expected 1 to 2^60 bytes", exact),
                 fmt::format("{}/{}", where, bytes_key)};
  }
  *memory = Bytes(exact);
  return {};
}

Result<void> read_words(const Json& entry, const std::string& where, Device* device) {
  ULLAGE_TRY(device->name, get_string(entry, "name", device->name.empty() ? device->id : device->name, where));
  ULLAGE_TRY(device->kind, get_string(entry, "kind", device->kind.empty() ? device->name : device->kind, where));
  ULLAGE_TRY(device->source, get_string(entry, "source", device->source, where));
  ULLAGE_TRY(device->category, get_string(entry, "category", device->category, where));
  bool is_known = false;
  for (const std::string_view category : kCategories) is_known = is_known || device->category == category;
  if (!is_known) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("found {}; expected \"gpu\", \"integrated\", \"accelerator\" or \"cpu\"", quote(device->category)),
        where + "/category"};
  }
  const auto aliases = entry.find("aliases");
  if (aliases == entry.end()) return {};
  if (!aliases->is_array()) return Error{ErrorCode::kInvalidArgument, "expected an array", where + "/aliases"};
  device->aliases.clear();
  device->aliases.reserve(aliases->size());
  for (const Json& alias : *aliases) {
    if (!alias.is_string()) return Error{ErrorCode::kInvalidArgument, "expected strings", where + "/aliases"};
    device->aliases.push_back(alias.get<std::string>());
  }
  return {};
}

Result<void> read_sizes(const Json& entry, const std::string& where, Device* device) {
  ULLAGE_TRY(const std::string unit, get_string(entry, "memory_unit", "GiB", where));
  if (unit != "GiB" && unit != "GB") {
    return Error{ErrorCode::kInvalidArgument, fmt::format("found {}; expected \"GiB\" or \"GB\"", quote(unit)),
                 where + "/memory_unit"};
  }
  const double gib = static_cast<double>(kGiB);
  ULLAGE_TRY_VOID(
      read_memory(entry, "memory_gb", unit == "GB" ? 1e9 : gib, "memory_bytes", where, &device->nominal_memory));
  ULLAGE_TRY_VOID(read_memory(entry, "usable_gib", gib, "usable_bytes", where, &device->usable_memory));
  ULLAGE_TRY(device->is_usable_estimated,
             get_bool(entry, "usable_estimated",
                      device->is_usable_estimated && !has(entry, "usable_gib") && !has(entry, "usable_bytes"), where));
  if (device->nominal_memory.value == 0) return missing("memory_gb", where);
  if (device->usable_memory.value == 0) return missing("usable_gib", where);
  return {};
}

Result<void> read_rates(const Json& entry, const std::string& where, Device* device) {
  ULLAGE_TRY_VOID(read_figure(entry, "bandwidth_gb_s", 1e9, false, where, &device->bandwidth));
  ULLAGE_TRY_VOID(read_figure(entry, "link_gb_s", 1e9, true, where, &device->link_bandwidth));
  ULLAGE_TRY_VOID(read_figure(entry, "host_gb_s", 1e9, true, where, &device->host_bandwidth));
  if (has(entry, "tflops")) {
    const Json& rates = entry["tflops"];
    const std::string rates_where = where + "/tflops";
    if (!rates.is_object()) {
      return Error{ErrorCode::kInvalidArgument, "expected an object such as {\"fp32\": 19.5, \"bf16\": 312}",
                   rates_where};
    }
    for (const auto& [key, member] : kRates) {
      ULLAGE_TRY_VOID(read_figure(rates, key, 1e12, true, rates_where, &(device->flops.*member)));
    }
  }
  if (device->bandwidth == 0) return missing("bandwidth_gb_s", where);
  if (device->flops.bf16 == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "has no rate above 0; a device that has no bf16 units states the rate it reaches without them",
                 where + "/tflops/bf16"};
  }
  return {};
}

Result<Device> parse_device(const Json& entry, const std::string& where, Device device) {
  ULLAGE_TRY_VOID(read_words(entry, where, &device));
  ULLAGE_TRY_VOID(read_sizes(entry, where, &device));
  ULLAGE_TRY_VOID(read_rates(entry, where, &device));
  return device;
}

Result<std::string> read_id(const Json& entry, const std::string& where) {
  if (!entry.is_object()) return Error{ErrorCode::kInvalidArgument, "a device is a JSON object", where};
  ULLAGE_TRY(std::string id, get_string(entry, "id", "", where));
  if (device_key(id).empty()) {
    return Error{ErrorCode::kInvalidArgument, "a device needs an id of letters or digits", where + "/id"};
  }
  return id;
}

Device named_device(std::string id) {
  Device device;
  device.id = std::move(id);
  return device;
}

Device* find_by_id(std::vector<Device>& devices, const std::string& id) {
  const std::string key = device_key(id);
  for (Device& device : devices) {
    if (device_key(device.id) == key) return &device;
  }
  return nullptr;
}

// One entry for each size of memory: "m4-max" with 64 and 128 GB is m4-max-64gb and m4-max-128gb. The largest also
// answers to the bare name.
Result<void> add_options(const Json& entry, const std::string& where, const std::string& id,
                         std::vector<Device>* devices) {
  const Json& options = entry["memory_options"];
  if (!options.is_array() || options.empty()) {
    return Error{ErrorCode::kInvalidArgument, "expected an array of {\"memory_gb\", \"usable_gib\"}",
                 where + "/memory_options"};
  }
  devices->reserve(devices->size() + options.size());
  for (size_t i = 0; i < options.size(); ++i) {
    const std::string option_where = fmt::format("{}/memory_options/{}", where, i);
    if (!options[i].is_object()) return Error{ErrorCode::kInvalidArgument, "expected an object", option_where};
    Json whole = entry;
    whole.update(options[i]);
    ULLAGE_TRY(const double size, get_double(whole, "memory_gb", 0, option_where));
    Device device = named_device(fmt::format("{}-{:g}gb", id, size));
    if (find_by_id(*devices, device.id) != nullptr) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("there are two devices {}", quote(device.id)),
                   option_where};
    }
    ULLAGE_TRY(device, parse_device(whole, option_where, std::move(device)));
    device.name += fmt::format(" {:g}GB", size);
    for (std::string& alias : device.aliases) alias += fmt::format("-{:g}gb", size);
    if (i + 1 == options.size()) device.aliases.push_back(id);
    devices->push_back(std::move(device));
  }
  return {};
}

double rounded(double value) { return std::round(value * 1e6) / 1e6; }

}  // namespace

Result<std::vector<Device>> merge_devices(std::vector<Device> known, std::string_view json, std::string_view where) {
  ULLAGE_TRY(const Json root, parse_json(json, where, JsonLimits{.max_bytes = int64_t{16} << 20, .max_depth = 8}));
  const auto list = root.is_object() ? root.find("devices") : root.end();
  if (!root.is_object() || list == root.end() || !list->is_array()) {
    return Error{ErrorCode::kInvalidArgument, "expected an object with an array \"devices\"", std::string(where)};
  }
  const size_t num_known = known.size();
  known.reserve(num_known + list->size());
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& entry = (*list)[i];
    const std::string entry_where = fmt::format("{}#/devices/{}", where, i);
    ULLAGE_TRY(const std::string id, read_id(entry, entry_where));
    if (has(entry, "memory_options")) {
      ULLAGE_TRY_VOID(add_options(entry, entry_where, id, &known));
      continue;
    }
    Device* old = find_by_id(known, id);
    if (old != nullptr && old >= known.data() + num_known) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("there are two devices {}", quote(id)), entry_where};
    }
    ULLAGE_TRY(Device device, parse_device(entry, entry_where, old != nullptr ? *old : named_device(id)));
    if (old != nullptr) {
      *old = std::move(device);
    } else {
      known.push_back(std::move(device));
    }
  }
  return known;
}

Result<std::vector<Device>> parse_devices(std::string_view json, std::string_view where) {
  return merge_devices({}, json, where);
}

Json device_json(const Device& device) {
  Json rates = Json::object();
  for (const auto& [key, member] : kRates) rates[key] = rounded(device.flops.*member / 1e12);
  Json json{{"id", device.id},
            {"name", device.name},
            {"kind", device.kind},
            {"category", device.category},
            {"aliases", device.aliases},
            {"memory_bytes", device.nominal_memory.value},
            {"usable_bytes", device.usable_memory.value},
            {"usable_estimated", device.is_usable_estimated},
            {"bandwidth_gb_s", rounded(device.bandwidth / 1e9)},
            {"tflops", std::move(rates)},
            {"link_gb_s", rounded(device.link_bandwidth / 1e9)},
            {"host_gb_s", rounded(device.host_bandwidth / 1e9)},
            {"source", device.source}};
  return json;
}

}  // namespace ullage::hardware
