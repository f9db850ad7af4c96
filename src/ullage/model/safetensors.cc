#include "ullage/model/safetensors.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/quote.h"

namespace ullage::model {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr size_t kMaxDims = 16;

struct NamedSize {
  std::string_view name;
  uint64_t bytes;
};
constexpr NamedSize kDTypes[] = {{"F32", 4},     {"F16", 2},     {"BF16", 2},        {"F64", 8},        {"I64", 8},
                                 {"I32", 4},     {"I16", 2},     {"I8", 1},          {"U64", 8},        {"U32", 4},
                                 {"U16", 2},     {"U8", 1},      {"BOOL", 1},        {"C64", 8},        {"F8_E4M3", 1},
                                 {"F8_E5M2", 1}, {"F8_E8M0", 1}, {"F8_E4M3FNUZ", 1}, {"F8_E5M2FNUZ", 1}};

// A header entry as read, before its data is placed.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> offsets;
  bool has_dtype = false;
  bool has_shape = false;
  bool has_offsets = false;
};

// Reads the header's one shape, {name: {dtype, shape, data_offsets}}, without building a document: headers may have
// hundreds of thousands of keys, and a document would hide that one appears twice.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  std::vector<Entry> entries;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::string problem;  // why it stopped; empty when the JSON itself is bad
  size_t position = 0;  // of bad JSON

  bool start_object(size_t) override {
    if (state_ == State::kStart) return enter(State::kTop);
    if (state_ == State::kTop && key_ == "__metadata__") return enter(State::kMetadata);
    if (state_ == State::kTop) {
      entries.emplace_back().name = key_;
      return enter(State::kEntry);
    }
    return unexpected("an object");
  }
  bool end_object() override {
    state_ = state_ == State::kTop ? State::kEnd : State::kTop;
    return true;
  }
  bool key(std::string& name) override {
    key_ = std::move(name);
    return true;
  }
  bool start_array(size_t) override {
    if (state_ != State::kEntry) return unexpected("an array");
    Entry& entry = entries.back();
    if (key_ == "shape" && !entry.has_shape) {
      entry.has_shape = true;
      return enter(State::kShape);
    }
    if (key_ == "data_offsets" && !entry.has_offsets) {
      entry.has_offsets = true;
      return enter(State::kOffsets);
    }
    return unexpected("an array");
  }
  bool end_array() override { return enter(State::kEntry); }
  bool number_unsigned(uint64_t value) override {
    if (state_ == State::kShape) {
      if (entries.back().shape.size() == kMaxDims) return fail(fmt::format("a shape has over {} dimensions", kMaxDims));
      entries.back().shape.push_back(value);
      return true;
    }
    if (state_ == State::kOffsets && entries.back().offsets.size() < 2) {
      entries.back().offsets.push_back(value);
      return true;
    }
    return unexpected("a number");
  }
  bool string(std::string& value) override {
    if (state_ == State::kMetadata) {
      metadata.emplace_back(key_, std::move(value));
      return true;
    }
    if (state_ == State::kEntry && key_ == "dtype" && !entries.back().has_dtype) {
      entries.back().dtype = std::move(value);
      entries.back().has_dtype = true;
      return true;
    }
    return unexpected("a string");
  }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(int64_t) override { return unexpected("a negative number"); }
  bool number_float(double, const std::string&) override { return unexpected("a fraction"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception&) override {
    position = at;
    return false;
  }

 private:
  enum class State { kStart, kTop, kMetadata, kEntry, kShape, kOffsets, kEnd };

  bool enter(State state) {
    state_ = state;
    return true;
  }
  bool fail(std::string message) {
    problem = std::move(message);
    return false;
  }
  bool unexpected(const char* what) {
    const bool in_entry = state_ == State::kEntry || state_ == State::kShape || state_ == State::kOffsets;
    const std::string tensor = in_entry ? fmt::format("tensor {}: ", quote(entries.back().name)) : "";
    return fail(fmt::format("{}{} at key {} does not belong into a safetensors header, or is there twice", tensor, what,
                            quote(key_)));
  }

  State state_ = State::kStart;
  std::string key_;
};

// Shape, size and place of one tensor, checked.
Result<SafetensorsTensor> place(const Entry& entry, std::span<const std::byte> data, std::string_view where) {
  const auto error = [&](ErrorCode code, std::string message) {
    return Error{code, std::move(message), fmt::format("{}: tensor {}", where, quote(entry.name))};
  };
  if (!entry.has_dtype || !entry.has_shape || entry.offsets.size() != 2) {
    return error(ErrorCode::kCorrupt, "lacks one of dtype, shape and data_offsets (two numbers)");
  }
  const auto* known = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                   [&](const NamedSize& each) { return each.name == entry.dtype; });
  if (known == std::end(kDTypes)) {
    return error(ErrorCode::kUnsupported, fmt::format("has dtype {}, which is not known", quote(entry.dtype)));
  }
  SafetensorsTensor tensor;
  tensor.name = entry.name;
  tensor.dtype_name = entry.dtype;
  if (known - std::begin(kDTypes) < 3) tensor.dtype = static_cast<DType>(known - std::begin(kDTypes));
  static_assert(static_cast<int>(DType::kF32) == 0 && static_cast<int>(DType::kF16) == 1 &&
                static_cast<int>(DType::kBF16) == 2);

  uint64_t size = known->bytes;
  for (const uint64_t dim : entry.shape) {
    if (dim > static_cast<uint64_t>(INT64_MAX) || __builtin_mul_overflow(size, dim, &size)) {
      return error(ErrorCode::kCorrupt, "its shape multiplies to over 2^64 bytes");
    }
    tensor.shape.push_back(static_cast<int64_t>(dim));
  }
  const uint64_t begin = entry.offsets[0];
  const uint64_t end = entry.offsets[1];
  if (begin > end || end > data.size()) {
    return error(ErrorCode::kCorrupt,
                 fmt::format("lies at [{}, {}), but the file has {} bytes of data; it is truncated or "
                             "damaged, fetch it again",
                             begin, end, data.size()));
  }
  if (end - begin != size) {
    return error(ErrorCode::kCorrupt,
                 fmt::format("has {} bytes, but its shape and dtype {} need {}", end - begin, entry.dtype, size));
  }
  tensor.data = data.subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
  return tensor;
}

// Data must be used from end to end, each byte once.
Result<void> check_no_gaps(const std::vector<SafetensorsTensor>& tensors, std::span<const std::byte> data,
                           std::string_view where) {
  const std::byte* expected = data.data();
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.data.data() != expected) {
      const bool overlaps = tensor.data.data() < expected;
      return Error{ErrorCode::kCorrupt,
                   overlaps ? "overlaps the tensor before it" : "leaves a hole after the tensor before it",
                   fmt::format("{}: tensor {}", where, quote(tensor.name))};
    }
    expected += tensor.data.size();
  }
  if (expected != data.data() + data.size()) {
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{} bytes after the last tensor belong to none", data.data() + data.size() - expected),
                 std::string(where)};
  }
  return {};
}

Result<void> check_names(const std::vector<SafetensorsTensor>& tensors, std::string_view where) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const SafetensorsTensor& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return Error{ErrorCode::kCorrupt, fmt::format("tensor {} appears twice", quote(*twice)), std::string(where)};
}

Result<HeaderReader> read_header(std::string_view text, std::string_view where) {
  ULLAGE_TRY_VOID(check_json_limits(text, where, {.max_bytes = kMaxHeaderBytes, .max_depth = 4}));
  HeaderReader reader;
  if (!Json::sax_parse(text, &reader)) {
    std::string message = reader.problem.empty()
                              ? fmt::format("the header is not valid JSON at byte {}", reader.position + 8)
                              : reader.problem;
    return Error{ErrorCode::kCorrupt, std::move(message), std::string(where)};
  }
  return reader;
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes, std::string_view where) {
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof header_bytes) {
    return Error{ErrorCode::kCorrupt, fmt::format("has {} bytes, too few for a safetensors file", bytes.size()),
                 std::string(where)};
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - sizeof header_bytes) {
    return Error{ErrorCode::kCorrupt,
                 fmt::format("says its header has {} bytes; the file has {} and the format allows {}. It is not a "
                             "safetensors file, or is truncated",
                             header_bytes, bytes.size(), kMaxHeaderBytes),
                 std::string(where)};
  }
  const auto header = bytes.subspan(sizeof header_bytes, static_cast<size_t>(header_bytes));
  const auto data = bytes.subspan(sizeof header_bytes + static_cast<size_t>(header_bytes));
  ULLAGE_TRY(HeaderReader reader, read_header({reinterpret_cast<const char*>(header.data()), header.size()}, where));

  SafetensorsFile file;
  file.metadata_ = std::move(reader.metadata);
  for (const Entry& entry : reader.entries) {
    ULLAGE_TRY(SafetensorsTensor tensor, place(entry, data, where));
    file.tensors_.push_back(std::move(tensor));
  }
  ULLAGE_TRY_VOID(check_names(file.tensors_, where));
  std::sort(file.tensors_.begin(), file.tensors_.end(), [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    const std::byte* const ends[] = {a.data.data() + a.data.size(), b.data.data() + b.data.size()};
    if (a.data.data() != b.data.data()) return a.data.data() < b.data.data();
    return ends[0] != ends[1] ? ends[0] < ends[1] : a.name < b.name;
  });
  ULLAGE_TRY_VOID(check_no_gaps(file.tensors_, data, where));
  return file;
}

}  // namespace ullage::model
