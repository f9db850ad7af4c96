#include "ullage/model/model_path.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include <dirent.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "ullage/base/ascii.h"
#include "ullage/base/json.h"
#include "ullage/base/mapped_file.h"
#include "ullage/base/quote.h"

namespace ullage::model {
namespace {

constexpr int64_t kMaxIndexBytes = int64_t{64} << 20;

enum class PathKind { kNone, kFile, kDirectory };
PathKind kind_of(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return PathKind::kNone;
  return S_ISDIR(info.st_mode) ? PathKind::kDirectory : PathKind::kFile;
}

// Names in a directory, sorted. (std::filesystem is missing in WebAssembly.)
Result<std::vector<std::string>> list_directory(const std::string& path) {
  std::vector<std::string> names;
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) {
    const int e = errno;
    return Error{e == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                 fmt::format("cannot list the directory: {}", std::strerror(e)), path};
  }
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> with_suffix(const std::vector<std::string>& names, std::string_view suffix) {
  std::vector<std::string> matching;
  for (const std::string& name : names) {
    if (name.ends_with(suffix)) matching.push_back(name);
  }
  return matching;
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// A directory with config.json and safetensors, or with one GGUF.
Result<ModelFiles> find_in_directory(const std::string& directory) {
  const auto error = [&](ErrorCode code, std::string message) { return Error{code, std::move(message), directory}; };
  ULLAGE_TRY(const std::vector<std::string> names, list_directory(directory));
  const std::vector<std::string> ggufs = with_suffix(names, ".gguf");
  if (!with_suffix(names, ".safetensors").empty() || file_exists(directory + "/model.safetensors.index.json")) {
    if (file_exists(directory + "/config.json")) {
      return ModelFiles{.path = directory, .is_gguf = false, .directory = directory, .name = ""};
    }
    return error(ErrorCode::kNotFound, "has *.safetensors, but no config.json beside them");
  }
  if (ggufs.size() == 1) {
    return ModelFiles{.path = directory + "/" + ggufs[0], .is_gguf = true, .directory = "", .name = ""};
  }
  if (ggufs.size() > 1) {
    return error(ErrorCode::kInvalidArgument,
                 fmt::format("has several GGUF files ({}); give the path of one", join(ggufs)));
  }
  if (file_exists(directory + "/config.json")) {
    for (const char* suffix : {".bin", ".pt", ".pth"}) {
      if (with_suffix(names, suffix).empty()) continue;
      return error(ErrorCode::kUnsupported,
                   fmt::format("has PyTorch pickles only ({}), which are not read because they can run code; take the "
                               "model's *.safetensors or a GGUF of it",
                               join(with_suffix(names, suffix))));
    }
    return error(ErrorCode::kNotFound, "has config.json but no weights (*.safetensors)");
  }
  return error(ErrorCode::kNotFound, "holds no model: neither a .gguf file nor config.json with *.safetensors");
}

bool is_model_name(std::string_view name) {
  const size_t slash = name.find('/');
  if (name.empty() || name.front() == '/' || name.back() == '/' || name.find("..") != std::string_view::npos)
    return false;
  if (slash != std::string_view::npos && name.find('/', slash + 1) != std::string_view::npos) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.' || c == '/'; });
}

// "org/name" -> "models--org--name".
std::string folder_of(const std::string& name) {
  std::string folder = "models--" + name;
  if (const size_t slash = folder.find('/'); slash != std::string::npos) folder.replace(slash, 1, "--");
  return folder;
}

// models--org--name/snapshots/<revision>, where refs/main names the revision.
Result<std::string> find_snapshot(const std::string& repository) {
  const std::string snapshots = repository + "/snapshots";
  if (file_exists(repository + "/refs/main")) {
    ULLAGE_TRY(std::string revision, read_text_file(repository + "/refs/main", 4096));
    while (!revision.empty() && (revision.back() == '\n' || revision.back() == ' ')) revision.pop_back();
    const bool is_plain = !revision.empty() && revision.find('/') == std::string::npos && revision[0] != '.';
    if (is_plain && kind_of(snapshots + "/" + revision) == PathKind::kDirectory) return snapshots + "/" + revision;
  }
  std::vector<std::string> revisions;
  if (kind_of(snapshots) == PathKind::kDirectory) {
    ULLAGE_TRY(revisions, list_directory(snapshots));
  }
  if (revisions.size() == 1) return snapshots + "/" + revisions[0];
  return Error{ErrorCode::kNotFound,
               revisions.empty()
                   ? std::string("has no snapshot of the model; download it again")
                   : fmt::format("has several snapshots ({}) and refs/main names none of them; give the path "
                                 "of one",
                                 join(revisions)),
               repository};
}

}  // namespace

bool file_exists(const std::string& path) { return kind_of(path) == PathKind::kFile; }

std::string hf_cache_directory() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string value = variable(name); !value.empty()) return value;
  }
  if (const std::string home = variable("HF_HOME"); !home.empty()) return home + "/hub";
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/huggingface/hub";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/huggingface/hub";
}

std::optional<std::string> find_cached_model(const std::string& given, const std::string& hf_cache_dir) {
  if (kind_of(given) != PathKind::kNone || !is_model_name(given)) return std::nullopt;
  const std::string cache = hf_cache_dir.empty() ? hf_cache_directory() : hf_cache_dir;
  if (cache.empty()) return std::nullopt;
  Result<std::string> snapshot = find_snapshot(cache + "/" + folder_of(given));
  if (!snapshot) return std::nullopt;
  return *std::move(snapshot);
}

Result<ModelFiles> find_model(const std::string& given, const std::string& hf_cache_dir) {
  switch (kind_of(given)) {
    case PathKind::kDirectory: {
      const bool has_slash = given.size() > 1 && given.back() == '/';
      return find_in_directory(has_slash ? given.substr(0, given.size() - 1) : given);
    }
    case PathKind::kFile:
      return ModelFiles{.path = given, .is_gguf = true, .directory = "", .name = ""};
    case PathKind::kNone:
      break;
  }
  if (!is_model_name(given) || given.ends_with(".gguf")) {
    return Error{ErrorCode::kNotFound, "there is no such file or directory", given};
  }
  const std::string cache = hf_cache_dir.empty() ? hf_cache_directory() : hf_cache_dir;
  const std::string folder = folder_of(given);
  const std::string repository = cache + "/" + folder;
  if (cache.empty() || kind_of(repository) != PathKind::kDirectory) {
    return Error{
        ErrorCode::kNotFound,
        fmt::format("there is no such file or directory, and no {} in the Hugging Face cache {}; give a path, or "
                    "download the model first (hf download {})",
                    folder, cache.empty() ? "(none)" : cache, given),
        given};
  }
  ULLAGE_TRY(const std::string snapshot, find_snapshot(repository));
  ULLAGE_TRY(ModelFiles files, find_in_directory(snapshot));
  files.name = given;
  return files;
}

Result<std::vector<Shard>> find_shards(const std::string& directory) {
  const std::string index_path = directory + "/model.safetensors.index.json";
  if (!file_exists(index_path)) {
    ULLAGE_TRY(const std::vector<std::string> all, list_directory(directory));
    const std::vector<std::string> names = with_suffix(all, ".safetensors");
    const bool has_plain = std::find(names.begin(), names.end(), "model.safetensors") != names.end();
    if (has_plain) return std::vector<Shard>{{directory + "/model.safetensors", {}}};
    if (names.size() == 1) return std::vector<Shard>{{directory + "/" + names[0], {}}};
    return Error{
        ErrorCode::kNotFound,
        fmt::format("has {} *.safetensors ({}), but no model.safetensors.index.json to say how they belong together",
                    names.size(), join(names)),
        directory};
  }
  ULLAGE_TRY(const std::string text, read_text_file(index_path, kMaxIndexBytes));
  ULLAGE_TRY(const SortedJson index, parse_sorted_json(text, index_path));
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return Error{ErrorCode::kCorrupt, "has no object \"weight_map\"", index_path};
  }
  std::map<std::string, std::vector<std::string>> files;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    const std::string at = fmt::format("{}/weight_map/{}", index_path, tensor);
    if (!file.is_string()) return Error{ErrorCode::kCorrupt, "expected a file's name", at};
    const auto name = file.get<std::string>();
    if (name.find('/') != std::string::npos || name.find('\0') != std::string::npos ||
        !name.ends_with(".safetensors")) {
      return Error{ErrorCode::kCorrupt,
                   fmt::format("{} is not the plain name of a .safetensors file in this directory", quote(name)), at};
    }
    files[name].push_back(tensor);
  }
  std::vector<Shard> shards;
  for (auto& [name, tensors] : files) {
    if (!file_exists(directory + "/" + name)) {
      return Error{ErrorCode::kNotFound, fmt::format("names {}, which is missing; download the model again", name),
                   index_path};
    }
    shards.push_back({directory + "/" + name, std::move(tensors)});
  }
  return shards;
}

}  // namespace ullage::model
