#include "ullage/model/config_sections.h"

#include <string>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/quote.h"
#include "ullage/model/families.h"

namespace ullage::model {
namespace {

// Multimodal models, by model_type: where the language model's section is (one or two keys deep; "" = the file itself,
// or text_config when there is one), and its model_type when the section does not say.
struct Wrapper {
  const char* model_type;
  const char* section;
  const char* inner_section;
  const char* text_type;
};
constexpr Wrapper kWrappers[] = {
    {"llava", "text_config", "", "llama"},
    {"llava_next", "text_config", "", "llama"},
    {"llava_onevision", "text_config", "", "qwen2"},
    {"mistral3", "text_config", "", "mistral"},
    {"gemma3", "text_config", "", "gemma3_text"},
    {"gemma3n", "text_config", "", "gemma3n_text"},
    {"gemma4", "text_config", "", "gemma4_text"},
    {"gemma4_unified", "text_config", "", "gemma4_unified_text"},
    {"qwen2_vl", "", "", "qwen2_vl_text"},
    {"qwen2_5_vl", "", "", "qwen2_5_vl_text"},
    {"qwen3_vl", "text_config", "", "qwen3_vl_text"},
    {"qwen3_vl_moe", "text_config", "", "qwen3_vl_moe_text"},
    {"qwen2_5_omni", "thinker_config", "text_config", "qwen2_5_omni_text"},
    {"qwen3_omni_moe", "thinker_config", "text_config", "qwen3_omni_moe_text"},
    {"qwen3_5", "text_config", "", "qwen3_5_text"},
    {"qwen3_5_moe", "text_config", "", "qwen3_5_moe_text"},
    {"kimi_k25", "text_config", "", "kimi_k2"},
    {"kimi_vl", "text_config", "", "deepseek_v3"},
    {"internvl", "text_config", "", "qwen2"},
    {"internvl_chat", "llm_config", "", "qwen2"},
    {"llama4", "text_config", "", "llama4_text"},
    {"paligemma", "text_config", "", "gemma"},
    {"glm4v", "text_config", "", "glm4v_text"},
    {"glm4v_moe", "text_config", "", "glm4v_moe_text"},
    {"step3p7", "", "", "step3p5"},
};

const Wrapper* find_wrapper(std::string_view model_type) {
  for (const Wrapper& wrapper : kWrappers) {
    if (model_type == wrapper.model_type) return &wrapper;
  }
  return nullptr;
}

}  // namespace

Result<ConfigSource> find_text_section(const ConfigFields& file) {
  ULLAGE_TRY(const std::string model_type, file.text("model_type", ""));
  if (model_type.empty()) return file.invalid("has no \"model_type\"; is it a model's config.json?");
  const Wrapper* wrapper = find_wrapper(model_type);
  if (wrapper == nullptr) {
    // A text model that happens to have sections of other names is its own section.
    if (find_config_reader(model_type) == nullptr) return unsupported_architecture(model_type, file.at("model_type"));
    return ConfigSource{file, file, model_type, model_type};
  }
  const std::string_view section = wrapper->section;
  const char* key = section.empty() ? "text_config" : wrapper->section;
  if (section.empty() && !file.has(key)) return ConfigSource{file, file, wrapper->text_type, model_type};
  if (!file.has(key)) return file.missing(key);
  ULLAGE_TRY(ConfigFields text, file.section(key, true));
  if (*wrapper->inner_section != '\0') {
    if (!text.has(wrapper->inner_section)) return text.missing(wrapper->inner_section);
    ULLAGE_TRY(const ConfigFields inner, text.section(wrapper->inner_section, true));
    ULLAGE_TRY(const std::string inner_type, inner.text("model_type", wrapper->text_type));
    return ConfigSource{file, inner, inner_type, model_type};
  }
  ULLAGE_TRY(const std::string text_type, text.text("model_type", wrapper->text_type));
  return ConfigSource{file, text, text_type, model_type};
}

}  // namespace ullage::model
