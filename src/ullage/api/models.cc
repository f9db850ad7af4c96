#include "ullage/api/models.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "ullage/base/ascii.h"
#include "ullage/base/json.h"
#include "ullage/base/units.h"
#include "ullage/model/kv_dtype.h"

namespace ullage::api {
namespace {

std::string key_of(std::string_view text) {
  std::string key;
  for (const char c : text) {
    if (is_letter_or_digit(c) || c == '.') key += to_lower(c);
  }
  return key;
}

bool is_like(const std::string& key, const model::CatalogueModel& model) {
  if (key_of(model.id).find(key) != std::string::npos) return true;
  return std::any_of(model.aliases.begin(), model.aliases.end(),
                     [&key](const std::string& alias) { return key_of(alias).find(key) != std::string::npos; });
}

int64_t attention_bytes(const model::FullAttentionKv& kv) {
  return kv.num_kv_heads * (model::kv_head_bytes(model::KvDType::kBF16, kv.key_dim) +
                            model::kv_head_bytes(model::KvDType::kBF16, kv.value_dim));
}

// What one spec adds to a request: bytes a token, and bytes whatever its length.
void add_spec(const model::KvSpec& spec, ModelRow* row) {
  if (const auto* full = std::get_if<model::FullAttentionKv>(&spec)) {
    row->kv_bytes_per_token += attention_bytes(*full);
  } else if (const auto* window = std::get_if<model::SlidingWindowKv>(&spec)) {
    row->kv_bytes_per_token += attention_bytes(window->kv);
  } else if (const auto* chunk = std::get_if<model::ChunkedLocalKv>(&spec)) {
    row->kv_bytes_per_token += attention_bytes(chunk->kv);
  } else if (const auto* latent = std::get_if<model::LatentKv>(&spec)) {
    row->kv_bytes_per_token += model::kv_head_bytes(model::KvDType::kBF16, latent->latent_dim + latent->rope_dim);
  } else if (const auto* state = std::get_if<model::RecurrentState>(&spec)) {
    row->fixed_bytes_per_request +=
        state->conv_channels * state->conv_width * model::info(state->conv_dtype).block_bytes +
        state->num_heads * state->state_elements * model::info(state->state_dtype).block_bytes;
  }
}

ModelRow count(model::CatalogueModel entry) {
  ModelRow row;
  row.model = std::move(entry);
  const Result<model::ModelShape> shape = model::catalogue_shape(row.model);
  if (!shape) {
    row.refusal = shape.error().message;
    return row;
  }
  row.architecture = shape->architecture;
  row.parameters = model::count_parameters(*shape).total();
  row.max_position_embeddings = shape->max_position_embeddings;
  for (const model::LayerShape& layer : shape->layers) {
    for (const model::KvSpec& spec : model::kv_specs(layer)) add_spec(spec, &row);
  }
  return row;
}

}  // namespace

std::vector<ModelRow> model_rows(std::string_view text) {
  const std::string key = key_of(text);
  std::vector<model::CatalogueModel> models = model::catalogue_models();
  std::vector<ModelRow> rows;
  rows.reserve(models.size());
  for (model::CatalogueModel& entry : models) {
    if (is_like(key, entry)) rows.push_back(count(std::move(entry)));
  }
  return rows;
}

std::string models_json(const std::vector<ModelRow>& rows, int indent) {
  Json list = Json::array();
  for (const ModelRow& row : rows) {
    Json entry{{"id", row.model.id}, {"aliases", row.model.aliases}};
    if (row.refusal.empty()) {
      entry["architecture"] = row.architecture;
      entry["parameters"] = row.parameters;
      entry["kv_bytes_per_token"] = row.kv_bytes_per_token;
      entry["fixed_bytes_per_request"] = row.fixed_bytes_per_request;
      entry["max_position_embeddings"] = row.max_position_embeddings;
    } else {
      entry["not_modelled"] = row.refusal;
    }
    entry["source"] = row.model.source;
    list.push_back(std::move(entry));
  }
  return dump_json(Json{{"schema_version", 1}, {"tier", "exact"}, {"models", std::move(list)}}, indent);
}

std::string models_text(const std::vector<ModelRow>& rows) {
  std::string text = fmt::format("{:<50}{:>12}{:>14}{:>14}{:>12}\n", "model", "parameters", "KV bytes/tok",
                                 "fixed/request", "context");
  for (const ModelRow& row : rows) {
    if (!row.refusal.empty()) {
      text += fmt::format("{:<50}  not modelled: {}\n", row.model.id, row.refusal);
      continue;
    }
    text += fmt::format("{:<50}{:>10.2f} B{:>14}{:>14}{:>12}\n", row.model.id,
                        static_cast<double>(row.parameters) / 1e9, format_thousands(row.kv_bytes_per_token),
                        row.fixed_bytes_per_request > 0 ? format_bytes(Bytes(row.fixed_bytes_per_request)) : "-",
                        format_thousands(row.max_position_embeddings));
  }
  text += fmt::format(
      "{} models. KV: bf16, every layer that keeps keys and values, before any window is full; fixed: states of "
      "recurrent "
      "layers.\nA name without its organisation will do: `ullage plan qwen3-8b`.\n",
      rows.size());
  return text;
}

}  // namespace ullage::api
