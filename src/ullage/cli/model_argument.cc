#include "ullage/cli/model_argument.h"

#include <filesystem>
#include <iostream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ullage/base/mapped_file.h"
#include "ullage/base/units.h"
#include "ullage/cli/data_files.h"
#include "ullage/model/config.h"
#include "ullage/model/gguf.h"
#include "ullage/model/gguf_plan.h"
#include "ullage/model/model_path.h"
#include "ullage/model/stored_weights.h"

namespace ullage::cli {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kMaxConfigBytes = 16 * kMiB;

Result<api::PlanModel> read_config_text(const std::string& text, const std::string& where) {
  api::PlanModel model;
  ULLAGE_TRY(model.shape, model::parse_config(text, where));
  model.source = "config.json";
  model.config = text;
  return model;
}

Result<api::PlanModel> read_standard_input() {
  std::string text;
  std::string buffer(1 << 16, '\0');
  while (std::cin && static_cast<int64_t>(text.size()) <= kMaxConfigBytes) {
    std::cin.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    text.append(buffer.data(), static_cast<size_t>(std::cin.gcount()));
  }
  if (static_cast<int64_t>(text.size()) > kMaxConfigBytes) {
    return Error{ErrorCode::kTooLarge, "is over 16 MiB; give a config.json", "standard input"};
  }
  return read_config_text(text, "standard input");
}

// A config.json; what hf_quant_config.json beside it says of its weights, when it says nothing itself.
Result<api::PlanModel> read_config(const fs::path& path) {
  ULLAGE_TRY(const std::string text, read_text_file(path.string(), kMaxConfigBytes));
  ULLAGE_TRY(api::PlanModel model, read_config_text(text, path.string()));
  const fs::path beside = path.parent_path() / "hf_quant_config.json";
  std::error_code ignored;
  if (model.shape.quantization.method.empty() && fs::is_regular_file(beside, ignored)) {
    ULLAGE_TRY(const std::string quantization, read_text_file(beside.string(), kMaxConfigBytes));
    ULLAGE_TRY(model.shape.quantization, model::parse_hf_quant_config(quantization, beside.string()));
  }
  return model;
}

// Its header alone: any architecture, any type of weights.
Result<api::PlanModel> read_gguf(const fs::path& path) {
  ULLAGE_TRY(const std::vector<std::string> parts, model::gguf_parts(path.string()));
  std::vector<MappedFile> files;
  std::vector<model::GgufFile> headers;
  for (const std::string& part : parts) {
    ULLAGE_TRY(MappedFile file, MappedFile::open(part));
    ULLAGE_TRY(model::GgufFile header, model::GgufFile::parse(file.bytes(), part, model::GgufTypes::kAny));
    files.push_back(std::move(file));
    headers.push_back(std::move(header));
  }
  if (headers.size() == 1) {
    // A part under a name that does not say so: the others cannot be found.
    ULLAGE_TRY(const int64_t count, headers[0].get_int("split.count", 1));
    if (count > 1) {
      return Error{ErrorCode::kNotFound,
                   fmt::format("is one of {} parts of a model; name them as they were made (NAME-00001-of-{:05}.gguf) "
                               "beside each other",
                               count, count),
                   path.string()};
    }
  }
  ULLAGE_TRY(const model::GgufFile gguf, headers.size() == 1 ? Result<model::GgufFile>(std::move(headers[0]))
                                                             : model::GgufFile::join(std::move(headers)));
  api::PlanModel model;
  ULLAGE_TRY(model.shape, model::planning_shape_from_gguf(gguf));
  model.source = "GGUF";
  return model;
}

Result<api::PlanModel> read_directory(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_regular_file(path / "config.json", ignored)) return read_config(path / "config.json");
  fs::path gguf;
  for (const auto& entry : fs::directory_iterator(path, ignored)) {
    if (entry.path().extension() == ".gguf" && (gguf.empty() || entry.path() < gguf)) gguf = entry.path();
  }
  if (!gguf.empty()) return read_gguf(gguf);
  return Error{ErrorCode::kNotFound, "has neither a config.json nor a .gguf file", path.string()};
}

Result<api::PlanModel> read_path(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return read_directory(path);
  if (path.extension() == ".gguf") return read_gguf(path);
  if (path.extension() == ".safetensors") {
    const fs::path config = path.parent_path() / "config.json";
    if (fs::is_regular_file(config, ignored)) return read_config(config);
    return Error{ErrorCode::kNotFound,
                 "has no config.json beside it, and tensors alone do not say how a model attends; put it there",
                 path.string()};
  }
  return read_config(path);
}

bool looks_like_path(const std::string& name) {
  return name.ends_with(".json") || name.ends_with(".gguf") || name.ends_with(".safetensors") ||
         name.starts_with(".") || name.starts_with("/") || name.starts_with("~");
}

Result<api::PlanModel> read_name(const std::string& name) {
  if (const auto snapshot = model::find_cached_model(name, "")) return read_directory(*snapshot);
  return api::catalogue_model(name, "MODEL");
}

Result<api::PlanModel> read_any(const std::string& name) {
  std::error_code ignored;
  if (name == "-") return read_standard_input();
  if (fs::exists(name, ignored)) return read_path(name);
  if (name == kBundledModel || name == "bundled") {
    ULLAGE_TRY(const std::string path, find_data_file(std::string(kBundledModel) + ".gguf"));
    return read_gguf(path);
  }
  if (looks_like_path(name)) return Error{ErrorCode::kNotFound, "there is no such file", name};
  return read_name(name);
}

}  // namespace

Result<std::shared_ptr<const api::PlanModel>> read_plan_model(const std::string& name) {
  ULLAGE_TRY(api::PlanModel model, read_any(name));
  if (model.name.empty()) model.name = name == "-" ? "config.json" : name;
  return std::make_shared<const api::PlanModel>(std::move(model));
}

}  // namespace ullage::cli
