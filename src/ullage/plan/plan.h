// ullage::plan, the planner as a library: what a model's KV cache holds on a device, and how fast it will be.
//
//   model::ModelShape shape = *model::parse_config(json, "config.json");      // or name it from the catalogue
//   int64_t bytes = *plan::kv_bytes_per_token(shape, model::KvDType::kBF16);  // layer-exact
//   int64_t users = plan::max_concurrent(Bytes(50 * kGiB), bytes, 8192);      // requests of 8,192 tokens in 50 GiB
//
// and for a whole deployment fill in a plan::Scenario and call plan::evaluate (plan/evaluate.h).
#pragma once

#include <cstdint>

#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/model/kv_dtype.h"
#include "ullage/model/model_shape.h"
#include "ullage/plan/evaluate.h"
#include "ullage/plan/explain.h"
#include "ullage/plan/inverse.h"
#include "ullage/plan/load.h"
#include "ullage/plan/scenario.h"

namespace ullage::plan {

// Bytes that one more token adds to the cache, over all devices of a replica: of layers that keep every token. Windows,
// chunks and states add nothing once they are full: request_bytes has them.
Result<int64_t> kv_bytes_per_token(const model::ModelShape& shape, model::KvDType dtype);
// Bytes of one request of `num_tokens`, layer by layer, windows capped, states included, without rounding to blocks.
Result<int64_t> request_bytes(const model::ModelShape& shape, model::KvDType dtype, int64_t num_tokens);
// Whole requests of `tokens_each` that fit in `pool` at one rate a token. 0 for a pool that is empty or negative.
// REQUIRES: bytes_per_token >= 1, tokens_each >= 1.
int64_t max_concurrent(Bytes pool, int64_t bytes_per_token, int64_t tokens_each);
// The same from the shape: layer-exact, and with blocks of `block_size` tokens.
Result<int64_t> max_concurrent(const model::ModelShape& shape, model::KvDType dtype, Bytes pool, int64_t tokens_each,
                               int64_t block_size = 16);

}  // namespace ullage::plan
