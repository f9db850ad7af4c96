// A GGUF file's header, versions 2 and 3, little-endian: metadata and where each tensor lies.
// The format: ggml/docs/gguf.md of github.com/ggml-org/ggml.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/model/dtype.h"

namespace ullage::model {

// Types of metadata values, as numbered in the file.
enum class GgufType : uint8_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };
const char* to_string(GgufType type);

// One metadata value, still as bytes in the file: a scalar, a string's characters, or an array's elements.
struct GgufEntry {
  std::string_view key;
  GgufType type = GgufType::kU8;
  GgufType element_type = GgufType::kU8;  // arrays only; never kArray
  uint64_t num_elements = 0;              // arrays only
  std::span<const std::byte> data;        // an array of strings: each with its 64-bit length before it
};

struct GgufTensor {
  std::string_view name;
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;  // as in the file: innermost first
  uint64_t offset = 0;        // of the data, from the file's first byte
  std::span<const std::byte> data;
};

// Which tensor types a file may have: those that are computed with, or any whose size is known (to plan for it).
enum class GgufTypes : uint8_t { kComputedWith, kAny };

// Views into the bytes it was parsed from, which must outlive it. Movable, immutable; any thread.
// Parsing costs time in proportion to the header, and memory to its number of entries.
class GgufFile {
 public:
  // Checks everything that can be checked without reading the tensors' data; `where` (the path) begins each Error's
  // place.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string_view where,
                                GgufTypes types = GgufTypes::kComputedWith);

  // The parts of a split model, in order, as one file: the first one's metadata, the tensors of all, whose offsets are
  // of their own part. kCorrupt for parts of different models, out of order or of another number than they say.
  static Result<GgufFile> join(std::vector<GgufFile> parts);

  uint32_t version() const { return version_; }
  uint32_t alignment() const { return alignment_; }
  // In the file's order.
  std::span<const GgufEntry> metadata() const { return entries_; }
  std::span<const GgufTensor> tensors() const { return tensors_; }
  // nullptr when there is none. O(log n).
  const GgufEntry* find(std::string_view key) const;
  const GgufTensor* find_tensor(std::string_view name) const;

  // Typed look-ups. A missing key gives `fallback` (or an empty vector); another type is an Error at the key.
  // Any integer type is read as int64_t (over 2^63 is an Error); floats and integers as double.
  Result<int64_t> get_int(std::string_view key, int64_t fallback) const;
  Result<double> get_double(std::string_view key, double fallback) const;
  Result<bool> get_bool(std::string_view key, bool fallback) const;
  Result<std::string_view> get_string(std::string_view key, std::string_view fallback) const;
  Result<std::vector<std::string_view>> get_strings(std::string_view key) const;
  Result<std::vector<int64_t>> get_ints(std::string_view key) const;
  Result<std::vector<double>> get_doubles(std::string_view key) const;

  // "path: key", the place of an Error about one metadata value.
  std::string where(std::string_view key) const;

 private:
  std::string where_;
  uint32_t version_ = 0;
  uint32_t alignment_ = 32;
  std::vector<GgufEntry> entries_;
  std::vector<GgufTensor> tensors_;
  std::vector<uint32_t> entries_by_key_;   // indices, sorted by key
  std::vector<uint32_t> tensors_by_name_;  // indices, sorted by name
};

}  // namespace ullage::model
