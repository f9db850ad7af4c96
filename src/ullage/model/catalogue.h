// Shapes of well-known models by name, built in: what `ullage plan Qwen/Qwen3-8B` reads when no file is given.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/model/model_shape.h"

namespace ullage::model {

struct CatalogueModel {
  std::string id;  // "Qwen/Qwen3-8B": its name on the Hugging Face hub
  std::vector<std::string> aliases;
  std::string config;              // JSON text of the fields of config.json that size it, for parse_config
  double parameters_billion = 0;   // as its model card states; 0 = not stated
  int64_t kv_bytes_per_token = 0;  // bf16, of layers that keep keys and values; 0 = not stated
  std::string source;              // where the fields are from
};

// The catalogue, in order of its ids. Parsed at each call (a few milliseconds): keep the result.
std::vector<CatalogueModel> catalogue_models();

// Reads a catalogue's JSON (docs/models.md); `where` names it in errors.
Result<std::vector<CatalogueModel>> parse_catalogue(std::string_view json, std::string_view where);

// A model by a forgiving name: case and punctuation are ignored, and the organisation may be left out, so "qwen3-8b" is
// Qwen/Qwen3-8B. A copy by another organisation is not taken for it: its weights may be stored differently. An unknown
// name is kNotFound, with the nearest known names.
Result<CatalogueModel> find_catalogue_model(std::string_view name, std::string_view where = "MODEL");
Result<CatalogueModel> find_catalogue_model(std::string_view name, std::span<const CatalogueModel> models,
                                            std::string_view where = "MODEL");

// parse_config of its config; its name is the id.
Result<ModelShape> catalogue_shape(const CatalogueModel& model);

}  // namespace ullage::model
