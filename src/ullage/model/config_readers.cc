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
