#include "ullage/model/parallelism.h"

#include <gtest/gtest.h>

namespace ullage::model {
namespace {

ModelShape decoder(int64_t num_layers, int64_t num_heads, int64_t num_kv_heads) {
  ModelShape shape;
  shape.vocab_size = 1000;
  shape.hidden_size = 64 * num_heads;
  Attention attention;
  attention.num_heads = num_heads;
  attention.num_kv_heads = num_kv_heads;
  attention.head_dim = 64;
  shape.layers.assign(static_cast<size_t>(num_layers), LayerShape{attention, DenseFfn{.intermediate_size = 256}});
  return shape;
}

Parallelism tensor(int64_t n) {
  Parallelism parallelism;
  parallelism.tensor = n;
  return parallelism;
}

WeightMatrix matrix(Split split, int64_t rows, int64_t columns) {
  WeightMatrix matrix;
  matrix.split = split;
  matrix.rows = rows;
  matrix.columns = columns;
  return matrix;
}

// vLLM's get_pp_indices: 10 layers over 4 stages are 2, 3, 3, 2; the last has embedding-sized work of its own.
TEST(Parallelism, LayersLeftOverGoToTheStagesBeforeTheLast) {
  int64_t next = 0;
  for (const int64_t expected : {2, 3, 3, 2}) {
    const LayerRange range = stage_layers(10, 4, next == 0 ? 0 : next == 2 ? 1 : next == 5 ? 2 : 3);
    EXPECT_EQ(range.begin, next);
    EXPECT_EQ(range.end - range.begin, expected);
    next = range.end;
  }
  EXPECT_EQ(next, 10);
}

TEST(Parallelism, StagesCoverEveryLayerOnce) {
  for (int64_t layers = 1; layers <= 40; ++layers) {
    for (int64_t stages = 1; stages <= layers; ++stages) {
      int64_t next = 0;
      for (int64_t stage = 0; stage < stages; ++stage) {
        const LayerRange range = stage_layers(layers, stages, stage);
        ASSERT_EQ(range.begin, next) << layers << " over " << stages;
        ASSERT_GT(range.end, range.begin);
        next = range.end;
      }
      ASSERT_EQ(next, layers);
    }
  }
}

TEST(Parallelism, KvHeadsAreCopiedWhereThereAreFewerThanRanks) {
  WeightMatrix keys = matrix(Split::kKvHeads, 4 * 64, 512);
  keys.num_heads = 4;
  EXPECT_EQ(rank_part(keys, tensor(2)).rows, 2 * 64);
  EXPECT_EQ(rank_part(keys, tensor(4)).rows, 64);
  EXPECT_EQ(rank_part(keys, tensor(8)).rows, 64);
}

TEST(Parallelism, VocabulariesArePaddedTo64) {
  EXPECT_EQ(rank_part(matrix(Split::kVocabulary, 32001, 16), tensor(1)).rows, 32064);
  EXPECT_EQ(rank_part(matrix(Split::kVocabulary, 128256, 16), tensor(8)).rows, 16032);
  EXPECT_EQ(rank_part(matrix(Split::kVocabulary, 1000, 16), tensor(3)).rows, 384) << "a multiple of 192";
}

TEST(Parallelism, ExpertsAreDividedWholeOrCut) {
  WeightMatrix up = matrix(Split::kExperts, 768, 2048);
  up.name = "mlp.experts.up_proj";
  up.count = 128;
  WeightMatrix down = matrix(Split::kExperts, 2048, 768);
  down.name = "mlp.experts.down_proj";
  down.count = 128;
  Parallelism parallelism = tensor(2);
  parallelism.data = 2;
  // When cut: over tensor x data, outputs of up, inputs of down.
  EXPECT_EQ(rank_part(up, parallelism).rows, 192);
  EXPECT_EQ(rank_part(up, parallelism).count, 128);
  EXPECT_EQ(rank_part(down, parallelism).columns, 192);
  EXPECT_EQ(rank_part(down, parallelism).rows, 2048);
  parallelism.has_expert_parallel = true;
  EXPECT_EQ(rank_part(up, parallelism).count, 32);
  EXPECT_EQ(rank_part(up, parallelism).rows, 768);
}

TEST(Parallelism, SaysWhichSizesWouldBeLegal) {
  const ModelShape shape = decoder(4, 28, 4);
  EXPECT_TRUE(check_parallelism(shape, tensor(4)));
  const auto eight = check_parallelism(shape, tensor(8));
  ASSERT_FALSE(eight);
  EXPECT_EQ(eight.error().where, "--tensor-parallel-size");
  EXPECT_NE(eight.error().message.find("1, 2, 4, 7, 14"), std::string::npos) << eight.error().message;

  // 7 divides the 28 heads, but neither divides the 4 KV heads nor is a multiple of them.
  const auto seven = check_parallelism(shape, tensor(7));
  ASSERT_FALSE(seven);
  EXPECT_NE(seven.error().message.find("4 KV heads"), std::string::npos) << seven.error().message;

  Parallelism stages;
  stages.pipeline = 5;
  EXPECT_EQ(check_parallelism(shape, stages).error().where, "--pipeline-parallel-size");
  Parallelism none;
  none.data = 0;
  EXPECT_EQ(check_parallelism(shape, none).error().where, "--data-parallel-size");
  Parallelism context = tensor(4);
  context.decode_context = 3;
  EXPECT_EQ(check_parallelism(shape, context).error().where, "--decode-context-parallel-size");
}

TEST(Parallelism, EndsOfTheModelAreOnTheirStages) {
  ModelShape shape = decoder(4, 8, 8);
  WeightMatrix embedding = matrix(Split::kVocabulary, 1000, 512);
  embedding.role = WeightRole::kEmbedding;
  WeightMatrix last = matrix(Split::kRows, 8, 8);
  last.role = WeightRole::kFfn;
  last.layer = 3;
  EXPECT_TRUE(is_on_stage(shape, embedding, 2, 0));
  EXPECT_FALSE(is_on_stage(shape, embedding, 2, 1));
  EXPECT_FALSE(is_on_stage(shape, last, 2, 0));
  EXPECT_TRUE(is_on_stage(shape, last, 2, 1));
  shape.has_tied_embeddings = true;
  EXPECT_TRUE(is_on_stage(shape, embedding, 2, 1)) << "it is the output head too";
}

}  // namespace
}  // namespace ullage::model
