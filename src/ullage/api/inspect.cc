#include "ullage/api/inspect.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "ullage/base/ascii.h"
#include "ullage/base/json.h"
#include "ullage/base/units.h"

namespace ullage::api {
namespace {

using model::DType;

constexpr int64_t kSchemaVersion = 1;
constexpr const char* kRoleNames[] = {"embedding", "attention", "ffn", "norms", "output_head", "other"};
constexpr DType kKvDtypes[] = {DType::kBF16, DType::kF16, DType::kF32};

size_t role_index(model::TensorRole role) {
  using model::TensorRole;
  switch (role) {
    case TensorRole::kTokenEmbedding:
      return 0;
    case TensorRole::kQuery:
    case TensorRole::kKey:
    case TensorRole::kValue:
    case TensorRole::kQueryBias:
    case TensorRole::kKeyBias:
    case TensorRole::kValueBias:
    case TensorRole::kAttentionOutput:
    case TensorRole::kAttentionOutputBias:
      return 1;
    case TensorRole::kFfnGate:
    case TensorRole::kFfnUp:
    case TensorRole::kFfnDown:
      return 2;
    case TensorRole::kOutputNorm:
    case TensorRole::kAttentionNorm:
    case TensorRole::kQueryNorm:
    case TensorRole::kKeyNorm:
    case TensorRole::kFfnNorm:
      return 3;
    case TensorRole::kOutputHead:
      return 4;
    case TensorRole::kRopeFactors:
      return 5;
  }
  return 5;
}

// Layers that keep the same KV, in order of their first layer.
struct KvGroup {
  model::KvSpec spec;
  int64_t num_layers = 0;
};

std::vector<KvGroup> kv_groups(const model::ModelShape& shape) {
  std::vector<KvGroup> groups;
  for (const model::LayerShape& layer : shape.layers) {
    for (const model::KvSpec& spec : model::kv_specs(layer)) {
      const auto it =
          std::find_if(groups.begin(), groups.end(), [&](const KvGroup& group) { return group.spec == spec; });
      if (it == groups.end()) {
        groups.push_back(KvGroup{spec, 1});
      } else {
        ++it->num_layers;
      }
    }
  }
  return groups;
}

// Of the first layer that has one; nullptr when none has. Layers may differ: the groups of the KV cache tell.
const model::Attention* first_mixer(const model::ModelShape& shape) {
  for (const model::LayerShape& layer : shape.layers) {
    if (const auto* attention = std::get_if<model::Attention>(&layer.mixer)) return attention;
  }
  return nullptr;
}
const model::DenseFfn* first_dense(const model::ModelShape& shape) {
  for (const model::LayerShape& layer : shape.layers) {
    if (const auto* ffn = std::get_if<model::DenseFfn>(&layer.ffn)) return ffn;
  }
  return nullptr;
}

struct KvDescription {
  std::string kind;
  model::FullAttentionKv kv;  // of attention kinds
  int64_t window = 0;         // tokens kept at most; 0 = all
};

KvDescription describe(const model::KvSpec& spec) {
  if (const auto* full = std::get_if<model::FullAttentionKv>(&spec)) return {"full_attention", *full, 0};
  if (const auto* window = std::get_if<model::SlidingWindowKv>(&spec)) {
    return {"sliding_window", window->kv, window->window};
  }
  if (const auto* local = std::get_if<model::ChunkedLocalKv>(&spec)) return {"chunked_local", local->kv, local->chunk};
  if (const auto* latent = std::get_if<model::LatentKv>(&spec)) {
    return {"latent", model::FullAttentionKv{1, latent->latent_dim, latent->rope_dim}, 0};
  }
  if (std::holds_alternative<model::RecurrentState>(spec)) return {"recurrent_state", {}, 0};
  if (std::holds_alternative<model::SharedKv>(spec)) return {"shared", {}, 0};
  return {"none", {}, 0};
}

int64_t group_bytes_per_token(const KvGroup& group, DType dtype) {
  const KvDescription kv = describe(group.spec);
  return group.num_layers * kv.kv.num_kv_heads * (kv.kv.key_dim + kv.kv.value_dim) * model::info(dtype).block_bytes;
}

int64_t bytes_per_token(const std::vector<KvGroup>& groups, DType dtype) {
  int64_t sum = 0;
  for (const KvGroup& group : groups) sum += group_bytes_per_token(group, dtype);
  return sum;
}

// Weight bytes when only the shape is known: parameters in the stated dtype.
std::vector<RoleBytes> assumed_weights(const model::ModelShape& shape) {
  const model::ParameterCounts counts = model::count_parameters(shape);
  const int64_t parameters[] = {counts.embedding, counts.attention,   counts.ffn,
                                counts.norms,     counts.output_head, counts.other};
  const model::DTypeInfo& dtype = model::info(shape.weight_dtype);
  std::vector<RoleBytes> weights;
  for (size_t i = 0; i < std::size(parameters); ++i) {
    if (parameters[i] == 0) continue;
    weights.push_back(
        RoleBytes{kRoleNames[i], {dtype.name}, 0, parameters[i] / dtype.block_elements * dtype.block_bytes});
  }
  return weights;
}

const std::vector<RoleBytes>& stored_or(const InspectInput& input, std::vector<RoleBytes>& assumed) {
  if (!input.weights.empty()) return input.weights;
  assumed = assumed_weights(input.shape);
  return assumed;
}

int64_t total_bytes(const std::vector<RoleBytes>& weights) {
  int64_t sum = 0;
  for (const RoleBytes& role : weights) sum += role.bytes;
  return sum;
}

const char* scaling_name(model::RopeScaling scaling) {
  switch (scaling) {
    case model::RopeScaling::kNone:
      return "none";
    case model::RopeScaling::kLinear:
      return "linear";
    case model::RopeScaling::kLlama3:
      return "llama3";
    case model::RopeScaling::kYarn:
      return "yarn";
    case model::RopeScaling::kOther:
      return "other";
  }
  return "none";
}

Json attention_json(const model::Attention& attention) {
  Json json{{"num_heads", attention.num_heads},
            {"num_kv_heads", attention.num_kv_heads},
            {"head_dim", attention.head_dim},
            {"has_qkv_bias", attention.has_qkv_bias},
            {"has_qk_norm", attention.has_qk_norm},
            {"rope_theta", attention.rope.theta},
            {"rope_scaling", scaling_name(attention.rope.scaling)}};
  if (attention.rope.scaling != model::RopeScaling::kNone) json["rope_factor"] = attention.rope.factor;
  return json;
}

Json parameters_json(const model::ParameterCounts& counts) {
  return Json{{"total", counts.total()}, {"embedding", counts.embedding}, {"attention", counts.attention},
              {"ffn", counts.ffn},       {"norms", counts.norms},         {"output_head", counts.output_head}};
}

Json weights_json(const std::vector<RoleBytes>& weights, bool is_stored) {
  Json by_role = Json::object();
  for (const RoleBytes& role : weights) {
    Json entry{{"bytes", role.bytes}, {"dtypes", role.dtypes}};
    if (is_stored) entry["num_tensors"] = role.num_tensors;
    by_role[role.role] = std::move(entry);
  }
  return Json{{"basis", is_stored ? "stored" : "config"},
              {"total_bytes", total_bytes(weights)},
              {"by_role", std::move(by_role)}};
}

Json kv_json(const model::ModelShape& shape) {
  const std::vector<KvGroup> groups = kv_groups(shape);
  Json totals = Json::object();
  for (const DType dtype : kKvDtypes) totals[to_lower(model::info(dtype).name)] = bytes_per_token(groups, dtype);
  Json list = Json::array();
  for (const KvGroup& group : groups) {
    const KvDescription kv = describe(group.spec);
    Json per_token = Json::object();
    for (const DType dtype : kKvDtypes) {
      per_token[to_lower(model::info(dtype).name)] = group_bytes_per_token(group, dtype);
    }
    Json entry{{"kind", kv.kind},
               {"num_layers", group.num_layers},
               {"num_kv_heads", kv.kv.num_kv_heads},
               {"key_dim", kv.kv.key_dim},
               {"value_dim", kv.kv.value_dim}};
    if (kv.window > 0) entry["window"] = kv.window;
    entry["bytes_per_token"] = std::move(per_token);
    list.push_back(std::move(entry));
  }
  return Json{{"bytes_per_token", std::move(totals)}, {"groups", std::move(list)}};
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// Names come from the file: what a terminal would obey is not passed on.
std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

}  // namespace

std::vector<RoleBytes> weights_by_role(const model::Checkpoint& checkpoint) {
  using model::TensorRole;
  struct Sum {
    int64_t num_tensors = 0;
    int64_t bytes = 0;
    std::map<std::string, int64_t> by_dtype;
  };
  Sum sums[std::size(kRoleNames)];
  // Tensors that no role names (an unused head, for one) are "other": what is left of the file's list.
  std::map<std::string, size_t> role_of;
  const auto num_layers = static_cast<int64_t>(checkpoint.shape().layers.size());
  for (int role = 0; role <= static_cast<int>(TensorRole::kFfnDown); ++role) {
    const auto tensor_role = static_cast<TensorRole>(role);
    for (int64_t layer = 0; layer < std::max<int64_t>(num_layers, 1); ++layer) {
      const model::TensorView* tensor = checkpoint.tensor(tensor_role, layer);
      if (tensor != nullptr) role_of.emplace(tensor->name, role_index(tensor_role));
    }
  }
  for (const model::TensorView& tensor : checkpoint.tensors()) {
    const auto it = role_of.find(tensor.name);
    Sum& sum = sums[it == role_of.end() ? std::size(kRoleNames) - 1 : it->second];
    ++sum.num_tensors;
    sum.bytes += static_cast<int64_t>(tensor.data.size());
    sum.by_dtype[model::info(tensor.dtype).name] += static_cast<int64_t>(tensor.data.size());
  }
  std::vector<RoleBytes> weights;
  for (size_t i = 0; i < std::size(kRoleNames); ++i) {
    if (sums[i].num_tensors == 0) continue;
    std::vector<std::pair<std::string, int64_t>> dtypes(sums[i].by_dtype.begin(), sums[i].by_dtype.end());
    std::stable_sort(dtypes.begin(), dtypes.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    RoleBytes role{kRoleNames[i], {}, sums[i].num_tensors, sums[i].bytes};
    for (const auto& dtype : dtypes) role.dtypes.push_back(dtype.first);
    weights.push_back(std::move(role));
  }
  return weights;
}

std::string inspect(const InspectInput& input, int indent) {
  const model::ModelShape& shape = input.shape;
  std::vector<RoleBytes> assumed;
  const std::vector<RoleBytes>& weights = stored_or(input, assumed);
  Json json{{"schema_version", kSchemaVersion},
            {"tier", "exact"},
            {"path", input.path},
            {"architecture", shape.architecture},
            {"name", shape.name},
            {"num_layers", shape.layers.size()},
            {"hidden_size", shape.hidden_size},
            {"vocab_size", shape.vocab_size},
            {"max_position_embeddings", shape.max_position_embeddings},
            {"has_tied_embeddings", shape.has_tied_embeddings},
            {"weight_dtype", to_lower(model::info(shape.weight_dtype).name)}};
  if (const auto* attention = first_mixer(shape)) json["attention"] = attention_json(*attention);
  if (const auto* ffn = first_dense(shape)) json["intermediate_size"] = ffn->intermediate_size;
  json["parameters"] = parameters_json(model::count_parameters(shape));
  json["weights"] = weights_json(weights, !input.weights.empty());
  json["kv_cache"] = kv_json(shape);
  return dump_json(json, indent);
}

std::string inspect_text(const InspectInput& input) {
  const model::ModelShape& shape = input.shape;
  const model::ParameterCounts counts = model::count_parameters(shape);
  std::vector<RoleBytes> assumed;
  const std::vector<RoleBytes>& weights = stored_or(input, assumed);
  std::string text;
  const auto line = [&](std::string_view label, const std::string& value) {
    text += fmt::format("{:<22}{}\n", label, printable(value));
  };
  if (!input.path.empty()) line("model", input.path);
  line("architecture",
       shape.name.empty() ? shape.architecture : fmt::format("{} ({})", shape.architecture, shape.name));
  line("layers", fmt::format("{} of hidden size {}", shape.layers.size(), shape.hidden_size));
  if (const auto* attention = first_mixer(shape)) {
    line("attention",
         fmt::format("{} heads, {} KV heads, head_dim {}{}{}", attention->num_heads, attention->num_kv_heads,
                     attention->head_dim, attention->has_qkv_bias ? ", biases" : "",
                     attention->has_qk_norm ? ", QK-norm" : ""));
  }
  if (const auto* ffn = first_dense(shape)) line("feed-forward", fmt::format("{}", ffn->intermediate_size));
  line("vocabulary", format_thousands(shape.vocab_size) + (shape.has_tied_embeddings ? ", embeddings tied" : ""));
  line("max positions", format_thousands(shape.max_position_embeddings));
  line("parameters", format_thousands(counts.total()));
  text += "\n";
  line("weights", fmt::format("{}{}", format_bytes(Bytes(total_bytes(weights))),
                              input.weights.empty() ? fmt::format(" (all in {}: no weights were given)",
                                                                  model::info(shape.weight_dtype).name)
                                                    : ""));
  for (const RoleBytes& role : weights) {
    line("  " + role.role, fmt::format("{:>12}  {}", format_bytes(Bytes(role.bytes)), join(role.dtypes)));
  }
  text += "\n";
  const std::vector<KvGroup> groups = kv_groups(shape);
  for (const DType dtype : kKvDtypes) {
    const int64_t per_token = bytes_per_token(groups, dtype);
    line(fmt::format("KV per token, {}", model::info(dtype).name),
         fmt::format("{:>12}  {} for {} tokens", format_bytes(Bytes(per_token)),
                     format_bytes(Bytes(per_token * shape.max_position_embeddings)),
                     format_thousands(shape.max_position_embeddings)));
  }
  for (const KvGroup& group : groups) {
    const KvDescription kv = describe(group.spec);
    line("  " + kv.kind,
         fmt::format("{} layers of {} KV heads x ({} + {}){}", group.num_layers, kv.kv.num_kv_heads, kv.kv.key_dim,
                     kv.kv.value_dim, kv.window > 0 ? fmt::format(", the last {} tokens", kv.window) : ""));
  }
  return text;
}

}  // namespace ullage::api
