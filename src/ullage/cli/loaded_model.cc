#include "ullage/cli/loaded_model.h"

#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/mapped_file.h"
#include "ullage/base/units.h"
#include "ullage/cli/data_files.h"
#include "ullage/model/config.h"
#include "ullage/model/model_path.h"
#include "ullage/model/servable.h"

namespace ullage::cli {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kMaxConfigBytes = 16 * kMiB;
constexpr int64_t kMaxTokenizerBytes = 256 * kMiB;

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool is_bundled_name(const std::string& name) { return name == kBundledModel || name == "bundled"; }

// The config.json alone, when that is all there is: the file itself, or a directory without weights.
std::optional<std::string> bare_config_path(const std::string& model) {
  std::error_code ignored;
  if (ends_with(model, ".json") && fs::is_regular_file(model, ignored)) return model;
  if (!fs::is_directory(model, ignored) || !fs::exists(fs::path(model) / "config.json", ignored)) return std::nullopt;
  for (const auto& entry : fs::directory_iterator(model, ignored)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".safetensors" || extension == ".gguf") return std::nullopt;
  }
  return (fs::path(model) / "config.json").string();
}

std::string display_name(const std::string& given, const std::string& resolved) {
  std::error_code ignored;
  if (!fs::exists(given, ignored) && !is_bundled_name(given)) return given;  // a name of the Hugging Face cache
  fs::path path = fs::absolute(resolved, ignored).lexically_normal();        // "config.json" and "." too have a folder
  if (path.filename().empty() || path.filename() == "config.json") path = path.parent_path();
  const std::string name = ends_with(path.string(), ".gguf") ? path.stem().string() : path.filename().string();
  return name.empty() ? "model" : name;
}

Result<std::unique_ptr<text::Tokenizer>> load_tokenizer_from(const std::string& given) {
  std::error_code ignored;
  std::string path = given;
  if (is_bundled_name(path)) {
    ULLAGE_TRY(path, find_data_file(std::string(kBundledModel) + ".gguf"));
  }
  const fs::path file = fs::is_directory(path, ignored) ? fs::path(path) / "tokenizer.json" : fs::path(path);
  if (file.extension() == ".json") {
    ULLAGE_TRY(const std::string text, read_text_file(file.string(), kMaxTokenizerBytes));
    std::string config_text;
    const fs::path config = file.parent_path() / "tokenizer_config.json";
    if (fs::exists(config, ignored)) {
      ULLAGE_TRY(config_text, read_text_file(config.string(), kMaxConfigBytes));
    }
    return text::load_tokenizer_json(text, config_text, file.string());
  }
  ULLAGE_TRY(const model::Checkpoint checkpoint, model::Checkpoint::open(path));
  return text::load_tokenizer(checkpoint);
}

Result<void> choose_chat_template(LoadedModel& loaded, const std::string& name, const std::string& jinja) {
  if (!name.empty()) {
    loaded.chat_template = text::ChatTemplate::named(name);
    if (!loaded.chat_template) return loaded.chat_template.error();
  } else if (!jinja.empty()) {
    loaded.chat_template = text::ChatTemplate::detect(jinja);
  } else {
    loaded.chat_template = Error{ErrorCode::kUnsupported,
                                 "the model has no chat template; use /v1/completions, or start with --chat-template "
                                 "chatml, llama2, llama3, mistral or gemma",
                                 ""};
  }
  return {};
}

}  // namespace

Result<ModelHeader> open_model(const std::string& name, bool allow_bare_config) {
  ModelHeader header;
  std::string path = name;
  if (is_bundled_name(path)) {
    ULLAGE_TRY(path, find_data_file(std::string(kBundledModel) + ".gguf"));
  }
  auto config = bare_config_path(path);
  if (!config) {
    if (const auto snapshot = model::find_cached_model(path, "")) config = bare_config_path(*snapshot);
  }
  if (!config) {
    ULLAGE_TRY(header.checkpoint, model::Checkpoint::open(path));
    header.shape = header.checkpoint->shape();
    header.root = header.checkpoint->path();
    return header;
  }
  if (!allow_bare_config) {
    return Error{ErrorCode::kInvalidArgument,
                 "has no weights (*.safetensors or *.gguf) beside its config.json; give a model with weights, or "
                 "--executor modelled to try the API without",
                 path};
  }
  ULLAGE_TRY(const std::string text, read_text_file(*config, kMaxConfigBytes));
  ULLAGE_TRY(header.shape, model::parse_config(text, *config));
  header.root = *config;
  return header;
}

Result<LoadedModel> load_model(const EngineArgs& args, const std::string& chat_template) {
  LoadedModel loaded;
  ULLAGE_TRY(static_cast<ModelHeader&>(loaded), open_model(args.model, args.executor == "modelled"));
  ULLAGE_TRY_VOID(model::check_servable(loaded.shape, loaded.root));
  std::string jinja;
  if (loaded.checkpoint) {
    loaded.generation = loaded.checkpoint->generation();
    jinja = loaded.checkpoint->chat_template();
  }
  loaded.name = display_name(args.model, loaded.root);

  if (!args.tokenizer.empty()) {
    ULLAGE_TRY(loaded.tokenizer, load_tokenizer_from(args.tokenizer));
  } else if (loaded.checkpoint) {
    ULLAGE_TRY(loaded.tokenizer, text::load_tokenizer(*loaded.checkpoint));
  } else {
    ULLAGE_TRY(loaded.tokenizer, load_tokenizer_from(kBundledModel));
  }
  ULLAGE_TRY_VOID(choose_chat_template(loaded, chat_template, jinja));
  // Without weights the text is filler anyway: any template shows a client the API.
  if (!loaded.checkpoint && !loaded.chat_template) loaded.chat_template = text::ChatTemplate::named("chatml");
  return loaded;
}

}  // namespace ullage::cli
