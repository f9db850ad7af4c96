// Invariant 8: bytes are charged to a named role, and the roles sum to what was allocated. Random geometries through
// the real executor; the pool's bytes are computed here from the model's shape, by hand.
#include <cstdint>
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "tests/property/random_session.h"
#include "ullage/memory/kv_layout.h"

namespace ullage::property {
namespace {

int64_t bytes_per_token(const model::ModelShape& shape, model::DType kv_dtype) {
  int64_t width = 0;
  for (const model::LayerShape& layer : shape.layers) {
    const auto& attention = std::get<model::Attention>(layer.mixer);
    width += 2 * attention.num_kv_heads * attention.head_dim;
  }
  return width * (kv_dtype == model::DType::kF32 ? 4 : 2);
}

class MemoryRoles : public testing::TestWithParam<const char*> {};

TEST_P(MemoryRoles, SumToWhatWasAllocated) {
  auto opened = model::Checkpoint::open(GetParam());
  ASSERT_TRUE(opened) << opened.error().to_string();
  const model::Checkpoint checkpoint = *std::move(opened);
  RandomStream random(8);
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Session s = draw_session(seed, checkpoint.shape());
    s.options.num_blocks = draw(random, 2, 300);
    const auto executor = make_executor(checkpoint, s.options, s.kv_dtype, s.num_threads, s.isa);
    ASSERT_NE(executor, nullptr);
    const cpu::CpuMemory& memory = executor->memory();
    EXPECT_EQ(memory.repacked_bytes + memory.kv_pool_bytes + memory.workspace_bytes, executor->allocated_bytes());
    const int64_t slots = s.options.num_blocks * s.options.block_size;
    EXPECT_EQ(memory.kv_pool_bytes, slots * bytes_per_token(checkpoint.shape(), s.kv_dtype));
    // What a plan of the same geometry counts is what the engine took.
    const auto layout = memory::make_kv_layout(
        checkpoint.shape(), {.block_size = s.options.block_size, .kv_dtype = model::to_kv_dtype(s.kv_dtype)});
    if (layout) {
      EXPECT_EQ(memory.kv_pool_bytes, s.options.num_blocks * layout->bytes_per_block);
    }
    // The other roles know nothing of the pool's size.
    s.options.num_blocks += draw(random, 1, 300);
    const auto larger = make_executor(checkpoint, s.options, s.kv_dtype, s.num_threads, s.isa);
    ASSERT_NE(larger, nullptr);
    EXPECT_EQ(larger->memory().workspace_bytes, memory.workspace_bytes);
    EXPECT_EQ(larger->memory().repacked_bytes, memory.repacked_bytes);
    EXPECT_EQ(larger->memory().weights_bytes, memory.weights_bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MemoryRoles,
                         testing::Values("data/stories260K.gguf", "tests/data/models/gguf/llama-q4_1.gguf",
                                         "tests/data/models/hf/qwen3-tied", "tests/data/models/hf/mistral-window"));

}  // namespace
}  // namespace ullage::property
