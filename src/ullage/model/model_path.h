// From what a user calls a model to the files it consists of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ullage/base/result.h"

namespace ullage::model {

struct ModelFiles {
  std::string path;  // the GGUF file, or the directory
  bool is_gguf = false;
  std::string directory;  // where side files (generation_config.json, ...) would lie; empty for a GGUF
  std::string name;       // "Qwen/Qwen3-0.6B" when found in the Hugging Face cache, else empty
};

// `given`: a file, a directory, or a name looked up in the Hugging Face cache (`hf_cache_dir`; empty:
// hf_cache_directory()).
Result<ModelFiles> find_model(const std::string& given, const std::string& hf_cache_dir);

// The directory of a name in the Hugging Face cache, whatever it holds; nothing when `given` is a path, or not there.
std::optional<std::string> find_cached_model(const std::string& given, const std::string& hf_cache_dir);

// HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub, as huggingface_hub takes them.
std::string hf_cache_directory();

// The *.safetensors files of a directory: those its index names, or else model.safetensors, or else the only one.
// Full paths, sorted. Each name in the index stays within the directory.
struct Shard {
  std::string path;
  std::vector<std::string> tensors;  // that the index says it holds, sorted; empty without an index
};
Result<std::vector<Shard>> find_shards(const std::string& directory);

bool file_exists(const std::string& path);

}  // namespace ullage::model
