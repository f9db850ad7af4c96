#include "ullage/model/gguf.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "ullage/base/check.h"
#include "ullage/base/quote.h"

namespace ullage::model {
namespace {

constexpr int kMaxDims = 4;
constexpr uint64_t kMaxEntries = uint64_t{1} << 24;  // of metadata or tensors; the largest real files have thousands

const char* const kTypeNames[] = {"uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                  "bool",  "string", "array",  "uint64", "int64",  "float64"};
constexpr uint64_t kTypeBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr uint32_t kNumTypes = 13;

// ggml_type numbers (ggml/include/ggml.h).
constexpr struct {
  uint32_t number;
  DType dtype;
} kGgmlTypes[] = {
    {0, DType::kF32},     {1, DType::kF16},      {2, DType::kQ4_0},   {3, DType::kQ4_1},    {6, DType::kQ5_0},
    {7, DType::kQ5_1},    {8, DType::kQ8_0},     {9, DType::kQ8_1},   {10, DType::kQ2_K},   {11, DType::kQ3_K},
    {12, DType::kQ4_K},   {13, DType::kQ5_K},    {14, DType::kQ6_K},  {15, DType::kQ8_K},   {16, DType::kIQ2_XXS},
    {17, DType::kIQ2_XS}, {18, DType::kIQ3_XXS}, {19, DType::kIQ1_S}, {20, DType::kIQ4_NL}, {21, DType::kIQ3_S},
    {22, DType::kIQ2_S},  {23, DType::kIQ4_XS},  {24, DType::kI8},    {25, DType::kI16},    {26, DType::kI32},
    {27, DType::kI64},    {28, DType::kF64},     {29, DType::kIQ1_M}, {30, DType::kBF16},   {34, DType::kTQ1_0},
    {35, DType::kTQ2_0},  {39, DType::kMXFP4},   {40, DType::kNVFP4},
};

std::optional<DType> dtype_of(uint32_t ggml_type) {
  for (const auto& each : kGgmlTypes) {
    if (each.number == ggml_type) return each.dtype;
  }
  return std::nullopt;
}

// Reads forward through the header; every read is checked against the end.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string_view where) : bytes_(bytes), where_(where) {}

  size_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }
  std::string_view where() const { return where_; }

  Error error(ErrorCode code, std::string message) const {
    return Error{code, std::move(message), fmt::format("{}: byte {}", where_, position_)};
  }

  Result<std::span<const std::byte>> take(uint64_t size, const char* what) {
    if (size > remaining()) {
      return error(
          ErrorCode::kCorrupt,
          fmt::format("{} needs {} bytes, but only {} are left; the file is truncated or damaged, fetch it again", what,
                      size, remaining()));
    }
    const auto taken = bytes_.subspan(position_, static_cast<size_t>(size));  // fits: not over remaining()
    position_ += taken.size();
    return taken;
  }

  template <class T>
  Result<T> number(const char* what) {
    ULLAGE_TRY(const auto bytes, take(sizeof(T), what));
    T value{};
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

  Result<std::string_view> string(const char* what) {
    ULLAGE_TRY(const uint64_t size, number<uint64_t>(what));
    ULLAGE_TRY(const auto bytes, take(size, what));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view where_;
  size_t position_ = 0;
};

Result<GgufType> read_type(Cursor& cursor, std::string_view key) {
  ULLAGE_TRY(const uint32_t number, cursor.number<uint32_t>("a metadata type"));
  if (number >= kNumTypes) {
    return cursor.error(ErrorCode::kCorrupt,
                        fmt::format("metadata {} has type {}; types are 0 to {}", quote(key), number, kNumTypes - 1));
  }
  return static_cast<GgufType>(number);
}

Result<void> check_bools(const Cursor& cursor, const GgufEntry& entry) {
  for (const std::byte b : entry.data) {
    if (b > std::byte{1}) {
      return cursor.error(ErrorCode::kCorrupt, fmt::format("metadata {} is a bool of value {}; 0 or 1 was expected",
                                                           quote(entry.key), static_cast<int>(b)));
    }
  }
  return {};
}

Result<void> read_array(Cursor& cursor, std::span<const std::byte> file, GgufEntry& entry) {
  ULLAGE_TRY(entry.element_type, read_type(cursor, entry.key));
  ULLAGE_TRY(entry.num_elements, cursor.number<uint64_t>("an array's length"));
  if (entry.element_type == GgufType::kArray) {
    return cursor.error(ErrorCode::kUnsupported,
                        fmt::format("metadata {} is an array of arrays, which is not read", quote(entry.key)));
  }
  // Checked before multiplying, and before walking the strings: each has at least its 8 bytes of length.
  const bool is_strings = entry.element_type == GgufType::kString;
  const uint64_t least = is_strings ? 8 : kTypeBytes[static_cast<int>(entry.element_type)];
  if (entry.num_elements > cursor.remaining() / least) {
    return cursor.error(ErrorCode::kCorrupt,
                        fmt::format("metadata {} is an array of {} {}s, but only {} bytes are left", quote(entry.key),
                                    entry.num_elements, to_string(entry.element_type), cursor.remaining()));
  }
  const size_t begin = cursor.position();
  if (is_strings) {
    for (uint64_t i = 0; i < entry.num_elements; ++i) ULLAGE_TRY_VOID(cursor.string("a string of an array"));
  } else {
    ULLAGE_TRY_VOID(cursor.take(entry.num_elements * least, "an array"));
  }
  entry.data = file.subspan(begin, cursor.position() - begin);
  return {};
}

Result<GgufEntry> read_entry(Cursor& cursor, std::span<const std::byte> file) {
  GgufEntry entry;
  ULLAGE_TRY(entry.key, cursor.string("a metadata key"));
  ULLAGE_TRY(entry.type, read_type(cursor, entry.key));
  if (entry.type == GgufType::kArray) {
    ULLAGE_TRY_VOID(read_array(cursor, file, entry));
  } else if (entry.type == GgufType::kString) {
    ULLAGE_TRY(const std::string_view text, cursor.string("a metadata string"));
    entry.data = std::as_bytes(std::span(text));
  } else {
    ULLAGE_TRY(entry.data, cursor.take(kTypeBytes[static_cast<int>(entry.type)], "a metadata value"));
  }
  if (entry.type == GgufType::kBool || (entry.type == GgufType::kArray && entry.element_type == GgufType::kBool)) {
    ULLAGE_TRY_VOID(check_bools(cursor, entry));
  }
  return entry;
}

Result<std::vector<int64_t>> read_dims(Cursor& cursor, std::string_view name) {
  ULLAGE_TRY(const uint32_t num_dims, cursor.number<uint32_t>("a tensor's number of dimensions"));
  if (num_dims == 0 || num_dims > kMaxDims) {
    return cursor.error(ErrorCode::kCorrupt, fmt::format("tensor {} has {} dimensions; 1 to {} were expected",
                                                         quote(name), num_dims, kMaxDims));
  }
  std::vector<int64_t> dims;
  for (uint32_t i = 0; i < num_dims; ++i) {
    ULLAGE_TRY(const uint64_t dim, cursor.number<uint64_t>("a tensor's dimension"));
    if (dim == 0 || dim > static_cast<uint64_t>(INT64_MAX)) {
      return cursor.error(ErrorCode::kCorrupt, fmt::format("tensor {} has a dimension of {}", quote(name), dim));
    }
    dims.push_back(static_cast<int64_t>(dim));
  }
  return dims;
}

// Bytes of the tensor, or nothing when the product overflows.
std::optional<uint64_t> stored_bytes(const GgufTensor& tensor) {
  const DTypeInfo& format = info(tensor.dtype);
  uint64_t bytes = static_cast<uint64_t>(tensor.dims[0] / format.block_elements);
  if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(format.block_bytes), &bytes)) return std::nullopt;
  for (size_t i = 1; i < tensor.dims.size(); ++i) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(tensor.dims[i]), &bytes)) return std::nullopt;
  }
  return bytes;
}

// Name, dimensions, type and offset relative to the data section; `data` comes later.
Result<GgufTensor> read_tensor(Cursor& cursor, GgufTypes types) {
  GgufTensor tensor;
  ULLAGE_TRY(tensor.name, cursor.string("a tensor's name"));
  ULLAGE_TRY(tensor.dims, read_dims(cursor, tensor.name));
  ULLAGE_TRY(const uint32_t ggml_type, cursor.number<uint32_t>("a tensor's type"));
  const std::optional<DType> dtype = dtype_of(ggml_type);
  if (!dtype || (types == GgufTypes::kComputedWith && !is_computed_with(*dtype))) {
    return cursor.error(ErrorCode::kUnsupported,
                        fmt::format("tensor {} is stored as GGML type {} ({}), which is not read; read are F32, F16, "
                                    "BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K: take another "
                                    "quantisation of this model",
                                    quote(tensor.name), ggml_type, dtype ? info(*dtype).name : "unknown"));
  }
  tensor.dtype = *dtype;
  if (tensor.dims[0] % info(*dtype).block_elements != 0) {
    return cursor.error(ErrorCode::kCorrupt,
                        fmt::format("tensor {} has rows of {} elements, not a multiple of {}'s {}", quote(tensor.name),
                                    tensor.dims[0], info(*dtype).name, info(*dtype).block_elements));
  }
  ULLAGE_TRY(tensor.offset, cursor.number<uint64_t>("a tensor's offset"));
  return tensor;
}

// Turns relative offsets into absolute ones and checks that the data lies within the file.
Result<void> place_tensors(std::vector<GgufTensor>& tensors, std::span<const std::byte> file, uint64_t header_bytes,
                           uint32_t alignment, std::string_view where) {
  const uint64_t padding = (alignment - header_bytes % alignment) % alignment;
  const uint64_t data_begin = header_bytes + padding;
  for (GgufTensor& tensor : tensors) {
    const auto corrupt = [&](std::string message) {
      return Error{ErrorCode::kCorrupt, std::move(message), fmt::format("{}: tensor {}", where, quote(tensor.name))};
    };
    const std::optional<uint64_t> size = stored_bytes(tensor);
    if (!size) return corrupt("its dimensions multiply to over 2^64 bytes");
    if (tensor.offset % alignment != 0) {
      return corrupt(
          fmt::format("its offset {} is not a multiple of the file's alignment {}", tensor.offset, alignment));
    }
    const uint64_t available = data_begin <= file.size() ? file.size() - data_begin : 0;
    if (tensor.offset > available || *size > available - tensor.offset) {
      return corrupt(
          fmt::format("its {} bytes at offset {} end after the file's {} bytes of data; the file is truncated "
                      "or damaged, fetch it again",
                      *size, tensor.offset, available));
    }
    tensor.offset += data_begin;
    tensor.data = file.subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(*size));
  }
  return {};
}

Result<void> check_overlaps(const std::vector<GgufTensor>& tensors, std::string_view where) {
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return tensors[a].offset < tensors[b].offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = tensors[order[i - 1]];
    const GgufTensor& after = tensors[order[i]];
    if (before.offset + before.data.size() > after.offset) {
      return Error{
          ErrorCode::kCorrupt,
          fmt::format("tensors {} and {} overlap at byte {}", quote(before.name), quote(after.name), after.offset),
          std::string(where)};
    }
  }
  return {};
}

// Indices sorted by name; an Error when two are the same.
template <class T, class Name>
Result<std::vector<uint32_t>> sort_by_name(const std::vector<T>& items, Name name, const char* what,
                                           std::string_view where) {
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return name(items[a]) < name(items[b]); });
  for (size_t i = 1; i < order.size(); ++i) {
    if (name(items[order[i - 1]]) == name(items[order[i]])) {
      return Error{ErrorCode::kCorrupt, fmt::format("{} {} appears twice", what, quote(name(items[order[i]]))),
                   std::string(where)};
    }
  }
  return order;
}

Result<uint32_t> read_version(Cursor& cursor) {
  ULLAGE_TRY(const auto magic, cursor.take(4, "the magic number"));
  if (std::memcmp(magic.data(), "GGUF", 4) != 0) {
    return Error{ErrorCode::kCorrupt, "does not begin with \"GGUF\": it is not a GGUF file",
                 std::string(cursor.where())};
  }
  ULLAGE_TRY(const uint32_t version, cursor.number<uint32_t>("the version"));
  if (version == 2 || version == 3) return version;
  if ((version & 0xffffu) == 0 && version != 0) {
    return cursor.error(ErrorCode::kUnsupported,
                        "the file is big-endian; only little-endian GGUF is read (gguf-convert-endian of the `gguf` "
                        "package converts it)");
  }
  return cursor.error(
      ErrorCode::kUnsupported,
      fmt::format("GGUF version {} is not read; versions 2 and 3 are. Convert the model again", version));
}

Result<uint64_t> read_count(Cursor& cursor, const char* what, uint64_t least_bytes) {
  ULLAGE_TRY(const uint64_t count, cursor.number<uint64_t>(what));
  if (count > cursor.remaining() / least_bytes || count > kMaxEntries) {
    return cursor.error(ErrorCode::kCorrupt, fmt::format("{} is {}, more than the file's {} bytes can hold", what,
                                                         count, cursor.remaining()));
  }
  return count;
}

}  // namespace

const char* to_string(GgufType type) { return kTypeNames[static_cast<int>(type)]; }

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string_view where, GgufTypes types) {
  GgufFile file;
  file.where_ = where;
  Cursor cursor(bytes, where);
  ULLAGE_TRY(file.version_, read_version(cursor));
  ULLAGE_TRY(const uint64_t num_tensors, read_count(cursor, "the number of tensors", 24));
  ULLAGE_TRY(const uint64_t num_entries, read_count(cursor, "the number of metadata entries", 13));

  for (uint64_t i = 0; i < num_entries; ++i) {
    ULLAGE_TRY(GgufEntry entry, read_entry(cursor, bytes));
    file.entries_.push_back(entry);
  }
  ULLAGE_TRY(file.entries_by_key_,
             sort_by_name(file.entries_, [](const GgufEntry& e) { return e.key; }, "metadata key", where));

  ULLAGE_TRY(const int64_t alignment, file.get_int("general.alignment", 32));
  if (alignment <= 0 || alignment > (int64_t{1} << 30) || (alignment & (alignment - 1)) != 0) {
    return Error{ErrorCode::kCorrupt, fmt::format("is {}; a power of two up to 2^30 was expected", alignment),
                 file.where("general.alignment")};
  }
  file.alignment_ = static_cast<uint32_t>(alignment);

  for (uint64_t i = 0; i < num_tensors; ++i) {
    ULLAGE_TRY(GgufTensor tensor, read_tensor(cursor, types));
    file.tensors_.push_back(std::move(tensor));
  }
  ULLAGE_TRY(file.tensors_by_name_,
             sort_by_name(file.tensors_, [](const GgufTensor& t) { return t.name; }, "tensor", where));
  ULLAGE_TRY_VOID(place_tensors(file.tensors_, bytes, cursor.position(), file.alignment_, where));
  ULLAGE_TRY_VOID(check_overlaps(file.tensors_, where));
  return file;
}

Result<GgufFile> GgufFile::join(std::vector<GgufFile> parts) {
  ULLAGE_CHECK(!parts.empty());
  const auto num_parts = static_cast<int64_t>(parts.size());
  int64_t num_tensors = 0;
  for (int64_t i = 0; i < num_parts; ++i) {
    const GgufFile& part = parts[static_cast<size_t>(i)];
    ULLAGE_TRY(const int64_t count, part.get_int("split.count", 1));
    ULLAGE_TRY(const int64_t number, part.get_int("split.no", 0));
    if (count != num_parts || number != i) {
      return Error{ErrorCode::kCorrupt,
                   fmt::format("is part {} of {} by its own words, and part {} of {} by its name", number + 1, count,
                               i + 1, num_parts),
                   part.where("split.no")};
    }
    num_tensors += static_cast<int64_t>(part.tensors_.size());
  }
  GgufFile whole = std::move(parts.front());
  ULLAGE_TRY(const int64_t stated, whole.get_int("split.tensors.count", num_tensors));
  if (stated != num_tensors) {
    return Error{ErrorCode::kCorrupt, fmt::format("is {}, and the parts have {} tensors", stated, num_tensors),
                 whole.where("split.tensors.count")};
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    whole.tensors_.insert(whole.tensors_.end(), std::make_move_iterator(parts[i].tensors_.begin()),
                          std::make_move_iterator(parts[i].tensors_.end()));
  }
  ULLAGE_TRY(whole.tensors_by_name_,
             sort_by_name(whole.tensors_, [](const GgufTensor& t) { return t.name; }, "tensor", whole.where_));
  return whole;
}

const GgufEntry* GgufFile::find(std::string_view key) const {
  const auto it = std::lower_bound(entries_by_key_.begin(), entries_by_key_.end(), key,
                                   [&](uint32_t i, std::string_view k) { return entries_[i].key < k; });
  return it == entries_by_key_.end() || entries_[*it].key != key ? nullptr : &entries_[*it];
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto it = std::lower_bound(tensors_by_name_.begin(), tensors_by_name_.end(), name,
                                   [&](uint32_t i, std::string_view n) { return tensors_[i].name < n; });
  return it == tensors_by_name_.end() || tensors_[*it].name != name ? nullptr : &tensors_[*it];
}

std::string GgufFile::where(std::string_view key) const {
  const std::string quoted = quote(key);
  return fmt::format("{}: {}", where_, std::string_view(quoted).substr(1, quoted.size() - 2));
}

}  // namespace ullage::model
