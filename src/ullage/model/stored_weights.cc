#include "ullage/model/stored_weights.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/mapped_file.h"
#include "ullage/base/quote.h"
#include "ullage/model/gguf.h"
#include "ullage/model/model_path.h"
#include "ullage/model/safetensors.h"

namespace ullage::model {
namespace {

constexpr int64_t kMaxIndexBytes = int64_t{256} << 20;
constexpr int64_t kMaxParts = 99999;

using ByType = std::map<std::string, StoredType>;

void add(ByType& types, std::string_view name, int64_t num_elements, int64_t bytes) {
  StoredType& type = types[std::string(name)];
  type.name = name;
  ++type.num_tensors;
  type.num_elements += num_elements;
  type.bytes += bytes;
}

// Checked by the parsers: the product times the type's bytes fits 64 bits.
int64_t product(const std::vector<int64_t>& dims) {
  int64_t elements = 1;
  for (const int64_t dim : dims) elements *= dim;
  return elements;
}

void finish(ByType& types, StoredWeights& weights) {
  weights.by_type.reserve(types.size());
  for (auto& [name, type] : types) {
    weights.num_tensors += type.num_tensors;
    weights.bytes += type.bytes;
    weights.by_type.push_back(std::move(type));
  }
  std::sort(weights.by_type.begin(), weights.by_type.end(), [](const StoredType& a, const StoredType& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
  });
}

Result<void> add_gguf(const std::string& path, ByType& types) {
  ULLAGE_TRY(const MappedFile file, MappedFile::open(path));
  ULLAGE_TRY(const GgufFile gguf, GgufFile::parse(file.bytes(), path, GgufTypes::kAny));
  for (const GgufTensor& tensor : gguf.tensors()) {
    add(types, info(tensor.dtype).name, product(tensor.dims), static_cast<int64_t>(tensor.data.size()));
  }
  return {};
}

Result<void> add_safetensors(const std::string& path, ByType& types) {
  ULLAGE_TRY(const MappedFile file, MappedFile::open(path));
  ULLAGE_TRY(const SafetensorsFile parsed, SafetensorsFile::parse(file.bytes(), path));
  for (const SafetensorsTensor& tensor : parsed.tensors()) {
    add(types, tensor.dtype_name, product(tensor.shape), static_cast<int64_t>(tensor.data.size()));
  }
  return {};
}

// The index's own total, when it states one.
Result<std::optional<int64_t>> read_total_size(const std::string& index_path) {
  ULLAGE_TRY(const std::string text, read_text_file(index_path, kMaxIndexBytes));
  ULLAGE_TRY(const SortedJson index, parse_sorted_json(text, index_path));
  if (!index.is_object() || !index.contains("metadata") || !index["metadata"].is_object()) return std::nullopt;
  const SortedJson& metadata = index["metadata"];
  if (!metadata.contains("total_size")) return std::nullopt;
  const SortedJson& total = metadata["total_size"];
  // Some exporters write 16060522496.0.
  if (total.is_number_integer() && total.get<int64_t>() > 0) return total.get<int64_t>();
  if (total.is_number_float() && total.get<double>() > 0 && total.get<double>() < 9e18) {
    return static_cast<int64_t>(total.get<double>());
  }
  return Error{ErrorCode::kCorrupt, "expected a number of bytes over 0", index_path + "/metadata/total_size"};
}

struct PartName {
  std::string stem;  // before "-00001-of-00003.gguf"
  int64_t num_parts = 0;
};

std::optional<int64_t> five_digits(std::string_view text) {
  if (text.size() != 5 || text.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  int64_t value = 0;
  for (const char digit : text) value = value * 10 + (digit - '0');
  return value;
}

std::optional<PartName> part_name(std::string_view path) {
  constexpr size_t kTail = std::string_view("-00001-of-00003.gguf").size();
  if (path.size() <= kTail) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - kTail);
  const auto number = five_digits(tail.substr(1, 5));
  const auto count = five_digits(tail.substr(10, 5));
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf" || !number || !count) {
    return std::nullopt;
  }
  if (*number < 1 || *number > *count || *count > kMaxParts) return std::nullopt;
  return PartName{std::string(path.substr(0, path.size() - kTail)), *count};
}

Result<StoredWeights> read_directory(const std::string& directory) {
  StoredWeights weights;
  weights.path = directory;
  const std::string index_path = directory + "/model.safetensors.index.json";
  const auto shards = find_shards(directory);
  if (!shards && file_exists(index_path)) {
    ULLAGE_TRY(const std::optional<int64_t> total, read_total_size(index_path));
    if (!total) return shards.error();
    weights.bytes = *total;
    weights.is_from_index = true;
    return weights;
  }
  if (!shards) return shards.error();
  ByType types;
  for (const Shard& shard : *shards) {
    ULLAGE_TRY_VOID(add_safetensors(shard.path, types));
    ++weights.num_files;
  }
  finish(types, weights);
  return weights;
}

}  // namespace

Result<std::vector<std::string>> gguf_parts(const std::string& path) {
  const auto name = part_name(path);
  if (!name) return std::vector<std::string>{path};
  std::vector<std::string> parts;
  for (int64_t i = 1; i <= name->num_parts; ++i) {
    std::string part = fmt::format("{}-{:05}-of-{:05}.gguf", name->stem, i, name->num_parts);
    if (!file_exists(part)) {
      return Error{ErrorCode::kNotFound,
                   fmt::format("is one of {} parts of a model, and part {} is missing ({}); put all of them beside "
                               "each other",
                               name->num_parts, i, quote(part)),
                   path};
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

Result<StoredWeights> read_stored_weights(const std::string& path) {
  if (!file_exists(path)) return read_directory(path);
  StoredWeights weights;
  weights.path = path;
  ByType types;
  if (path.ends_with(".safetensors")) {
    ULLAGE_TRY_VOID(add_safetensors(path, types));
    weights.num_files = 1;
  } else {
    weights.is_gguf = true;
    ULLAGE_TRY(const std::vector<std::string> parts, gguf_parts(path));
    for (const std::string& part : parts) ULLAGE_TRY_VOID(add_gguf(part, types));
    weights.num_files = static_cast<int64_t>(parts.size());
  }
  finish(types, weights);
  return weights;
}

}  // namespace ullage::model
