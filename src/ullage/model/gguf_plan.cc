#include "ullage/model/gguf_plan.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ullage/base/quote.h"
#include "ullage/model/gguf_formats.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 24;

class Reader {
 public:
  Reader(const GgufFile& file, std::string architecture) : file_(file), prefix_(std::move(architecture) + ".") {}

  const GgufFile& file() const { return file_; }
  bool has(const char* key) const { return file_.find(prefix_ + key) != nullptr; }
  std::string where(const char* key) const { return file_.where(prefix_ + key); }

  // In [0, most]; a list has one value for each layer.
  Result<int64_t> size(const char* key, int64_t layer, int64_t fallback, int64_t most = kMaxSize) const {
    const GgufEntry* entry = file_.find(prefix_ + key);
    if (entry == nullptr) return fallback;
    int64_t value = 0;
    if (entry->type == GgufType::kArray) {
      ULLAGE_TRY(const std::vector<int64_t> values, file_.get_ints(prefix_ + key));
      if (values.empty() || (layer >= static_cast<int64_t>(values.size()))) {
        return Error{ErrorCode::kCorrupt, fmt::format("has {} values, none for layer {}", values.size(), layer),
                     where(key)};
      }
      value = values[static_cast<size_t>(std::max<int64_t>(layer, 0))];
    } else {
      ULLAGE_TRY(value, file_.get_int(prefix_ + key, fallback));
    }
    if (value >= 0 && value <= most) return value;
    return Error{ErrorCode::kInvalidArgument, fmt::format("is {}; 0 to {} was expected", value, most), where(key)};
  }
  Result<int64_t> needed(const char* key, int64_t layer, int64_t most = kMaxSize) const {
    ULLAGE_TRY(const int64_t value, size(key, layer, 0, most));
    if (value > 0) return value;
    return Error{ErrorCode::kCorrupt, "is missing or 0; the model cannot be planned for without it", where(key)};
  }
  const GgufTensor* tensor(int64_t layer, std::string_view name) const {
    return file_.find_tensor(fmt::format("blk.{}.{}.weight", layer, name));
  }
  // Rows of a matrix: its outputs. 0 when it is not there.
  int64_t rows(int64_t layer, std::string_view name) const {
    const GgufTensor* found = tensor(layer, name);
    return found == nullptr || found->dims.size() < 2 ? 0 : found->dims[1];
  }
  bool has_bias(int64_t layer, std::string_view name) const {
    return file_.find_tensor(fmt::format("blk.{}.{}.bias", layer, name)) != nullptr;
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

// Every n-th layer is full, the first or the last of each n; where the file has a window, but no pattern of its own.
struct WindowPattern {
  std::string_view architecture;
  int64_t full_every = 0;  // 0 = every layer has the window
  bool is_full_first = false;
  bool is_chunk = false;
};
constexpr WindowPattern kPatterns[] = {
    {"llama", 0},
    {"phi3", 0},
    {"starcoder2", 0},
    {"gemma2", 2},
    {"gemma3", 6},
    {"gemma3n", 5},
    {"gpt-oss", 2},
    {"cohere2", 4},
    {"olmo2", 4},
    {"exaone4", 4},
    {"llama4", 4, false, true},
    {"smallthinker", 4, true},
    {"mistral3", 0},
};

struct Local {
  int64_t window = 0;
  int64_t chunk = 0;
};

Result<Local> read_local(const Reader& reader, std::string_view architecture, int64_t layer) {
  ULLAGE_TRY(const int64_t chunk, reader.size("attention.chunk_size", layer, 0, kMaxPositions));
  ULLAGE_TRY(const int64_t window, reader.size("attention.sliding_window", layer, chunk, kMaxPositions));
  if (window == 0) return Local{};
  constexpr const char* kKey = "attention.sliding_window_pattern";
  if (reader.has(kKey)) {
    const GgufEntry* entry = reader.file().find(std::string(architecture) + "." + kKey);
    const bool is_list = entry->type == GgufType::kArray && entry->element_type == GgufType::kBool;
    bool is_local = false;
    if (is_list) {
      if (layer >= static_cast<int64_t>(entry->num_elements)) {
        return Error{ErrorCode::kCorrupt, fmt::format("has no value for layer {}", layer), reader.where(kKey)};
      }
      is_local = entry->data[static_cast<size_t>(layer)] != std::byte{0};
    } else {
      ULLAGE_TRY(const int64_t every, reader.size(kKey, layer, 0));
      is_local = every == 0 || (layer + 1) % every != 0;
    }
    return is_local ? Local{window, 0} : Local{};
  }
  const auto* pattern = std::find_if(std::begin(kPatterns), std::end(kPatterns),
                                     [&](const WindowPattern& each) { return each.architecture == architecture; });
  if (pattern == std::end(kPatterns)) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("the model has a window of {} tokens, but which layers of {} have it is not known", window,
                             quote(architecture)),
                 reader.where("attention.sliding_window")};
  }
  const int64_t every = pattern->full_every;
  const bool is_full = every > 0 && layer % every == (pattern->is_full_first ? 0 : every - 1);
  if (is_full) return Local{};
  return pattern->is_chunk ? Local{0, window} : Local{window, 0};
}

Result<Attention> read_attention(const Reader& reader, const ModelShape& shape, int64_t layer) {
  Attention attention;
  ULLAGE_TRY(attention.num_heads, reader.needed("attention.head_count", layer, kMaxHeads));
  ULLAGE_TRY(attention.num_kv_heads, reader.size("attention.head_count_kv", layer, attention.num_heads, kMaxHeads));
  ULLAGE_TRY(const Local local, read_local(reader, shape.architecture, layer));
  attention.sliding_window = local.window;
  attention.chunk = local.chunk;
  const bool is_local = local.window > 0 && reader.has("attention.key_length_swa");
  const int64_t fallback = std::max<int64_t>(1, shape.hidden_size / attention.num_heads);
  ULLAGE_TRY(attention.head_dim,
             reader.size(is_local ? "attention.key_length_swa" : "attention.key_length", layer, fallback, kMaxHeadDim));
  ULLAGE_TRY(attention.value_dim, reader.size(is_local ? "attention.value_length_swa" : "attention.value_length", layer,
                                              attention.head_dim, kMaxHeadDim));
  // The keys' own matrix says how many heads they have.
  const int64_t key_rows = reader.rows(layer, "attn_k");
  if (attention.num_kv_heads == 0 && attention.head_dim > 0) attention.num_kv_heads = key_rows / attention.head_dim;
  if (attention.num_kv_heads == 0 || attention.head_dim == 0 || attention.num_heads % attention.num_kv_heads != 0) {
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{} attention heads with {} KV heads of {} elements in layer {}", attention.num_heads,
                             attention.num_kv_heads, attention.head_dim, layer),
                 reader.where("attention.head_count_kv")};
  }
  ULLAGE_TRY(attention.rope.rotary_dim, reader.size("rope.dimension_count", layer, attention.head_dim, kMaxHeadDim));
  attention.has_qkv_bias = reader.has_bias(layer, "attn_q") || reader.has_bias(layer, "attn_qkv");
  attention.has_output_bias = reader.has_bias(layer, "attn_output");
  attention.has_qk_norm = reader.tensor(layer, "attn_q_norm") != nullptr;
  attention.has_sinks = reader.tensor(layer, "attn_sinks") != nullptr;
  attention.has_output_gate =
      reader.rows(layer, "attn_q") == 2 * attention.num_heads * attention.head_dim && reader.has("ssm.state_size");
  return attention;
}

Result<LatentAttention> read_latent(const Reader& reader, int64_t layer) {
  LatentAttention latent;
  ULLAGE_TRY(latent.num_heads, reader.needed("attention.head_count", layer, kMaxHeads));
  ULLAGE_TRY(latent.kv_lora_rank, reader.needed("attention.kv_lora_rank", layer, kMaxHiddenSize));
  ULLAGE_TRY(latent.q_lora_rank, reader.size("attention.q_lora_rank", layer, 0, kMaxHiddenSize));
  ULLAGE_TRY(latent.qk_rope_head_dim, reader.needed("rope.dimension_count", layer, kMaxHeadDim));
  // Newer files give the cache's widths as key_length and the heads' as key_length_mla.
  const bool is_new = reader.has("attention.key_length_mla");
  ULLAGE_TRY(const int64_t key, reader.needed(is_new ? "attention.key_length_mla" : "attention.key_length", layer));
  ULLAGE_TRY(latent.v_head_dim,
             reader.needed(is_new ? "attention.value_length_mla" : "attention.value_length", layer, kMaxHeadDim));
  latent.qk_nope_head_dim = key - latent.qk_rope_head_dim;
  if (latent.qk_nope_head_dim < 0 || key > kMaxHeadDim) {
    return Error{ErrorCode::kCorrupt,
                 fmt::format("keys of {} elements, {} of them rotated", key, latent.qk_rope_head_dim),
                 reader.where("rope.dimension_count")};
  }
  ULLAGE_TRY(const int64_t index_heads, reader.size("attention.indexer.head_count", layer, 0, kMaxHeads));
  if (index_heads > 0) {
    SparseIndexer indexer;
    indexer.num_heads = index_heads;
    ULLAGE_TRY(indexer.head_dim, reader.needed("attention.indexer.key_length", layer, kMaxHeadDim));
    ULLAGE_TRY(indexer.top_k, reader.needed("attention.indexer.top_k", layer));
    latent.indexer = indexer;
  }
  return latent;
}

// What llama.cpp calls ssm: Mamba 1 and 2, and the gated delta rule with its own meaning of the same keys.
Result<std::variant<LinearAttention, StateSpace>> read_state(const Reader& reader, std::string_view architecture,
                                                             int64_t layer) {
  ULLAGE_TRY(const int64_t kernel, reader.needed("ssm.conv_kernel", layer, 64));
  if (architecture == "kimi-linear") {
    LinearAttention linear;
    linear.kind = LinearAttention::Kind::kKimiDelta;
    ULLAGE_TRY(linear.num_key_heads, reader.needed("attention.head_count", layer, kMaxHeads));
    ULLAGE_TRY(linear.key_head_dim, reader.needed("kda.head_dim", layer, kMaxHeadDim));
    linear.num_value_heads = linear.num_key_heads;
    linear.value_head_dim = linear.key_head_dim;
    linear.conv_kernel = kernel;
    return linear;
  }
  ULLAGE_TRY(const int64_t inner, reader.needed("ssm.inner_size", layer, kMaxIntermediateSize));
  ULLAGE_TRY(const int64_t state_size, reader.needed("ssm.state_size", layer, 65536));
  ULLAGE_TRY(const int64_t rank, reader.needed("ssm.time_step_rank", layer, kMaxHiddenSize));
  ULLAGE_TRY(const int64_t groups, reader.size("ssm.group_count", layer, 0, 65536));
  const auto uneven = [&] {
    return Error{ErrorCode::kCorrupt, fmt::format("{} channels do not divide over {} heads", inner, rank),
                 reader.where("ssm.time_step_rank")};
  };
  if (architecture.starts_with("qwen3next") || architecture.starts_with("qwen35")) {
    if (groups == 0 || inner % rank != 0) return uneven();
    LinearAttention linear;
    linear.num_key_heads = groups;
    linear.key_head_dim = state_size;
    linear.num_value_heads = rank;
    linear.value_head_dim = inner / rank;
    linear.conv_kernel = kernel;
    return linear;
  }
  StateSpace state;
  state.inner_size = inner;
  state.state_size = state_size;
  state.conv_kernel = kernel;
  state.has_conv_bias = reader.has_bias(layer, "ssm_conv1d");
  if (reader.tensor(layer, "ssm_x") != nullptr) {
    state.time_step_rank = rank;
    return state;
  }
  if (inner % rank != 0) return uneven();
  state.num_heads = rank;
  state.head_dim = inner / rank;
  state.num_groups = std::max<int64_t>(groups, 1);
  return state;
}

Result<void> read_mixer(const Reader& reader, const ModelShape& shape, int64_t layer, LayerShape& out) {
  const bool has_state = reader.tensor(layer, "ssm_conv1d") != nullptr ||
                         reader.file().find_tensor(fmt::format("blk.{}.ssm_conv1d_q.weight", layer)) != nullptr;
  const bool has_heads = reader.tensor(layer, "attn_output") != nullptr;
  out.mixer = NoMixer{};
  if (reader.tensor(layer, "attn_kv_a_mqa") != nullptr) {
    ULLAGE_TRY(out.mixer, read_latent(reader, layer));
    return {};
  }
  if (reader.tensor(layer, "shortconv.conv") != nullptr) {
    LinearAttention conv;
    conv.kind = LinearAttention::Kind::kShortConvolution;
    conv.num_value_heads = 1;
    conv.value_head_dim = shape.hidden_size;
    ULLAGE_TRY(conv.conv_kernel, reader.needed("shortconv.l_cache", layer, 64));
    out.mixer = conv;
    return {};
  }
  if (has_state) {
    ULLAGE_TRY(const auto state, read_state(reader, shape.architecture, layer));
    const auto* space = std::get_if<StateSpace>(&state);
    if (has_heads && space != nullptr) {
      out.parallel_state_space = *space;
    } else {
      if (space != nullptr)
        out.mixer = *space;
      else
        out.mixer = std::get<LinearAttention>(state);
      return {};
    }
  }
  if (has_heads) {
    ULLAGE_TRY(out.mixer, read_attention(reader, shape, layer));
  }
  return {};
}

Result<void> read_ffn(const Reader& reader, int64_t layer, LayerShape& out) {
  out.ffn = NoFfn{};
  const int64_t expert_width = reader.rows(layer, "ffn_up_exps");
  const int64_t fused_width = reader.rows(layer, "ffn_gate_up_exps");
  const int64_t dense_width = reader.rows(layer, "ffn_up");
  const bool has_gate = reader.tensor(layer, "ffn_gate") != nullptr;
  if (expert_width > 0 || fused_width > 0) {
    MoeFfn ffn;
    ULLAGE_TRY(ffn.num_experts, reader.needed("expert_count", layer, kMaxExperts));
    ULLAGE_TRY(ffn.num_experts_per_token, reader.needed("expert_used_count", layer, ffn.num_experts));
    ffn.intermediate_size = expert_width > 0 ? expert_width : fused_width / 2;
    ffn.shared_intermediate_size = reader.rows(layer, "ffn_up_shexp");
    ffn.dense_intermediate_size = dense_width;
    ffn.has_shared_expert_gate = reader.tensor(layer, "ffn_gate_inp_shexp") != nullptr;
    ffn.has_router_bias = reader.has_bias(layer, "exp_probs_b");
    ffn.is_gated = fused_width > 0 || reader.tensor(layer, "ffn_gate_exps") != nullptr;
    ULLAGE_TRY_VOID(check_size(std::max({ffn.intermediate_size, ffn.shared_intermediate_size, dense_width}),
                               kMaxIntermediateSize, reader.where("expert_feed_forward_length")));
    out.ffn = ffn;
    return {};
  }
  if (dense_width == 0) return {};
  DenseFfn ffn;
  ULLAGE_TRY(ffn.intermediate_size, reader.size("feed_forward_length", layer, dense_width, kMaxIntermediateSize));
  if (ffn.intermediate_size == 0) ffn.intermediate_size = dense_width;
  // Gate and up in one matrix (Phi-3) have twice the width's rows.
  ffn.is_gated = has_gate || dense_width == 2 * ffn.intermediate_size;
  ffn.has_bias = reader.has_bias(layer, "ffn_up");
  ULLAGE_TRY_VOID(check_size(ffn.intermediate_size, kMaxIntermediateSize, reader.where("feed_forward_length")));
  out.ffn = ffn;
  return {};
}

// Layers without keys of their own read those of the last one before that has, and has the same window (Gemma 3n, 4).
Result<void> share_keys(const Reader& reader, ModelShape& shape) {
  ULLAGE_TRY(const int64_t num_shared, reader.size("attention.shared_kv_layers", 0, 0, kMaxLayers));
  const auto num_layers = static_cast<int64_t>(shape.layers.size());
  for (int64_t i = std::max<int64_t>(num_layers - num_shared, 0); i < num_layers && num_shared > 0; ++i) {
    auto* attention = std::get_if<Attention>(&shape.layers[static_cast<size_t>(i)].mixer);
    if (attention == nullptr) continue;
    for (int64_t j = num_layers - num_shared - 1; j >= 0; --j) {
      const auto* source = std::get_if<Attention>(&shape.layers[static_cast<size_t>(j)].mixer);
      if (source == nullptr || (source->sliding_window > 0) != (attention->sliding_window > 0)) continue;
      attention->kv_source_layer = j;
      break;
    }
  }
  return {};
}

Result<int64_t> read_vocab(const Reader& reader) {
  const GgufTensor* embedding = reader.file().find_tensor("token_embd.weight");
  if (embedding != nullptr && embedding->dims.size() == 2) {
    return check_size(embedding->dims[1], kMaxVocabSize, reader.file().where("token_embd.weight"));
  }
  return reader.needed("vocab_size", 0, kMaxVocabSize);
}

}  // namespace

Result<ModelShape> planning_shape_from_gguf(const GgufFile& file) {
  ULLAGE_TRY(const std::string_view architecture, file.get_string("general.architecture", ""));
  if (architecture.empty()) {
    return Error{ErrorCode::kCorrupt, "is missing: the file does not say what model it holds",
                 file.where("general.architecture")};
  }
  const Reader reader(file, std::string(architecture));
  ModelShape shape;
  shape.architecture = architecture;
  ULLAGE_TRY(const std::string_view name, file.get_string("general.name", ""));
  shape.name = name;
  ULLAGE_TRY(shape.vocab_size, read_vocab(reader));
  ULLAGE_TRY(shape.hidden_size, reader.needed("embedding_length", 0, kMaxHiddenSize));
  ULLAGE_TRY(shape.max_position_embeddings, reader.needed("context_length", 0, kMaxPositions));
  shape.has_tied_embeddings = file.find_tensor("output.weight") == nullptr;
  ULLAGE_TRY(const int64_t num_blocks, reader.needed("block_count", 0, kMaxLayers));
  ULLAGE_TRY(const int64_t num_draft, reader.size("nextn_predict_layers", 0, 0, num_blocks - 1));
  shape.layers.reserve(static_cast<size_t>(num_blocks));
  for (int64_t i = 0; i < num_blocks; ++i) {
    LayerShape layer;
    ULLAGE_TRY_VOID(read_mixer(reader, shape, i, layer));
    ULLAGE_TRY_VOID(read_ffn(reader, i, layer));
    if (std::holds_alternative<NoMixer>(layer.mixer) && std::holds_alternative<NoFfn>(layer.ffn)) {
      return Error{
          ErrorCode::kUnsupported,
          fmt::format("layer {} of {} has no tensors of a mixer or feed-forward that is known", i, quote(architecture)),
          file.where("general.architecture")};
    }
    (i < num_blocks - num_draft ? shape.layers : shape.draft_layers).push_back(layer);
  }
  ULLAGE_TRY_VOID(share_keys(reader, shape));
  ULLAGE_TRY(shape.quantization, gguf_quantization(file));
  shape.weight_dtype = gguf_plain_dtype(file);
  shape.unservable =
      Error{ErrorCode::kUnsupported, fmt::format("a GGUF of {} was read for planning only", quote(architecture)),
            file.where("general.architecture")};
  return shape;
}

}  // namespace ullage::model
