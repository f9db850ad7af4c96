#include "ullage/cpu/weights.h"

#include <fmt/format.h>

#include "ullage/model/dequant.h"

namespace ullage::cpu {
namespace {

using model::TensorRole;
using model::TensorView;

int64_t num_elements(const TensorView& tensor) {
  int64_t n = 1;
  for (const int64_t d : tensor.shape) n *= d;
  return n;
}

constexpr TensorRole kModelVectors[] = {TensorRole::kOutputNorm};
constexpr TensorRole kLayerVectors[] = {TensorRole::kAttentionNorm,       TensorRole::kQueryBias, TensorRole::kKeyBias,
                                        TensorRole::kValueBias,           TensorRole::kQueryNorm, TensorRole::kKeyNorm,
                                        TensorRole::kAttentionOutputBias, TensorRole::kFfnNorm};

// Hands out tensors, and remembers the first that is missing or misshapen.
class Loader {
 public:
  Loader(const model::Checkpoint& checkpoint, float* arena) : checkpoint_(checkpoint), next_(arena) {}

  static int64_t arena_floats(const model::Checkpoint& checkpoint) {
    int64_t floats = 0;
    const auto count = [&](TensorRole role, int64_t layer) {
      if (const TensorView* t = checkpoint.tensor(role, layer)) floats += padded_width(num_elements(*t));
    };
    for (const TensorRole role : kModelVectors) count(role, 0);
    for (size_t i = 0; i < checkpoint.shape().layers.size(); ++i) {
      for (const TensorRole role : kLayerVectors) count(role, static_cast<int64_t>(i));
    }
    return floats;
  }

  // Null when absent.
  const float* optional_vector(TensorRole role, int64_t layer, int64_t length) {
    const TensorView* tensor = checkpoint_.tensor(role, layer);
    if (tensor == nullptr) return nullptr;
    if (num_elements(*tensor) != length) {
      fail(fmt::format("tensor {} has {} elements; {} were expected", tensor->name, num_elements(*tensor), length));
      return nullptr;
    }
    float* vector = next_;
    model::dequantize_row(tensor->dtype, tensor->data.data(), vector, length);
    next_ += padded_width(length);
    return vector;
  }
  const float* vector(TensorRole role, int64_t layer, int64_t length) {
    const float* v = optional_vector(role, layer, length);
    if (v == nullptr) fail(fmt::format("layer {} lacks the tensor of role {}", layer, static_cast<int>(role)));
    return v;
  }

  Matrix matrix(TensorRole role, int64_t layer, int64_t rows, int64_t columns) {
    const TensorView* tensor = checkpoint_.tensor(role, layer);
    if (tensor == nullptr) {
      fail(fmt::format("layer {} lacks the matrix of role {}", layer, static_cast<int>(role)));
      return {};
    }
    if (tensor->shape != std::vector<int64_t>{rows, columns} ||
        columns % model::info(tensor->dtype).block_elements != 0) {
      fail(fmt::format("tensor {} does not have the expected shape [{}, {}]", tensor->name, rows, columns));
      return {};
    }
    mapped_bytes_ += static_cast<int64_t>(tensor->data.size());
    return Matrix{tensor->data.data(), tensor->dtype, rows, columns, model::row_bytes(tensor->dtype, columns)};
  }

  void fail(std::string message) {
    if (error_.message.empty()) error_ = Error{ErrorCode::kCorrupt, std::move(message), checkpoint_.path()};
  }
  const Error& error() const { return error_; }
  int64_t mapped_bytes() const { return mapped_bytes_; }

 private:
  const model::Checkpoint& checkpoint_;
  float* next_;
  int64_t mapped_bytes_ = 0;
  Error error_;
};

LayerWeights load_layer(const model::ModelShape& shape, int64_t index, Loader* loader) {
  const auto& layer = shape.layers[static_cast<size_t>(index)];
  const auto& attention = std::get<model::Attention>(layer.mixer);
  const int64_t hidden = shape.hidden_size;
  const int64_t q_dim = attention.num_heads * attention.head_dim;
  const int64_t kv_dim = attention.num_kv_heads * attention.head_dim;
  const int64_t inner = std::get<model::DenseFfn>(layer.ffn).intermediate_size;
  LayerWeights w;
  w.attention_norm = loader->vector(TensorRole::kAttentionNorm, index, hidden);
  w.query = loader->matrix(TensorRole::kQuery, index, q_dim, hidden);
  w.key = loader->matrix(TensorRole::kKey, index, kv_dim, hidden);
  w.value = loader->matrix(TensorRole::kValue, index, kv_dim, hidden);
  w.query_bias = loader->optional_vector(TensorRole::kQueryBias, index, q_dim);
  w.key_bias = loader->optional_vector(TensorRole::kKeyBias, index, kv_dim);
  w.value_bias = loader->optional_vector(TensorRole::kValueBias, index, kv_dim);
  w.query_norm = loader->optional_vector(TensorRole::kQueryNorm, index, attention.head_dim);
  w.key_norm = loader->optional_vector(TensorRole::kKeyNorm, index, attention.head_dim);
  w.attention_output = loader->matrix(TensorRole::kAttentionOutput, index, hidden, q_dim);
  w.output_bias = loader->optional_vector(TensorRole::kAttentionOutputBias, index, hidden);
  w.ffn_norm = loader->vector(TensorRole::kFfnNorm, index, hidden);
  w.gate = loader->matrix(TensorRole::kFfnGate, index, inner, hidden);
  w.up = loader->matrix(TensorRole::kFfnUp, index, inner, hidden);
  w.down = loader->matrix(TensorRole::kFfnDown, index, hidden, inner);
  return w;
}

std::vector<float> load_rope_divisors(const model::Checkpoint& checkpoint, const model::Rope& rope, Loader* loader) {
  const TensorView* tensor = checkpoint.tensor(TensorRole::kRopeFactors);
  if (tensor == nullptr) return {};
  if (num_elements(*tensor) != rope.rotary_dim / 2) {
    loader->fail(fmt::format("tensor {} has {} elements; {} were expected", tensor->name, num_elements(*tensor),
                             rope.rotary_dim / 2));
    return {};
  }
  std::vector<float> divisors(static_cast<size_t>(rope.rotary_dim / 2));
  model::dequantize_row(tensor->dtype, tensor->data.data(), divisors.data(), rope.rotary_dim / 2);
  return divisors;
}

bool is_same_rope(const model::Rope& a, const model::Rope& b) {
  return a.theta == b.theta && a.rotary_dim == b.rotary_dim && a.pairing == b.pairing && a.scaling == b.scaling &&
         a.factor == b.factor;
}

}  // namespace

Result<void> check_runnable(const model::ModelShape& shape) {
  const auto unsupported = [](std::string message) {
    return Error{ErrorCode::kUnsupported, std::move(message), "model"};
  };
  if (shape.layers.empty()) return unsupported("the model has no layers");
  const auto* first = std::get_if<model::Attention>(&shape.layers.front().mixer);
  const auto* first_ffn = std::get_if<model::DenseFfn>(&shape.layers.front().ffn);
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const auto* attention = std::get_if<model::Attention>(&shape.layers[i].mixer);
    const auto* ffn = std::get_if<model::DenseFfn>(&shape.layers[i].ffn);
    if (attention == nullptr || ffn == nullptr) {
      return unsupported(
          fmt::format("layer {} is not attention with a dense feed-forward, all that the CPU executor runs", i));
    }
    if (ffn->has_bias)
      return unsupported(fmt::format("layer {} has feed-forward biases, which the CPU executor lacks", i));
    if (attention->num_heads != first->num_heads || attention->num_kv_heads != first->num_kv_heads ||
        attention->head_dim != first->head_dim || !is_same_rope(attention->rope, first->rope) ||
        ffn->intermediate_size != first_ffn->intermediate_size) {
      return unsupported(
          fmt::format("layer {} differs in shape from layer 0; the CPU executor runs layers that are alike", i));
    }
    if (attention->sliding_window != first->sliding_window) {
      return unsupported(
          fmt::format("layer {} has a sliding window of {} and layer 0 of {}; the CPU executor keeps one kind "
                      "of layer",
                      i, attention->sliding_window, first->sliding_window));
    }
    if (attention->num_heads % attention->num_kv_heads != 0) {
      return unsupported(
          fmt::format("{} query heads cannot share {} key heads", attention->num_heads, attention->num_kv_heads));
    }
  }
  return {};
}

Result<Weights> load_weights(const model::Checkpoint& checkpoint, MemoryLedger* ledger) {
  const model::ModelShape& shape = checkpoint.shape();
  ULLAGE_TRY(float* arena, ledger->allocate_array<float>(MemoryRole::kRepacked, Loader::arena_floats(checkpoint)));
  Loader loader(checkpoint, arena);
  Weights w;
  w.embedding = loader.matrix(TensorRole::kTokenEmbedding, 0, shape.vocab_size, shape.hidden_size);
  w.head = checkpoint.tensor(TensorRole::kOutputHead) == nullptr
               ? w.embedding
               : loader.matrix(TensorRole::kOutputHead, 0, shape.vocab_size, shape.hidden_size);
  w.output_norm = loader.vector(TensorRole::kOutputNorm, 0, shape.hidden_size);
  for (size_t i = 0; i < shape.layers.size(); ++i)
    w.layers.push_back(load_layer(shape, static_cast<int64_t>(i), &loader));
  const model::Rope& rope = std::get<model::Attention>(shape.layers.front().mixer).rope;
  w.rope = rope_frequencies(rope, load_rope_divisors(checkpoint, rope, &loader));
  w.mapped_bytes = loader.mapped_bytes();
  if (!loader.error().message.empty()) return loader.error();
  return w;
}

}  // namespace ullage::cpu
