// GGUF headers: parsing, every typed look-up, the shape they describe, and the first row of every tensor.
#include <cstdlib>
#include <vector>

#include "ullage/model/dequant.h"
#include "ullage/model/gguf.h"
#include "ullage/model/gguf_plan.h"
#include "ullage/model/gguf_shape.h"
#include "ullage/model/tensor_names.h"

using namespace ullage;
using namespace ullage::model;

namespace {

void read_metadata(const GgufFile& file) {
  for (const GgufEntry& entry : file.metadata()) {
    if (file.find(entry.key) != &entry) std::abort();
    (void)file.get_int(entry.key, 0);
    (void)file.get_double(entry.key, 0);
    (void)file.get_bool(entry.key, false);
    (void)file.get_string(entry.key, "");
    (void)file.get_strings(entry.key);
    (void)file.get_ints(entry.key);
    (void)file.get_doubles(entry.key);
  }
}

void read_tensors(const GgufFile& file) {
  std::vector<float> row;
  for (const GgufTensor& tensor : file.tensors()) {
    if (file.find_tensor(tensor.name) != &tensor) std::abort();
    row.resize(static_cast<size_t>(tensor.dims[0]));
    dequantize_row(tensor.dtype, tensor.data.data(), row.data(), tensor.dims[0]);
  }
}

}  // namespace

namespace {

// Files of any architecture and tensor type, read for planning.
void plan(const uint8_t* data, size_t size) {
  const auto file = GgufFile::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz.gguf", GgufTypes::kAny);
  if (!file) return;
  const auto shape = planning_shape_from_gguf(*file);
  if (!shape) return;
  if (shape->layers.empty()) std::abort();
  for (const LayerShape& layer : shape->layers) (void)kv_specs(layer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  plan(data, size);
  const auto file = GgufFile::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz.gguf");
  if (!file) return 0;
  read_metadata(*file);
  read_tensors(*file);
  const auto shape = shape_from_gguf(*file);
  if (!shape) return 0;
  if (count_parameters(*shape).total() <= 0) std::abort();
  (void)kv_spec(shape->layers[0]);
  if (tensor_specs(*shape, TensorNaming::kGguf).size() < 11 * shape->layers.size() / 2) std::abort();
  return 0;
}
