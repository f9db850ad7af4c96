// A safetensors file's header (github.com/huggingface/safetensors, "Format").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/model/dtype.h"

namespace ullage::model {

struct SafetensorsTensor {
  std::string name;
  std::string dtype_name;      // as in the file: "BF16", "I64", ...
  std::optional<DType> dtype;  // only when model code reads it: F32, F16, BF16
  std::vector<int64_t> shape;  // outermost first; empty for a scalar
  std::span<const std::byte> data;
};

// Tensors are views into the bytes it was parsed from, which must outlive it. Movable, immutable; any thread.
class SafetensorsFile {
 public:
  // Checks the header (at most 100 MB of JSON), every dtype against shape and size, and that the tensors fill the data
  // section without holes or overlaps. `where` (the path) begins each Error's place.
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes, std::string_view where);

  // In the order of their data.
  std::span<const SafetensorsTensor> tensors() const { return tensors_; }
  // The free-form "__metadata__", in the file's order.
  std::span<const std::pair<std::string, std::string>> metadata() const { return metadata_; }

 private:
  std::vector<SafetensorsTensor> tensors_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

}  // namespace ullage::model
