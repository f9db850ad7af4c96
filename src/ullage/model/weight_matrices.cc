// The one list of a model's matrices: model_shape.h's weight_matrices.
#include <string>

#include "ullage/model/model_shape.h"
#include "ullage/model/weight_collector.h"

namespace ullage::model {
namespace {

void collect_norms(WeightCollector& c, const NormStyle& style, const char* const (&names)[2]) {
  if (!style.has_weight) return;
  for (int64_t i = 0; i < style.num_per_block; ++i) {
    const std::string name = names[i > 0 ? 1 : 0];
    c.vector(name, WeightRole::kNorm, c.hidden());
    if (style.has_bias) c.vector(name + ".bias", WeightRole::kNorm, c.hidden());
  }
}

void collect_layer(WeightCollector& c, const ModelShape& shape, const LayerShape& layer) {
  const NormStyle& style = shape.norm;
  const bool has_mixer = !std::holds_alternative<NoMixer>(layer.mixer);
  if (has_mixer) collect_norms(c, style, {"input_layernorm", "post_attention_layernorm"});
  if (layer.cross_attention) collect_norms(c, style, {"encoder_attn_layer_norm", "encoder_attn_layer_norm"});
  collect_mixer(c, layer);
  if (std::holds_alternative<NoFfn>(layer.ffn)) return;
  if (!style.is_shared || !has_mixer) {
    if (style.num_per_block > 1) {
      collect_norms(c, style, {"pre_feedforward_layernorm", "post_feedforward_layernorm"});
    } else {
      collect_norms(c, style, {"post_attention_layernorm", "post_attention_layernorm"});
    }
  }
  collect_ffn(c, layer);
}

// Beside a draft layer's own: two norms, the projection that joins the last hidden state with the next token's
// embedding (DeepSeek-AI 2024, V3, section 2.2), and a norm before the shared output head.
void collect_draft_extras(WeightCollector& c) {
  for (const char* name : {"enorm", "hnorm", "shared_head.norm"}) c.vector(name, WeightRole::kNorm, c.hidden());
  c.matrix("eh_proj", WeightRole::kDraft, c.hidden(), 2 * c.hidden(), Split::kReplicated);
}

}  // namespace

std::vector<WeightMatrix> weight_matrices(const ModelShape& shape) {
  std::vector<WeightMatrix> out;
  out.reserve(16 * (shape.layers.size() + shape.draft_layers.size()) + shape.other_weights.size() + 8);
  WeightCollector c(shape, out);
  c.table("model.embed_tokens", WeightRole::kEmbedding, shape.vocab_size, shape.hidden_size, Split::kVocabulary);
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    c.set_layer(static_cast<int64_t>(i), false);
    collect_layer(c, shape, shape.layers[i]);
  }
  for (size_t i = 0; i < shape.draft_layers.size(); ++i) {
    c.set_layer(static_cast<int64_t>(i), true);
    collect_layer(c, shape, shape.draft_layers[i]);
    collect_draft_extras(c);
  }
  c.set_layer(-1, false);
  if (shape.norm.has_weight && shape.norm.has_final) {
    c.vector("model.norm", WeightRole::kNorm, shape.hidden_size);
    if (shape.norm.has_bias) c.vector("model.norm.bias", WeightRole::kNorm, shape.hidden_size);
  }
  out.insert(out.end(), shape.other_weights.begin(), shape.other_weights.end());
  if (!shape.has_tied_embeddings) {
    c.matrix("lm_head", WeightRole::kOutputHead, shape.vocab_size, shape.hidden_size, Split::kVocabulary);
  }
  if (shape.has_output_head_bias) {
    c.vector("lm_head.bias", WeightRole::kOutputHead, shape.vocab_size, Split::kVocabulary);
  }
  return out;
}

ParameterCounts count_parameters(const ModelShape& shape) {
  ParameterCounts counts;
  for (const WeightMatrix& matrix : weight_matrices(shape)) {
    const int64_t parameters = num_parameters(matrix);
    switch (matrix.role) {
      case WeightRole::kEmbedding:
        counts.embedding += parameters;
        break;
      case WeightRole::kOutputHead:
        counts.output_head += parameters;
        break;
      case WeightRole::kAttention:
        counts.attention += parameters;
        break;
      case WeightRole::kFfn:
      case WeightRole::kRouter:
      case WeightRole::kExperts:
      case WeightRole::kSharedExperts:
        counts.ffn += parameters;
        break;
      case WeightRole::kNorm:
        counts.norms += parameters;
        break;
      case WeightRole::kDraft:
        counts.draft += parameters;
        break;
      case WeightRole::kOther:
        counts.other += parameters;
        break;
    }
  }
  return counts;
}

}  // namespace ullage::model
