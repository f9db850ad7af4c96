#include "ullage/hardware/device.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/ascii.h"
#include "ullage/base/check.h"
#include "ullage/base/near_names.h"
#include "ullage/hardware/device_key.h"
#include "ullage/hardware/devices_json.h"

namespace ullage::hardware {
namespace {

// More than any installation; products with bytes stay far from overflow.
constexpr int64_t kMaxDevices = 1'000'000;

// What makers put around a name.
constexpr std::string_view kMakers[] = {"nvidia", "geforce", "instinct", "tesla",  "amd", "radeon",
                                        "intelr", "intel",   "apple",    "google", "aws", "gpu"};

// Lower-case letters and digits alone, without the makers' words.
std::string normalise(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (is_letter_or_digit(c)) text += to_lower(c);
  }
  for (const std::string_view word : kMakers) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word)) text.erase(at, word.size());
  }
  return text;
}

// The name in a line of `nvidia-smi -L`: "GPU 0: NVIDIA L4 (UUID: GPU-...)".
std::string_view without_listing(std::string_view text) {
  if (const size_t uuid = text.find("(UUID"); uuid != std::string_view::npos) text = text.substr(0, uuid);
  size_t at = text.starts_with("GPU ") ? 4 : 0;
  while (at > 0 && at < text.size() && is_digit(text[at])) ++at;
  return at > 4 && at < text.size() && text[at] == ':' ? text.substr(at + 1) : text;
}

// The words of a name in alphabetical order, makers' apart: people and clouds order them as they like.
std::vector<std::string> sorted_words(std::string_view name) {
  std::vector<std::string> words;
  std::string word;
  const auto take = [&] {
    if (!word.empty() && std::find(std::begin(kMakers), std::end(kMakers), word) == std::end(kMakers)) {
      words.push_back(word);
    }
    word.clear();
  };
  for (const char c : name) {
    if (is_letter_or_digit(c)) {
      word += to_lower(c);
    } else {
      take();
    }
  }
  take();
  std::sort(words.begin(), words.end());
  return words;
}

bool is_times(char c) { return c == 'x' || c == 'X' || c == '*'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

struct Split {
  std::string_view name;
  std::string_view count;
};

// Ways to read a text as a name and a count: "4xH100"; "H100x4"; and "mi300x8", whose x belongs to the name.
std::vector<Split> possible_splits(std::string_view text) {
  text = trim(text);
  std::vector<Split> splits;
  size_t digits = 0;
  while (digits < text.size() && is_digit(text[digits])) ++digits;
  size_t at = digits;
  while (at < text.size() && text[at] == ' ') ++at;
  if (digits > 0 && at < text.size() && is_times(text[at])) {
    splits.push_back({trim(text.substr(at + 1)), text.substr(0, digits)});
  }
  size_t end = text.size();
  while (end > 0 && is_digit(text[end - 1])) --end;
  const std::string_view count = text.substr(end);
  const std::string_view before = trim(text.substr(0, end));
  if (!count.empty() && !before.empty() && is_times(before.back())) {
    splits.push_back({trim(before.substr(0, before.size() - 1)), count});
    if (before.back() != '*') splits.push_back({before, count});
  }
  return splits;
}

std::vector<std::string> spellings(const Device& device) {
  std::vector<std::string> all{normalise(device.id), normalise(device.name)};
  for (const std::string& alias : device.aliases) all.push_back(normalise(alias));
  return all;
}

std::string near_devices(std::string_view wanted, std::span<const Device> devices) {
  std::vector<NamedThing> things;
  things.reserve(devices.size());
  for (const Device& device : devices) things.push_back({device.id, spellings(device)});
  return near_names(wanted, things);
}

// The one device with a name of the same words; nullptr when there is none, or several.
const Device* with_the_words_of(std::string_view name, std::span<const Device> devices) {
  const std::vector<std::string> wanted = sorted_words(name);
  if (wanted.empty()) return nullptr;
  const Device* found = nullptr;
  for (const Device& device : devices) {
    bool is_like = sorted_words(device.id) == wanted || sorted_words(device.name) == wanted;
    for (const std::string& alias : device.aliases) is_like = is_like || sorted_words(alias) == wanted;
    if (!is_like) continue;
    if (found != nullptr) return nullptr;
    found = &device;
  }
  return found;
}

}  // namespace

double ridge_flop_per_byte(const Device& device) {
  return device.bandwidth > 0 ? device.flops.bf16 / device.bandwidth : 0;
}

std::string device_key(std::string_view name) { return normalise(name); }

std::vector<Device> known_devices() {
  Result<std::vector<Device>> devices = parse_devices(kDevicesJson, "data/devices.json");
  ULLAGE_CHECK_MSG(devices.has_value(), devices ? "" : devices.error().to_string());
  return *std::move(devices);
}

Result<Device> find_device(std::string_view name, std::span<const Device> devices, std::string_view where) {
  const std::string wanted = normalise(without_listing(name));
  for (const Device& device : devices) {
    const std::vector<std::string> names = spellings(device);
    if (std::find(names.begin(), names.end(), wanted) != names.end()) return device;
  }
  if (const Device* device = with_the_words_of(without_listing(name), devices)) return *device;
  return Error{ErrorCode::kNotFound,
               fmt::format("no device is called \"{}\"; near names are {} ({} devices are known)", name.substr(0, 80),
                           near_devices(std::string_view(wanted).substr(0, 80), devices), devices.size()),
               std::string(where)};
}

Result<Device> find_device(std::string_view name) { return find_device(name, known_devices()); }

Result<DeviceGroup> find_device_group(std::string_view text, std::span<const Device> devices, std::string_view where) {
  Result<Device> whole = find_device(text, devices, where);
  if (whole) return DeviceGroup{.device = *std::move(whole)};
  const std::vector<Split> splits = possible_splits(text);
  std::vector<DeviceGroup> groups;
  groups.reserve(splits.size());
  std::optional<Error> error;
  for (const Split& split : splits) {
    Result<Device> device = find_device(split.name, devices, where);
    if (!device) {
      if (!error) error = device.error();
      continue;
    }
    const Result<int64_t> count = parse_count(split.count, where);
    if (!count || *count < 1 || *count > kMaxDevices) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("\"{}\" asks for {} devices; expected 1 to {}", text.substr(0, 80),
                               split.count.substr(0, 20), kMaxDevices),
                   std::string(where)};
    }
    groups.push_back(DeviceGroup{.device = *std::move(device), .count = *count, .has_count = true});
  }
  if (groups.size() > 1) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("\"{}\" is {} of {} or {} of {}; write {}x{} or {}x{}", text.substr(0, 80),
                             groups[0].count, groups[0].device.name, groups[1].count, groups[1].device.name,
                             groups[0].count, groups[0].device.id, groups[1].count, groups[1].device.id),
                 std::string(where)};
  }
  if (groups.size() == 1) return std::move(groups[0]);
  return error ? *std::move(error) : std::move(whole).error();
}

}  // namespace ullage::hardware
