// What a model's files hold, from their headers alone: exact bytes by type, for planning.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ullage/base/result.h"

namespace ullage::model {

struct StoredType {
  std::string name;  // as the format spells it: "BF16", "F8_E4M3", "Q4_K"
  int64_t num_tensors = 0;
  int64_t num_elements = 0;  // of the stored type: packed 4-bit numbers count as the integers they are packed in
  int64_t bytes = 0;
};

struct StoredWeights {
  std::string path;  // the file, or the directory
  bool is_gguf = false;
  int64_t num_files = 0;
  int64_t num_tensors = 0;
  int64_t bytes = 0;                // of tensors' data, without headers and padding
  std::vector<StoredType> by_type;  // by bytes, most first; empty when only the index of a directory is there
  bool is_from_index = false;       // model.safetensors.index.json's total_size: its files are not (all) there
};

// `path`: a .gguf file (of several parts: any of them, and all must be beside it), a .safetensors file, or a directory
// with *.safetensors. Reads headers only. Without its files, a directory's index gives the total alone.
Result<StoredWeights> read_stored_weights(const std::string& path);

// The parts of a split GGUF ("m-00001-of-00003.gguf"), in order, or the file itself when its name is no part's.
// An Error names the first that is missing.
Result<std::vector<std::string>> gguf_parts(const std::string& path);

}  // namespace ullage::model
