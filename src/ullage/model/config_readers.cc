#include "ullage/model/config_readers.h"

#include "ullage/model/config_recurrent.h"
#include "ullage/model/decoder_rules.h"

namespace ullage::model {
namespace {

struct Row {
  const char* model_type;
  ConfigReader read;
};

// Families with a reader of their own; the others are rows of decoder_rules.cc.
constexpr Row kReaders[] = {
    {"qwen3_next", read_qwen3_next},
    {"qwen3_5_text", read_qwen3_5},
    {"qwen3_5_moe_text", read_qwen3_5_moe},
    {"kimi_linear", read_kimi_linear},
    {"minimax", read_minimax_text},
    {"minimax_text_01", read_minimax_text},
    {"lfm2", read_lfm2},
    {"lfm2_moe", read_lfm2_moe},
    {"nemotron_h", read_nemotron_h},
    {"jamba", read_jamba},
    {"granitemoehybrid", read_granite_hybrid},
    {"bamba", read_bamba},
    {"falcon_h1", read_falcon_h1},
    {"mamba", read_mamba},
    {"falcon_mamba", read_mamba},
    {"mamba2", read_mamba2},
    {"deepseek_v4", refuse_deepseek_v4},
    {"deepseek_ref", refuse_deepseek_v4},
    {"zamba", refuse_zamba},
    {"zamba2", refuse_zamba},
    {"deepseek_v2", read_latent_decoder},
    {"deepseek_v3", read_latent_decoder},
    {"deepseek_v32", read_latent_decoder},
    {"kimi_k2", read_latent_decoder},
    {"glm_moe_dsa", read_latent_decoder},
    {"glm4_moe_lite", read_latent_decoder},
    {"gemma3n_text", read_gemma3n},
    {"gemma4_text", read_gemma4},
    {"gemma4_unified_text", read_gemma4},
    {"llama4_text", read_llama4},
    {"step3p5", read_step},
    {"laguna", read_laguna},
    {"mimo_v2_flash", read_mimo_v2},
    {"nemotron-nas", read_nas},
    {"deci", read_nas},
    {"gpt2", read_classic},
    {"gpt_bigcode", read_classic},
    {"gptj", read_classic},
    {"codegen", read_classic},
    {"gpt_neo", read_classic},
    {"gpt_neox", read_classic},
    {"opt", read_classic},
    {"bloom", read_classic},
    {"falcon", read_falcon},
    {"RefinedWeb", read_falcon},
    {"RefinedWebModel", read_falcon},
    {"mpt", read_mpt},
    {"chatglm", read_chatglm},
    {"whisper", read_whisper},
    {"bart", read_bart},
    {"mbart", read_bart},
    {"marian", read_bart},
    {"pegasus", read_bart},
    {"m2m_100", read_bart},
    {"t5", read_t5},
    {"mt5", read_t5},
    {"umt5", read_t5},
};

}  // namespace

ConfigReader find_config_reader(std::string_view model_type) {
  if (model_type.empty()) return nullptr;
  for (const Row& row : kReaders) {
    if (model_type == row.model_type) return row.read;
  }
  return find_decoder_rules(model_type) != nullptr ? read_decoder : nullptr;
}

}  // namespace ullage::model
