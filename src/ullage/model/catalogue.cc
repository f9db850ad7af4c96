#include "ullage/model/catalogue.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/ascii.h"
#include "ullage/base/check.h"
#include "ullage/base/json.h"
#include "ullage/base/near_names.h"
#include "ullage/base/quote.h"
#include "ullage/model/config.h"
#include "ullage/model/models_json.h"

namespace ullage::model {
namespace {

constexpr const char* kPlace = "data/models.json";

// Lower-case letters and digits; a point between digits stays, since 2.5-7B is not 25-7B, and a slash.
std::string name_key(std::string_view name) {
  std::string key;
  key.reserve(name.size());
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool is_point = c == '.' && i > 0 && i + 1 < name.size() && is_digit(name[i - 1]) && is_digit(name[i + 1]);
    if (is_letter_or_digit(c) || is_point || c == '/') key += to_lower(c);
  }
  return key;
}

std::vector<std::string> spellings(const CatalogueModel& model) {
  std::vector<std::string> all{name_key(model.id)};
  if (const size_t slash = all[0].find('/'); slash != std::string::npos) all.push_back(all[0].substr(slash + 1));
  all.reserve(all.size() + model.aliases.size());
  for (const std::string& alias : model.aliases) all.push_back(name_key(alias));
  return all;
}

Result<CatalogueModel> parse_entry(const Json& entry, const std::string& where) {
  CatalogueModel model;
  ULLAGE_TRY(model.id, get_string(entry, "id", "", where));
  if (name_key(model.id).empty()) {
    return Error{ErrorCode::kInvalidArgument, "a model needs an id such as \"Qwen/Qwen3-8B\"", where + "/id"};
  }
  ULLAGE_TRY(model.source, get_string(entry, "source", "", where));
  ULLAGE_TRY(model.parameters_billion, get_double(entry, "parameters_billion", 0, where));
  ULLAGE_TRY(model.kv_bytes_per_token, get_int(entry, "kv_bytes_per_token", 0, where));
  const auto aliases = entry.find("aliases");
  if (aliases == entry.end()) return model;
  if (!aliases->is_array()) return Error{ErrorCode::kInvalidArgument, "expected an array", where + "/aliases"};
  model.aliases.reserve(aliases->size());
  for (const Json& alias : *aliases) {
    if (!alias.is_string()) return Error{ErrorCode::kInvalidArgument, "expected strings", where + "/aliases"};
    model.aliases.push_back(alias.get<std::string>());
  }
  return model;
}

// The entry's config; under "shape_of" the other entry's with this one's keys over it.
Result<Json> whole_config(const Json& entry, const std::map<std::string, const Json*>& by_id,
                          const std::string& where) {
  const auto own = entry.find("config");
  if (own != entry.end() && !own->is_object()) {
    return Error{ErrorCode::kInvalidArgument, "expected an object", where + "/config"};
  }
  ULLAGE_TRY(const std::string base, get_string(entry, "shape_of", "", where));
  if (base.empty()) {
    if (own == entry.end()) {
      return Error{ErrorCode::kInvalidArgument, "has neither \"config\" nor \"shape_of\"", where};
    }
    return Json(*own);
  }
  const auto other = by_id.find(base);
  if (other == by_id.end() || !other->second->contains("config") || other->second->contains("shape_of")) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} is no entry that has a whole \"config\" of its own", quote(base)),
                 where + "/shape_of"};
  }
  Json config = (*other->second)["config"];
  if (!config.is_object()) return Error{ErrorCode::kInvalidArgument, "expected an object", where + "/shape_of"};
  if (own != entry.end()) config.update(*own);
  return config;
}

// A catalogue as JSON: each entry, and where to find one by its id.
struct Entries {
  Json list = Json::array();
  std::map<std::string, const Json*> by_id;  // into `list`
  std::string where;

  std::string place(size_t i) const { return fmt::format("{}#/models/{}", where, i); }
};

Result<void> read_entries(std::string_view json, std::string_view where, Entries* entries) {
  ULLAGE_TRY(Json root, parse_json(json, where, JsonLimits{.max_bytes = int64_t{16} << 20, .max_depth = 16}));
  const auto list = root.is_object() ? root.find("models") : root.end();
  if (!root.is_object() || list == root.end() || !list->is_array()) {
    return Error{ErrorCode::kInvalidArgument, "expected an object with an array \"models\"", std::string(where)};
  }
  entries->list = std::move(*list);
  entries->where = where;
  for (size_t i = 0; i < entries->list.size(); ++i) {
    const Json& entry = entries->list[i];
    if (!entry.is_object()) return Error{ErrorCode::kInvalidArgument, "a model is a JSON object", entries->place(i)};
    if (entry.contains("id") && entry["id"].is_string()) entries->by_id.emplace(entry["id"].get<std::string>(), &entry);
  }
  return {};
}

// The entry's config as text.
Result<std::string> config_text(const Entries& entries, size_t i) {
  ULLAGE_TRY(const Json config, whole_config(entries.list[i], entries.by_id, entries.place(i)));
  return dump_json(config);
}

}  // namespace

Result<std::vector<CatalogueModel>> parse_catalogue(std::string_view json, std::string_view where) {
  Entries entries;
  ULLAGE_TRY_VOID(read_entries(json, where, &entries));
  std::vector<CatalogueModel> models;
  models.reserve(entries.list.size());
  for (size_t i = 0; i < entries.list.size(); ++i) {
    ULLAGE_TRY(CatalogueModel model, parse_entry(entries.list[i], entries.place(i)));
    ULLAGE_TRY(model.config, config_text(entries, i));
    models.push_back(std::move(model));
  }
  return models;
}

std::vector<CatalogueModel> catalogue_models() {
  Result<std::vector<CatalogueModel>> models = parse_catalogue(kModelsJson, kPlace);
  ULLAGE_CHECK_MSG(models.has_value(), models ? "" : models.error().to_string());
  return *std::move(models);
}

Result<CatalogueModel> find_catalogue_model(std::string_view name, std::span<const CatalogueModel> models,
                                            std::string_view where) {
  const std::string wanted = name_key(name.substr(0, 200));
  std::vector<NamedThing> things;
  things.reserve(models.size());
  for (const CatalogueModel& model : models) {
    std::vector<std::string> names = spellings(model);
    if (std::find(names.begin(), names.end(), wanted) != names.end()) return model;
    things.push_back({model.id, std::move(names)});
  }
  // Of a name with an organisation that is not known, the rest tells what is near.
  const size_t slash = wanted.rfind('/');
  const std::string rest = slash == std::string::npos ? wanted : wanted.substr(slash + 1);
  return Error{ErrorCode::kNotFound,
               fmt::format("no model of the catalogue is called {}; near names are {} ({} models are known; `ullage "
                           "models` lists them)",
                           quote(name), near_names(rest, things), things.size()),
               std::string(where)};
}

Result<CatalogueModel> find_catalogue_model(std::string_view name, std::string_view where) {
  // Only the config of the one that is found is written out.
  Entries entries;
  ULLAGE_TRY_VOID(read_entries(kModelsJson, kPlace, &entries));
  std::vector<CatalogueModel> models;
  models.reserve(entries.list.size());
  for (size_t i = 0; i < entries.list.size(); ++i) {
    ULLAGE_TRY(CatalogueModel model, parse_entry(entries.list[i], entries.place(i)));
    models.push_back(std::move(model));
  }
  ULLAGE_TRY(CatalogueModel found, find_catalogue_model(name, models, where));
  for (size_t i = 0; i < models.size(); ++i) {
    if (models[i].id != found.id) continue;
    ULLAGE_TRY(found.config, config_text(entries, i));
    break;
  }
  return found;
}

Result<ModelShape> catalogue_shape(const CatalogueModel& model) {
  ULLAGE_TRY(ModelShape shape, parse_config(model.config, fmt::format("{}: {}", kPlace, model.id)));
  shape.name = model.id;
  return shape;
}

}  // namespace ullage::model
