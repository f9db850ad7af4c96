// How config.json is read: one reader for each kind of model, found by model_type in one table (config_readers.cc).
// A new family is a function of this signature, in a file of its own or a row of families.cc, and a row of that table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ullage/base/result.h"
#include "ullage/model/config_fields.h"
#include "ullage/model/model_shape.h"

namespace ullage::model {

// What a reader sees.
struct ConfigSource {
  ConfigFields file;       // the whole config.json
  ConfigFields text;       // what describes the language model: the file itself, or its text_config
  std::string model_type;  // of `text`
  std::string root_type;   // of the file: that of the multimodal model when nested
  bool is_nested() const { return &file.object() != &text.object(); }
};

// Fills the shape: sizes, layers, draft layers. Quantisation and towers are read for all alike (config.cc).
using ConfigReader = Result<void> (*)(const ConfigSource& source, ModelShape& shape);

// nullptr when there is none.
ConfigReader find_config_reader(std::string_view model_type);

// Values of a family's configuration class, for keys that are absent. 0: there is no useful default.
struct ClassDefaults {
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;  // 0 = num_heads
  int64_t head_dim = 0;      // 0 = hidden_size / num_heads
  int64_t max_positions = 2048;
  bool is_tied = false;
};

// What nearly every file states alike: name, vocab_size, hidden_size, max_position_embeddings, the norm's epsilon, tied
// embeddings, dtype. Returns num_hidden_layers.
Result<int64_t> read_common(const ConfigSource& source, const ClassDefaults& defaults, ModelShape& shape);
// Of these the ones that are named alike even where sizes are not: name, epsilon, tied embeddings, dtype, activation.
Result<void> read_common_extras(const ConfigSource& source, const ClassDefaults& defaults, ModelShape& shape);
Result<int64_t> read_head_dim(const ConfigFields& text, int64_t class_default, int64_t hidden_size, int64_t num_heads);
Result<int64_t> read_num_kv_heads(const ConfigFields& text, int64_t class_default, int64_t num_heads);

// Why cpu/ cannot run the model although its shape is known: the first reason stays (model/servable.h).
void note_unservable(ModelShape& shape, Error reason);

}  // namespace ullage::model
