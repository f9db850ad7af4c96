#include "ullage/model/decoder_rules.h"

namespace ullage::model {
namespace {

// Other names of the same.
struct Alias {
  const char* model_type;
  const char* same_as;
};
constexpr Alias kAliases[] = {
    {"qwen2_5_vl_text", "qwen2_vl_text"},
    {"qwen2_5_omni_text", "qwen2_vl_text"},
    {"qwen2_5_omni_thinker_text", "qwen2_vl_text"},
    {"qwen3_omni_moe_text", "qwen3_vl_moe_text"},
    {"qwen3_omni_moe_thinker_text", "qwen3_vl_moe_text"},
    {"dots_ocr", "qwen2"},
    {"code_llama", "llama"},
    {"yi", "llama"},
    {"Yi", "llama"},
    {"aquila", "llama"},
    {"hunyuan", "hunyuan_v1_moe"},
    {"glm4v_text", "glm4"},
    {"glm4v_moe_text", "glm4_moe"},
    {"exaone4_text", "exaone4"},
};

}  // namespace

const DecoderRules* find_decoder_rules(std::string_view model_type) {
  for (const Alias& alias : kAliases) {
    if (model_type == alias.model_type) {
      model_type = alias.same_as;
      break;
    }
  }
  for (const std::span<const DecoderRules> table : {dense_decoder_rules(), sparse_decoder_rules()}) {
    for (const DecoderRules& rules : table) {
      if (model_type == rules.model_type) return &rules;
    }
  }
  return nullptr;
}

}  // namespace ullage::model
