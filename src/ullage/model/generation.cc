#include "ullage/model/generation.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/log.h"
#include "ullage/base/mapped_file.h"
#include "ullage/model/model_path.h"

namespace ullage::model {
namespace {

constexpr int64_t kMaxSideFileBytes = int64_t{64} << 20;  // tokenizer_config.json can list thousands of added tokens

// Ids outside the vocabulary are told and left out: some exporters write another model's ids.
bool is_token(int64_t id, int64_t vocab_size, std::string_view where) {
  if (id >= 0 && id < vocab_size) return true;
  log(LogLevel::kWarning,
      fmt::format("{}: token id {} is outside the vocabulary of {} and is ignored", where, id, vocab_size));
  return false;
}

void add_token(std::vector<TokenId>& tokens, int64_t id) {
  const auto token = static_cast<TokenId>(id);
  if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
}

Result<Json> read_object(const std::string& path) {
  if (!file_exists(path)) return Json::object();
  ULLAGE_TRY(const std::string text, read_text_file(path, kMaxSideFileBytes));
  ULLAGE_TRY(Json json, parse_json(text, path));
  if (!json.is_object()) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("expected an object, found {}", json.type_name()), path};
  }
  return json;
}

// eos_token_id: an integer or a list of them.
Result<void> read_eos(const Json& object, const std::string& path, int64_t vocab_size, GenerationDefaults& out) {
  const auto it = object.find("eos_token_id");
  if (it == object.end() || it->is_null()) return {};
  const std::string where = path + "/eos_token_id";
  const auto add = [&](const Json& value) -> Result<void> {
    if (!value.is_number_integer()) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("expected token ids, found {}", value.type_name()), where};
    }
    const auto id = value.get<int64_t>();
    if (is_token(id, vocab_size, where)) add_token(out.eos_token_ids, id);
    return {};
  };
  if (!it->is_array()) return add(*it);
  for (const Json& each : *it) ULLAGE_TRY_VOID(add(each));
  return {};
}

Result<void> read_bos(const Json& object, const std::string& path, int64_t vocab_size, GenerationDefaults& out) {
  ULLAGE_TRY(const int64_t id, get_int(object, "bos_token_id", -1, path));
  if (id != -1 && is_token(id, vocab_size, path + "/bos_token_id")) out.bos_token_id = static_cast<TokenId>(id);
  return {};
}

Result<double> get_in_range(const Json& object, const char* key, double fallback, double least, double most,
                            const std::string& path) {
  ULLAGE_TRY(const double value, get_double(object, key, fallback, path));
  if (std::isfinite(value) && value >= least && value <= most) return value;
  return Error{ErrorCode::kInvalidArgument, fmt::format("is {}; {} to {} was expected", value, least, most),
               fmt::format("{}/{}", path, key)};
}

Result<void> read_sampling(const Json& object, const std::string& path, GenerationDefaults& out) {
  ULLAGE_TRY(out.temperature, get_in_range(object, "temperature", out.temperature, 0, 1e6, path));
  ULLAGE_TRY(out.top_p, get_in_range(object, "top_p", out.top_p, 0, 1, path));
  ULLAGE_TRY(out.repetition_penalty,
             get_in_range(object, "repetition_penalty", out.repetition_penalty, 1e-6, 1e6, path));
  ULLAGE_TRY(out.top_k, get_int(object, "top_k", out.top_k, path));
  if (out.top_k < 0) out.top_k = 0;  // -1, as some write "all"
  return {};
}

}  // namespace

Result<GenerationDefaults> generation_from_gguf(const GgufFile& file, int64_t vocab_size) {
  GenerationDefaults defaults;
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    ULLAGE_TRY(const int64_t id, file.get_int(key, -1));
    if (file.find(key) != nullptr && is_token(id, vocab_size, file.where(key))) add_token(defaults.eos_token_ids, id);
  }
  const char* bos_key = "tokenizer.ggml.bos_token_id";
  ULLAGE_TRY(const int64_t bos, file.get_int(bos_key, -1));
  if (file.find(bos_key) != nullptr && is_token(bos, vocab_size, file.where(bos_key))) {
    defaults.bos_token_id = static_cast<TokenId>(bos);
  }
  return defaults;
}

Result<GenerationDefaults> generation_from_directory(const std::string& directory, int64_t vocab_size) {
  const std::string path = directory + "/generation_config.json";
  const std::string config_path = directory + "/config.json";
  ULLAGE_TRY(const Json generation, read_object(path));
  ULLAGE_TRY(const Json config, read_object(config_path));
  GenerationDefaults defaults;
  ULLAGE_TRY_VOID(read_eos(generation, path, vocab_size, defaults));
  if (defaults.eos_token_ids.empty()) ULLAGE_TRY_VOID(read_eos(config, config_path, vocab_size, defaults));
  ULLAGE_TRY_VOID(read_bos(generation, path, vocab_size, defaults));
  if (defaults.bos_token_id < 0) ULLAGE_TRY_VOID(read_bos(config, config_path, vocab_size, defaults));
  ULLAGE_TRY_VOID(read_sampling(generation, path, defaults));
  return defaults;
}

Result<std::string> chat_template_from_directory(const std::string& directory) {
  const std::string jinja_path = directory + "/chat_template.jinja";
  if (file_exists(jinja_path)) return read_text_file(jinja_path, kMaxSideFileBytes);
  const std::string path = directory + "/tokenizer_config.json";
  ULLAGE_TRY(const Json config, read_object(path));
  const auto it = config.find("chat_template");
  if (it == config.end() || it->is_null()) return std::string();
  if (it->is_string()) return it->get<std::string>();
  if (it->is_array()) {
    for (const Json& each : *it) {
      if (!each.is_object() || !each.contains("name") || each["name"] != "default") continue;
      return get_string(each, "template", "", path + "/chat_template");
    }
    return std::string();
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("expected a template's text or a list of named ones, found {}", it->type_name()),
               path + "/chat_template"};
}

}  // namespace ullage::model
