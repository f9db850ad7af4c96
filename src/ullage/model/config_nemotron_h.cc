// Nemotron-H and Nemotron 3: each layer is one block, a mixer or a feed-forward, by a pattern of letters or words.
#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/quote.h"
#include "ullage/model/config_decoder.h"
#include "ullage/model/config_readers.h"
#include "ullage/model/config_recurrent.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {
namespace {

constexpr ClassDefaults kNemotronH{131072, 4096, 21504, 0, 32, 8, 128, 4096};

// 'M' Mamba 2, '*' attention, '-' dense feed-forward, 'E' experts.
Result<std::string> letters_of(const ConfigFields& text, const char* letters_key,
                               std::initializer_list<const char*> words_keys) {
  std::string letters;
  if (text.has(letters_key)) {
    ULLAGE_TRY(letters, text.text(letters_key, ""));
    std::erase(letters, '|');  // marks the stages of a pipeline
    const size_t other = letters.find_first_not_of("M*-E");
    if (other == std::string::npos) return letters;
    return text.unsupported(
        fmt::format("the layer {} at {} is not supported; M, *, - and E are", quote(letters.substr(other, 1)), other),
        letters_key);
  }
  const char* key = text.first_of(words_keys);
  if (!text.has(key)) return letters;
  if (!text.is_list(key)) return text.invalid("expected a list with one word for each layer", key);
  const auto num_words = static_cast<int64_t>(text.object()[key].size());
  ULLAGE_TRY(const std::vector<std::string> words, text.texts(key, num_words));
  letters.reserve(words.size());
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "mamba" || word == "linear_attention") {
      letters += 'M';
    } else if (word == "attention" || word == "full_attention") {
      letters += '*';
    } else if (word == "mlp") {
      letters += '-';
    } else if (word == "moe") {
      letters += 'E';
    } else {
      return text.unsupported(
          fmt::format("the layer {} is not supported; mamba, attention, mlp and moe are", quote(word)),
          fmt::format("{}/{}", key, i));
    }
  }
  return letters;
}

Result<StateSpace> read_state(const ConfigFields& text) {
  StateSpace state;
  ULLAGE_TRY(state.num_heads, text.size("mamba_num_heads", 128, kMaxStateSize));
  ULLAGE_TRY(state.head_dim, text.size("mamba_head_dim", 64, kMaxHeadDim));
  ULLAGE_TRY(state.inner_size,
             check_size(state.num_heads * state.head_dim, kMaxIntermediateSize, text.at("mamba_num_heads")));
  ULLAGE_TRY(state.num_groups, text.size(text.first_of({"n_groups", "mamba_n_groups"}), 8, state.num_heads));
  ULLAGE_TRY(state.state_size, text.size("ssm_state_size", 128, kMaxStateSize));
  ULLAGE_TRY(state.conv_kernel, text.size(text.first_of({"conv_kernel", "mamba_d_conv"}), 4, kMaxConvKernel));
  ULLAGE_TRY(state.has_conv_bias, text.flag("use_conv_bias", true));
  ULLAGE_TRY(state.has_projection_bias, text.flag("use_bias", false));
  // As vLLM and the configuration class have it.
  ULLAGE_TRY(state.state_dtype, read_state_dtype(text, DType::kF32));
  return state;
}

Result<Attention> read_nemotron_attention(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  DecoderRules rules;
  rules.defaults = kNemotronH;
  rules.qkv_bias = {"attention_bias", false};
  rules.output_bias = {"attention_bias", false};
  // The first Nemotron-H wrote head_dim as attention_head_dim.
  if (text.has("attention_head_dim") && !text.has("head_dim")) {
    ULLAGE_TRY(rules.defaults.head_dim, text.size("attention_head_dim", 128, kMaxHeadDim));
  }
  ULLAGE_TRY(Attention attention, read_attention(source, rules, shape));
  attention.rope.rotary_dim = 0;  // no rotation: the states know the order
  return attention;
}

Result<MoeFfn> read_experts(const ConfigFields& text) {
  MoeFfn ffn;
  ULLAGE_TRY(ffn.num_experts, text.size(text.first_of({"n_routed_experts", "num_local_experts"}), 8, kMaxExperts));
  ULLAGE_TRY(ffn.num_experts_per_token, text.size("num_experts_per_tok", 2, ffn.num_experts));
  ULLAGE_TRY(ffn.intermediate_size, text.size("moe_intermediate_size", 7688, kMaxIntermediateSize));
  ULLAGE_TRY(const int64_t num_shared, text.count("n_shared_experts", 1, 64));
  if (num_shared > 0) {
    ULLAGE_TRY(const int64_t width, text.size("moe_shared_expert_intermediate_size", 7688, kMaxIntermediateSize));
    ffn.shared_intermediate_size = num_shared * width;
  }
  ULLAGE_TRY(ffn.latent_size, text.count("moe_latent_size", 0, kMaxHiddenSize));
  ULLAGE_TRY(ffn.has_bias, text.flag("mlp_bias", false));
  ffn.has_router_bias = true;
  ffn.is_gated = false;  // relu squared
  return ffn;
}

// One width, or one for each dense layer in turn.
Result<std::vector<int64_t>> read_widths(const ConfigFields& text, int64_t num_dense) {
  if (!text.is_list("intermediate_size")) {
    ULLAGE_TRY(const int64_t width,
               text.required("intermediate_size", kMaxIntermediateSize, kNemotronH.intermediate_size));
    return std::vector<int64_t>(static_cast<size_t>(num_dense), width);
  }
  ULLAGE_TRY(std::vector<int64_t> widths, text.integers("intermediate_size", -1, 1, kMaxIntermediateSize));
  if (widths.size() == 1) widths.assign(static_cast<size_t>(num_dense), widths[0]);
  if (static_cast<int64_t>(widths.size()) == num_dense) return widths;
  return text.invalid(fmt::format("has {} widths for {} dense layers", widths.size(), num_dense), "intermediate_size");
}

Result<std::vector<LayerShape>> make_layers(const ConfigSource& source, const std::string& letters, ModelShape& shape) {
  const ConfigFields& text = source.text;
  ULLAGE_TRY(const StateSpace state, read_state(text));
  ULLAGE_TRY(const Attention attention, read_nemotron_attention(source, shape));
  const int64_t num_dense = std::count(letters.begin(), letters.end(), '-');
  std::vector<int64_t> widths;
  MoeFfn experts;
  DenseFfn dense;
  dense.is_gated = false;
  ULLAGE_TRY(dense.has_bias, text.flag("mlp_bias", false));
  if (num_dense > 0) {
    ULLAGE_TRY(widths, read_widths(text, num_dense));
  }
  if (letters.find('E') != std::string::npos) {
    ULLAGE_TRY(experts, read_experts(text));
  }
  std::vector<LayerShape> layers;
  layers.reserve(letters.size());
  size_t next_width = 0;
  for (const char letter : letters) {
    switch (letter) {
      case 'M':
        layers.push_back({state, NoFfn{}});
        break;
      case '*':
        layers.push_back({attention, NoFfn{}});
        break;
      case 'E':
        layers.push_back({NoMixer{}, experts});
        break;
      default:
        dense.intermediate_size = widths[next_width++];
        layers.push_back({NoMixer{}, dense});
    }
  }
  return layers;
}

Result<void> read_draft(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  ULLAGE_TRY(const int64_t num_draft, text.count("num_nextn_predict_layers", 0, 16));
  if (num_draft == 0) return {};
  ULLAGE_TRY(std::string letters, letters_of(text, "mtp_hybrid_override_pattern", {"mtp_layers_block_type"}));
  if (letters.empty()) letters = "*E";
  std::string all;
  all.reserve(letters.size() * static_cast<size_t>(num_draft));
  for (int64_t i = 0; i < num_draft; ++i) all += letters;
  if (all.size() > static_cast<size_t>(kMaxLayers)) {
    return text.invalid(fmt::format("{} layers to predict with; {} are the most", all.size(), kMaxLayers),
                        "num_nextn_predict_layers");
  }
  ULLAGE_TRY(shape.draft_layers, make_layers(source, all, shape));
  return {};
}

}  // namespace

Result<void> read_nemotron_h(const ConfigSource& given, ModelShape& shape) {
  shape.architecture = "nemotron_h";
  ULLAGE_TRY(const std::string letters,
             letters_of(given.text, "hybrid_override_pattern", {"layers_block_type", "layer_types"}));
  if (letters.empty()) return given.text.missing("hybrid_override_pattern");
  // Nemotron 3 Ultra leaves num_hidden_layers to the list of its layers.
  Json completed = given.text.object();
  if (!given.text.has("num_hidden_layers")) completed["num_hidden_layers"] = letters.size();
  const ConfigFields text(completed, given.text.where(), given.text.may_omit());
  const ConfigSource source{given.file, text, given.model_type, given.root_type};
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kNemotronH, shape));
  if (num_layers != static_cast<int64_t>(letters.size())) {
    return text.invalid(fmt::format("is {}, but the pattern has {} layers", num_layers, letters.size()),
                        "num_hidden_layers");
  }
  ULLAGE_TRY(shape.layers, make_layers(source, letters, shape));
  return read_draft(source, shape);
}

}  // namespace ullage::model
