// Typed look-ups of GGUF metadata.
#include <cstring>

#include <fmt/format.h>

#include "ullage/model/gguf.h"

namespace ullage::model {
namespace {

template <class T>
T load(const std::byte* at) {
  T value{};
  std::memcpy(&value, at, sizeof value);
  return value;
}

bool is_integer(GgufType type) { return type <= GgufType::kI32 || type == GgufType::kU64 || type == GgufType::kI64; }

bool is_number(GgufType type) { return is_integer(type) || type == GgufType::kF32 || type == GgufType::kF64; }

size_t size_of(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    default:
      return 8;
  }
}

// REQUIRES: is_integer(type). False when the value is over int64_t's largest.
bool load_int(GgufType type, const std::byte* at, int64_t& out) {
  switch (type) {
    case GgufType::kU8:
      out = load<uint8_t>(at);
      return true;
    case GgufType::kI8:
      out = load<int8_t>(at);
      return true;
    case GgufType::kU16:
      out = load<uint16_t>(at);
      return true;
    case GgufType::kI16:
      out = load<int16_t>(at);
      return true;
    case GgufType::kU32:
      out = load<uint32_t>(at);
      return true;
    case GgufType::kI32:
      out = load<int32_t>(at);
      return true;
    case GgufType::kI64:
      out = load<int64_t>(at);
      return true;
    default:
      break;
  }
  const auto value = load<uint64_t>(at);
  out = static_cast<int64_t>(value);
  return value <= static_cast<uint64_t>(INT64_MAX);
}

// REQUIRES: is_number(type).
double load_double(GgufType type, const std::byte* at) {
  if (type == GgufType::kF32) return static_cast<double>(load<float>(at));
  if (type == GgufType::kF64) return load<double>(at);
  if (type == GgufType::kU64) return static_cast<double>(load<uint64_t>(at));
  int64_t value = 0;
  load_int(type, at, value);
  return static_cast<double>(value);
}

Error wrong_type(const GgufFile& file, const GgufEntry& entry, const char* expected) {
  const std::string found = entry.type == GgufType::kArray
                                ? fmt::format("an array of {}", to_string(entry.element_type))
                                : std::string(to_string(entry.type));
  return Error{ErrorCode::kCorrupt, fmt::format("is {}; {} was expected", found, expected), file.where(entry.key)};
}

Error too_large(const GgufFile& file, const GgufEntry& entry) {
  return Error{ErrorCode::kCorrupt, "is over 2^63", file.where(entry.key)};
}

}  // namespace

Result<int64_t> GgufFile::get_int(std::string_view key, int64_t fallback) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return fallback;
  if (!is_integer(entry->type)) return wrong_type(*this, *entry, "an integer");
  int64_t value = 0;
  if (!load_int(entry->type, entry->data.data(), value)) return too_large(*this, *entry);
  return value;
}

Result<double> GgufFile::get_double(std::string_view key, double fallback) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return fallback;
  if (!is_number(entry->type)) return wrong_type(*this, *entry, "a number");
  return load_double(entry->type, entry->data.data());
}

Result<bool> GgufFile::get_bool(std::string_view key, bool fallback) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return fallback;
  if (entry->type != GgufType::kBool) return wrong_type(*this, *entry, "a bool");
  return entry->data[0] != std::byte{0};
}

Result<std::string_view> GgufFile::get_string(std::string_view key, std::string_view fallback) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return fallback;
  if (entry->type != GgufType::kString) return wrong_type(*this, *entry, "a string");
  return std::string_view(reinterpret_cast<const char*>(entry->data.data()), entry->data.size());
}

Result<std::vector<std::string_view>> GgufFile::get_strings(std::string_view key) const {
  std::vector<std::string_view> values;
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return values;
  if (entry->type != GgufType::kArray || entry->element_type != GgufType::kString) {
    return wrong_type(*this, *entry, "an array of string");
  }
  values.reserve(static_cast<size_t>(entry->num_elements));
  const std::byte* at = entry->data.data();
  for (uint64_t i = 0; i < entry->num_elements; ++i) {  // lengths were checked when the header was parsed
    const auto size = static_cast<size_t>(load<uint64_t>(at));
    values.emplace_back(reinterpret_cast<const char*>(at) + 8, size);
    at += 8 + size;
  }
  return values;
}

Result<std::vector<int64_t>> GgufFile::get_ints(std::string_view key) const {
  std::vector<int64_t> values;
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return values;
  if (entry->type != GgufType::kArray || !is_integer(entry->element_type)) {
    return wrong_type(*this, *entry, "an array of integers");
  }
  values.resize(static_cast<size_t>(entry->num_elements));
  const size_t step = size_of(entry->element_type);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!load_int(entry->element_type, entry->data.data() + i * step, values[i])) return too_large(*this, *entry);
  }
  return values;
}

Result<std::vector<double>> GgufFile::get_doubles(std::string_view key) const {
  std::vector<double> values;
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return values;
  if (entry->type != GgufType::kArray || !is_number(entry->element_type)) {
    return wrong_type(*this, *entry, "an array of numbers");
  }
  values.resize(static_cast<size_t>(entry->num_elements));
  const size_t step = size_of(entry->element_type);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = load_double(entry->element_type, entry->data.data() + i * step);
  return values;
}

}  // namespace ullage::model
