#include "ullage/plan/plan.h"

#include <vector>

#include "ullage/base/check.h"
#include "ullage/memory/kv_layout.h"

namespace ullage::plan {
namespace {

Result<std::vector<memory::KvLayers>> layers_of(const model::ModelShape& shape) {
  std::vector<memory::KvLayers> layers = memory::distinct_kv_layers(shape);
  if (!layers.empty()) return layers;
  return Error{ErrorCode::kUnsupported, "no layer of the model keeps anything; there is no cache to plan", "MODEL"};
}

}  // namespace

Result<int64_t> kv_bytes_per_token(const model::ModelShape& shape, model::KvDType dtype) {
  ULLAGE_TRY(const std::vector<memory::KvLayers> layers, layers_of(shape));
  return memory::kv_bytes_per_token(layers, {.kv_dtype = dtype});
}

Result<int64_t> request_bytes(const model::ModelShape& shape, model::KvDType dtype, int64_t num_tokens) {
  ULLAGE_TRY(const std::vector<memory::KvLayers> layers, layers_of(shape));
  ULLAGE_TRY(const memory::RequestBytes bytes, memory::request_bytes(layers, {.kv_dtype = dtype}, num_tokens));
  return bytes.total();
}

int64_t max_concurrent(Bytes pool, int64_t bytes_per_token, int64_t tokens_each) {
  ULLAGE_CHECK(bytes_per_token >= 1 && tokens_each >= 1);
  if (pool.value <= 0) return 0;
  return pool.value / bytes_per_token / tokens_each;
}

Result<int64_t> max_concurrent(const model::ModelShape& shape, model::KvDType dtype, Bytes pool, int64_t tokens_each,
                               int64_t block_size) {
  if (tokens_each < 1) {
    return Error{ErrorCode::kInvalidArgument, "a request has at least one token", "tokens_each"};
  }
  memory::KvLayoutOptions options;
  options.kv_dtype = dtype;
  options.block_size = block_size;
  ULLAGE_TRY(const std::vector<memory::KvLayers> layers, layers_of(shape));
  ULLAGE_TRY(const memory::KvLayout layout, memory::make_kv_layout(layers, options));
  const int64_t blocks = memory::num_blocks(layout, pool);
  return blocks < 1 ? 0 : memory::requests_that_fit(layout, blocks, tokens_each, {.max_num_batched_tokens = 1});
}

}  // namespace ullage::plan
