// The one list of a model's matrices: model_shape.h's weight_matrices.
#include <utility>

#include <fmt/format.h>

#include "ullage/model/model_shape.h"

namespace ullage::model {
namespace {

// Collects the matrices of one layer, or those outside layers.
class Collector {
 public:
  Collector(const ModelShape& shape, std::vector<WeightMatrix>& out) : shape_(shape), out_(out) {}

  void set_layer(int64_t layer) { layer_ = layer; }

  void matrix(std::string name, WeightRole role, int64_t rows, int64_t columns, Split split, int64_t num_heads = 0) {
    add(std::move(name), role, rows, columns, split, num_heads, true);
  }
  void vector(std::string name, WeightRole role, int64_t size, Split split = Split::kReplicated,
              int64_t num_heads = 0) {
    add(std::move(name), role, size, 1, split, num_heads, false);
  }

 private:
  void add(std::string name, WeightRole role, int64_t rows, int64_t columns, Split split, int64_t num_heads,
           bool is_multiplied) {
    WeightMatrix matrix;
    matrix.role = role;
    matrix.layer = layer_;
    matrix.rows = rows;
    matrix.columns = columns;
    matrix.split = split;
    matrix.num_heads = num_heads;
    matrix.is_multiplied = is_multiplied;
    const std::string module = layer_ < 0 ? name : fmt::format("model.layers.{}.{}", layer_, name);
    matrix.name = std::move(name);
    matrix.format = format_of(shape_, module, role);
    out_.push_back(std::move(matrix));
  }

  const ModelShape& shape_;
  std::vector<WeightMatrix>& out_;
  int64_t layer_ = -1;
};

void add_attention(Collector& c, const Attention& attention, int64_t hidden) {
  const int64_t q_dim = attention.num_heads * attention.head_dim;
  const int64_t kv_dim = attention.num_kv_heads * attention.head_dim;
  constexpr WeightRole role = WeightRole::kAttention;
  c.matrix("self_attn.q_proj", role, q_dim, hidden, Split::kRows);
  c.matrix("self_attn.k_proj", role, kv_dim, hidden, Split::kKvHeads, attention.num_kv_heads);
  c.matrix("self_attn.v_proj", role, kv_dim, hidden, Split::kKvHeads, attention.num_kv_heads);
  c.matrix("self_attn.o_proj", role, hidden, q_dim, Split::kColumns);
  if (attention.has_qkv_bias) {
    c.vector("self_attn.q_proj.bias", role, q_dim, Split::kRows);
    c.vector("self_attn.k_proj.bias", role, kv_dim, Split::kKvHeads, attention.num_kv_heads);
    c.vector("self_attn.v_proj.bias", role, kv_dim, Split::kKvHeads, attention.num_kv_heads);
  }
  if (attention.has_output_bias) c.vector("self_attn.o_proj.bias", role, hidden);
  if (attention.has_qk_norm) {
    c.vector("self_attn.q_norm", WeightRole::kNorm, attention.head_dim);
    c.vector("self_attn.k_norm", WeightRole::kNorm, attention.head_dim);
  }
}

void add_dense(Collector& c, const DenseFfn& ffn, int64_t hidden) {
  constexpr WeightRole role = WeightRole::kFfn;
  if (ffn.is_gated) c.matrix("mlp.gate_proj", role, ffn.intermediate_size, hidden, Split::kRows);
  c.matrix("mlp.up_proj", role, ffn.intermediate_size, hidden, Split::kRows);
  c.matrix("mlp.down_proj", role, hidden, ffn.intermediate_size, Split::kColumns);
  if (ffn.has_bias) {
    if (ffn.is_gated) c.vector("mlp.gate_proj.bias", role, ffn.intermediate_size, Split::kRows);
    c.vector("mlp.up_proj.bias", role, ffn.intermediate_size, Split::kRows);
    c.vector("mlp.down_proj.bias", role, hidden);
  }
}

}  // namespace

std::vector<WeightMatrix> weight_matrices(const ModelShape& shape) {
  std::vector<WeightMatrix> out;
  Collector c(shape, out);
  const int64_t hidden = shape.hidden_size;
  c.matrix("model.embed_tokens", WeightRole::kEmbedding, shape.vocab_size, hidden, Split::kVocabulary);
  out.back().is_multiplied = false;
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    c.set_layer(static_cast<int64_t>(i));
    const LayerShape& layer = shape.layers[i];
    c.vector("input_layernorm", WeightRole::kNorm, hidden);
    if (const auto* attention = std::get_if<Attention>(&layer.mixer)) add_attention(c, *attention, hidden);
    c.vector("post_attention_layernorm", WeightRole::kNorm, hidden);
    if (const auto* dense = std::get_if<DenseFfn>(&layer.ffn)) add_dense(c, *dense, hidden);
  }
  c.set_layer(-1);
  c.vector("model.norm", WeightRole::kNorm, hidden);
  out.insert(out.end(), shape.other_weights.begin(), shape.other_weights.end());
  if (!shape.has_tied_embeddings) {
    c.matrix("lm_head", WeightRole::kOutputHead, shape.vocab_size, hidden, Split::kVocabulary);
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
