#include "ullage/model/loaded_weights.h"

#include <gtest/gtest.h>

#include "ullage/model/weight_formats.h"

namespace ullage::model {
namespace {

ModelShape with_rope(Rope rope, int64_t max_positions) {
  ModelShape shape;
  shape.max_position_embeddings = max_positions;
  Attention attention;
  attention.num_heads = 8;
  attention.num_kv_heads = 8;
  attention.head_dim = rope.rotary_dim;
  attention.rope = rope;
  shape.layers.assign(3, LayerShape{attention, DenseFfn{.intermediate_size = 8}});
  return shape;
}

// vLLM logs 14.9888 GiB of weights for Llama 3.1 8B: 14.9575 of parameters and 32 MiB of this table.
TEST(LoadedWeights, OneTableOfRotationsForAllLayersAlike) {
  Rope rope;
  rope.rotary_dim = 128;
  rope.scaling = RopeScaling::kLlama3;
  rope.factor = 8;
  EXPECT_EQ(rotary_table_bytes(with_rope(rope, 131072)), int64_t{32} << 20);
}

// Gemma 3: the global layers' table is 8 times as long, the windows' is not. 576 MiB of the 8.58 GiB of the 4B model.
TEST(LoadedWeights, LinearScalingMakesItsTableLonger) {
  Rope global;
  global.rotary_dim = 256;
  global.theta = 1e6;
  global.scaling = RopeScaling::kLinear;
  global.factor = 8;
  ModelShape shape = with_rope(global, 131072);
  Rope local;
  local.rotary_dim = 256;
  std::get<Attention>(shape.layers[0].mixer).rope = local;
  EXPECT_EQ(rotary_table_bytes(shape), int64_t{576} << 20);
}

TEST(LoadedWeights, YarnsTableIsAsLongAsItsContext) {
  Rope rope;
  rope.rotary_dim = 64;
  rope.scaling = RopeScaling::kYarn;
  rope.factor = 32;
  rope.original_max_positions = 4096;
  EXPECT_EQ(rotary_table_bytes(with_rope(rope, 131072)), int64_t{131072} * 64 * 2);
}

// gpt-oss-20b: vLLM 0.19 logs 13.72 GiB where the parameters take 12.82: experts of 2880 x 2880 become 2944 x 3072.
TEST(LoadedWeights, Mxfp4ExpertsArePaddedForTheirKernels) {
  WeightMatrix up;
  up.name = "mlp.experts.up_proj";
  up.role = WeightRole::kExperts;
  up.rows = 2880;
  up.columns = 2880;
  up.format = mxfp(4);
  EXPECT_EQ(as_loaded(up).rows, 2944);
  EXPECT_EQ(as_loaded(up).columns, 3072);
  up.name = "mlp.experts.down_proj";
  EXPECT_EQ(as_loaded(up).rows, 3072);
  EXPECT_EQ(as_loaded(up).columns, 2944);
  up.format = nvfp4(true);
  EXPECT_EQ(as_loaded(up).rows, 2880);
}

TEST(LoadedWeights, LatentAttentionKeepsItsUpProjectionTwice) {
  WeightMatrix matrix;
  matrix.name = "self_attn.kv_b_proj";
  matrix.rows = 4096;
  matrix.columns = 512;
  matrix.format = fp8_block(128, 128, 32);
  const auto copy = absorbed_copy(matrix, DType::kBF16);
  ASSERT_TRUE(copy);
  EXPECT_EQ(stored_bytes(*copy), int64_t{4096} * 512 * 2);
  matrix.name = "self_attn.o_proj";
  EXPECT_FALSE(absorbed_copy(matrix, DType::kBF16));
}

}  // namespace
}  // namespace ullage::model
