// The catalogue of models, as JSON and as text. Everything here is arithmetic: tier "exact".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/model/catalogue.h"

namespace ullage::api {

// A model of the catalogue, counted.
struct ModelRow {
  model::CatalogueModel model;
  std::string refusal;  // why its layout is not modelled; then the figures below are 0
  std::string architecture;
  int64_t parameters = 0;
  int64_t kv_bytes_per_token = 0;       // bf16, of layers that keep every token, and windows that are not yet full
  int64_t fixed_bytes_per_request = 0;  // of recurrent layers
  int64_t max_position_embeddings = 0;
};

// Those whose id or an alias holds the text (case and punctuation ignored); all for an empty text.
std::vector<ModelRow> model_rows(std::string_view text);

std::string models_json(const std::vector<ModelRow>& rows, int indent = 2);
std::string models_text(const std::vector<ModelRow>& rows);

}  // namespace ullage::api
