#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "ullage/base/mapped_file.h"
#include "ullage/model/checkpoint.h"
#include "ullage/text/tokenizer.h"
#include "ullage/text/tokenizer_gguf.h"
#include "ullage/text/tokenizer_json.h"

namespace ullage::text {
namespace {

constexpr int64_t kMaxTokenizerBytes = int64_t{128} << 20;  // Gemma's has 33 MB
constexpr int64_t kMaxConfigBytes = int64_t{16} << 20;

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const model::Checkpoint& checkpoint) {
  const std::vector<TokenId>& eos = checkpoint.generation().eos_token_ids;
  if (const model::GgufFile* const gguf = checkpoint.gguf()) return load_tokenizer_gguf(*gguf, eos);
  const std::string path = checkpoint.path() + "/tokenizer.json";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return Error{
        ErrorCode::kNotFound,
        "the model has no tokenizer.json; expected one beside its config.json (transformers' save_pretrained writes "
        "it, from a tokenizer.model too)",
        path};
  }
  ULLAGE_TRY(const std::string text, read_text_file(path, kMaxTokenizerBytes));
  const std::string config_path = checkpoint.path() + "/tokenizer_config.json";
  std::string config;
  if (std::filesystem::exists(config_path, error)) {
    ULLAGE_TRY(config, read_text_file(config_path, kMaxConfigBytes));
  }
  return load_tokenizer_json(text, config, path, eos);
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer_json(std::string_view text, std::string_view config_text,
                                                       std::string_view where) {
  return load_tokenizer_json(text, config_text, where, {});
}

}  // namespace ullage::text
