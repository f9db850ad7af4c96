// safetensors headers: whatever is accepted must lie within the file, without holes.
#include <cstdlib>

#include "ullage/model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const auto file = ullage::model::SafetensorsFile::parse({bytes, size}, "fuzz.safetensors");
  if (!file) return 0;
  const std::byte* end = nullptr;
  for (const auto& tensor : file->tensors()) {
    if (tensor.data.data() < bytes || tensor.data.data() + tensor.data.size() > bytes + size) std::abort();
    if (end != nullptr && tensor.data.data() != end) std::abort();
    end = tensor.data.data() + tensor.data.size();
  }
  if (end != nullptr && end != bytes + size) std::abort();
  return 0;
}
