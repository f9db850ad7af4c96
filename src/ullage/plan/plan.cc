#include "ullage/plan/plan.h"

#include "ullage/base/check.h"
#include "ullage/memory/kv_layout.h"
#include "ullage/plan/request_bytes.h"

namespace ullage::plan {
namespace {

Result<RequestShape> shape_of_request(const model::ModelShape& shape, model::KvDType dtype) {
  const std::vector<memory::KvLayers> layers = collapse_layers(shape.layers);
  if (layers.empty()) {
    return Error{ErrorCode::kUnsupported, "no layer of the model keeps anything; there is no cache to plan", "MODEL"};
  }
  memory::KvLayoutOptions options;
  options.kv_dtype = dtype;
  // A layout is made for its checks alone: of overflow, and of what is not modelled.
  ULLAGE_TRY_VOID(memory::make_kv_layout(layers, options));
  return request_shape(layers, options);
}

}  // namespace

Result<int64_t> kv_bytes_per_token(const model::ModelShape& shape, model::KvDType dtype) {
  ULLAGE_TRY(const RequestShape request, shape_of_request(shape, dtype));
  return request.bytes_per_token;
}

Result<int64_t> request_bytes(const model::ModelShape& shape, model::KvDType dtype, int64_t num_tokens) {
  ULLAGE_TRY(const RequestShape request, shape_of_request(shape, dtype));
  return bytes_of(request, num_tokens);
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
  ULLAGE_TRY(const memory::KvLayout layout, memory::make_kv_layout(collapse_layers(shape.layers), options));
  const int64_t blocks = memory::num_blocks(layout, pool) - 1;  // the null block is nobody's
  const int64_t each = memory::blocks_per_request(layout, tokens_each, {.max_num_batched_tokens = 1});
  return blocks < 1 || each < 1 ? 0 : blocks / each;
}

}  // namespace ullage::plan
