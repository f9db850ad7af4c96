// What a model is and what its cache costs, as JSON and as text. Everything here is arithmetic: tier "exact".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ullage/model/checkpoint.h"
#include "ullage/model/model_shape.h"

namespace ullage::api {

// Stored bytes of the tensors of one role. Plain data: a checkpoint's, or whatever a caller knows.
struct RoleBytes {
  std::string role;                 // "embedding", "attention", "ffn", "norms", "output_head", "other"
  std::vector<std::string> dtypes;  // as stored: the most bytes first
  int64_t num_tensors = 0;
  int64_t bytes = 0;
};

struct InspectInput {
  model::ModelShape shape;
  std::string path;  // where it was read; may be empty
  std::vector<RoleBytes>
      weights;  // in order of role; empty for a bare config.json: bytes are then those of weight_dtype
};

// A checkpoint's bytes by role; roles in a fixed order, those without tensors left out. Every tensor is counted once.
std::vector<RoleBytes> weights_by_role(const model::Checkpoint& checkpoint);

// JSON text, one object, stable keys, "schema_version" first. `indent` as in dump_json.
std::string inspect(const InspectInput& input, int indent = 2);
// The same for people: several lines, each ended by a newline.
std::string inspect_text(const InspectInput& input);

}  // namespace ullage::api
