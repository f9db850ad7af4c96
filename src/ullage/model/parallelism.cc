#include "ullage/model/parallelism.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "ullage/base/units.h"

namespace ullage::model {
namespace {

// vLLM's vocab_parallel_embedding.py pads tables to a multiple of this before it divides them.
constexpr int64_t kVocabularyPadding = 64;
constexpr int64_t kMaxRanks = 1 << 20;

Error illegal(std::string message, const char* flag) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), flag};
}

// The sizes of TP up to 16 that divide `heads`, for the message.
std::string divisors(int64_t heads) {
  std::string text;
  for (int64_t n = 1; n <= std::min<int64_t>(heads, 16); ++n) {
    if (heads % n == 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", n);
  }
  return text;
}

Result<void> check_divides(int64_t size, int64_t ranks, const char* what, int64_t layer) {
  if (size % ranks == 0) return {};
  return illegal(
      fmt::format("{} {} of layer {} do not divide over {} ranks; {} would", size, what, layer, ranks, divisors(size)),
      "--tensor-parallel-size");
}

Result<void> check_attention_heads(const Attention& attention, int64_t ranks, int64_t layer) {
  ULLAGE_TRY_VOID(check_divides(attention.num_heads, ranks, "attention heads", layer));
  const int64_t kv = std::max<int64_t>(1, attention.num_kv_heads);
  if (kv % ranks == 0 || ranks % kv == 0) return {};
  return illegal(fmt::format("{} KV heads of layer {} neither divide over {} ranks nor can each be copied to as many; "
                             "{} would do, or a multiple of {}",
                             kv, layer, ranks, divisors(kv), kv),
                 "--tensor-parallel-size");
}

Result<void> check_state_space(const StateSpace& state, int64_t ranks, int64_t layer) {
  if (state.num_heads == 0) return check_divides(state.inner_size, ranks, "channels", layer);
  ULLAGE_TRY_VOID(check_divides(state.num_heads, ranks, "Mamba heads", layer));
  // One group is copied to every rank; more are divided.
  if (state.num_groups == 1) return {};
  return check_divides(state.num_groups, ranks, "Mamba groups", layer);
}

Result<void> check_mixer(const LayerShape& shape, int64_t ranks, int64_t layer) {
  if (shape.parallel_state_space) ULLAGE_TRY_VOID(check_state_space(*shape.parallel_state_space, ranks, layer));
  if (const auto* attention = std::get_if<Attention>(&shape.mixer)) {
    return check_attention_heads(*attention, ranks, layer);
  }
  if (const auto* latent = std::get_if<LatentAttention>(&shape.mixer)) {
    return check_divides(latent->num_heads, ranks, "attention heads", layer);
  }
  if (const auto* linear = std::get_if<LinearAttention>(&shape.mixer)) {
    ULLAGE_TRY_VOID(check_divides(linear->num_key_heads, ranks, "linear attention's key heads", layer));
    return check_divides(linear->num_value_heads, ranks, "linear attention's value heads", layer);
  }
  if (const auto* state = std::get_if<StateSpace>(&shape.mixer)) return check_state_space(*state, ranks, layer);
  return {};
}

// The part of an expert that a rank has when experts are not divided whole. Down projections have their inputs cut.
void cut_expert(const WeightMatrix& matrix, int64_t ranks, WeightMatrix& part) {
  const bool is_down = matrix.name.find("down_proj") != std::string::npos;
  const bool is_vector = matrix.columns == 1;
  if (is_down && !is_vector) part.columns = ceil_div(matrix.columns, ranks);
  if (!is_down) part.rows = ceil_div(matrix.rows, ranks);
}

}  // namespace

Result<void> check_parallelism(const ModelShape& shape, const Parallelism& parallelism) {
  const struct {
    int64_t size;
    const char* flag;
  } sizes[] = {{parallelism.tensor, "--tensor-parallel-size"},
               {parallelism.pipeline, "--pipeline-parallel-size"},
               {parallelism.data, "--data-parallel-size"},
               {parallelism.decode_context, "--decode-context-parallel-size"}};
  int64_t ranks = 1;
  for (const auto& [size, flag] : sizes) {
    if (size < 1 || size > kMaxRanks) return illegal(fmt::format("is {}; 1 to {} was expected", size, kMaxRanks), flag);
  }
  for (const int64_t size : {parallelism.tensor, parallelism.pipeline, parallelism.data}) {
    ranks *= size;
    if (ranks > kMaxRanks) return illegal(fmt::format("over {} devices", kMaxRanks), "--tensor-parallel-size");
  }
  const auto num_layers = static_cast<int64_t>(shape.layers.size());
  if (parallelism.pipeline > num_layers) {
    return illegal(fmt::format("{} stages, but the model has only {} layers; at most {} were expected",
                               parallelism.pipeline, num_layers, num_layers),
                   "--pipeline-parallel-size");
  }
  if (parallelism.tensor % parallelism.decode_context != 0) {
    return illegal(fmt::format("{} does not divide the {} ranks of tensor parallelism it works within",
                               parallelism.decode_context, parallelism.tensor),
                   "--decode-context-parallel-size");
  }
  for (int64_t i = 0; i < num_layers; ++i) {
    ULLAGE_TRY_VOID(check_mixer(shape.layers[static_cast<size_t>(i)], parallelism.tensor, i));
  }
  return {};
}

WeightMatrix rank_part(const WeightMatrix& matrix, const Parallelism& parallelism) {
  WeightMatrix part = matrix;
  const int64_t ranks = parallelism.tensor;
  switch (matrix.split) {
    case Split::kReplicated:
      break;
    case Split::kRows:
      part.rows = ceil_div(matrix.rows, ranks);
      break;
    case Split::kVocabulary: {
      const int64_t multiple = std::lcm(kVocabularyPadding, ranks);
      part.rows = ceil_div(matrix.rows, multiple) * multiple / ranks;
      break;
    }
    case Split::kColumns:
      part.columns = ceil_div(matrix.columns, ranks);
      break;
    case Split::kKvHeads: {
      const int64_t heads = std::max<int64_t>(1, matrix.num_heads);
      part.num_heads = std::max<int64_t>(1, heads / ranks);
      part.rows = matrix.rows / heads * part.num_heads;
      break;
    }
    case Split::kExperts: {
      // Experts span the replicas of data parallelism, whole or cut.
      const int64_t all = ranks * parallelism.data;
      if (parallelism.has_expert_parallel) {
        part.count = ceil_div(matrix.count, all);
      } else {
        cut_expert(matrix, all, part);
      }
      break;
    }
  }
  return part;
}

LayerRange stage_layers(int64_t num_layers, int64_t num_stages, int64_t stage) {
  // vLLM's get_pp_indices (vllm/distributed/utils.py): what is left over goes one each to the stages before the last.
  const int64_t each = num_layers / num_stages;
  const int64_t over = num_layers % num_stages;
  // Stages [num_stages - 1 - over, num_stages - 1) have one more.
  const auto begin_of = [&](int64_t s) {
    const int64_t first_larger = num_stages - 1 - over;
    return s * each + std::clamp<int64_t>(s - first_larger, 0, over);
  };
  return {begin_of(stage), stage + 1 == num_stages ? num_layers : begin_of(stage + 1)};
}

bool is_on_stage(const ModelShape& shape, const WeightMatrix& matrix, int64_t num_stages, int64_t stage) {
  const bool is_last = stage + 1 == num_stages;
  if (matrix.role == WeightRole::kDraft || matrix.role == WeightRole::kOutputHead) return is_last;
  if (matrix.role == WeightRole::kEmbedding) return stage == 0 || (is_last && shape.has_tied_embeddings);
  if (matrix.layer < 0) return matrix.role == WeightRole::kNorm ? is_last : stage == 0;
  const LayerRange range = stage_layers(static_cast<int64_t>(shape.layers.size()), num_stages, stage);
  return matrix.layer >= range.begin && matrix.layer < range.end;
}

}  // namespace ullage::model
