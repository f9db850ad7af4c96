// Attention over block tables: against a binary64 softmax, and bit for bit however queries and blocks are grouped.
#include <algorithm>
#include <cmath>

#include "tests/unit/cpu/cpu_test_util.h"
#include "ullage/cpu/kv_pool.h"

namespace ullage::cpu {
namespace {

using model::DType;

struct Setting {
  int64_t length = 600;  // positions; three partitions
  int64_t head_dim = 64;
  int64_t num_kv_heads = 2;
  int64_t group = 3;
  int64_t block_size = 16;
  int64_t window = 0;
  DType dtype = DType::kF32;
};

float rounded(float x, DType dtype) {
  if (dtype == DType::kBF16) return model::bf16_to_f32(model::f32_to_bf16(x));
  if (dtype == DType::kF16) return model::f16_to_f32(model::f32_to_f16(x));
  return x;
}

// A pool with one sequence in shuffled blocks; everything the sequence does not own holds NaN, which must never count.
struct World {
  Setting s;
  MemoryLedger ledger;
  KvPool pool;
  std::vector<BlockId> table;
  std::vector<float> q, k, v;  // [length, heads, head_dim]

  explicit World(const Setting& setting) : s(setting) {
    RandomStream random(11, static_cast<uint64_t>(s.head_dim));
    q = random_floats(random, s.length * s.num_kv_heads * s.group * s.head_dim);
    k = random_floats(random, s.length * s.num_kv_heads * s.head_dim);
    v = random_floats(random, s.length * s.num_kv_heads * s.head_dim);
    for (float& x : q) x *= 0.3f;
    const int64_t num_blocks = ceil_div(s.length, s.block_size);
    pool = *KvPool::create({1, num_blocks + 1, s.num_kv_heads, s.head_dim, s.block_size, s.dtype}, &ledger);
    const std::vector<float> nan(static_cast<size_t>(s.num_kv_heads * s.head_dim), std::nanf(""));
    for (int64_t b = 0; b <= num_blocks; ++b) {
      for (int64_t slot = 0; slot < s.block_size; ++slot)
        pool.write(0, BlockId(static_cast<int32_t>(b)), slot, nan.data(), nan.data());
    }
    for (int64_t b = 0; b < num_blocks; ++b) table.push_back(BlockId(static_cast<int32_t>(b + 1)));
    for (size_t i = table.size(); i > 1; --i) std::swap(table[i - 1], table[random.below(i)]);
    const int64_t row = s.num_kv_heads * s.head_dim;
    for (int64_t p = 0; p < s.length; ++p) {
      pool.write(0, table[static_cast<size_t>(p / s.block_size)], p % s.block_size, &k[static_cast<size_t>(p * row)],
                 &v[static_cast<size_t>(p * row)]);
    }
  }

  // out[count, group, head_dim] of the key head's queries at [first, first + count).
  std::vector<float> attend(const Kernels& kernels, int64_t kv_head, int64_t first, int64_t count) const {
    const int64_t q_row = s.num_kv_heads * s.group * s.head_dim;
    std::vector<float> scratch(static_cast<size_t>(attention_scratch_floats(s.group, s.head_dim)));
    const int64_t floats = attention_state_floats(s.head_dim);
    const int64_t rows = count * s.group;
    std::vector<float> running(static_cast<size_t>(rows * floats)), next(running.size());
    AttentionArgs args;
    args.q = q.data() + first * q_row + kv_head * s.group * s.head_dim;
    args.q_stride = q_row;
    args.num_tokens = count;
    args.group = s.group;
    args.head_dim = s.head_dim;
    args.first_position = first;
    args.window = s.window;
    args.block_table = table.data();
    args.keys = pool.keys(0, kv_head);
    args.values = pool.values(0, kv_head);
    args.block_bytes = pool.block_bytes();
    args.block_size = s.block_size;
    args.kv_dtype = s.dtype;
    args.scratch = scratch.data();
    const int64_t first_seen = s.window > 0 ? std::max<int64_t>(0, first + 1 - s.window) : 0;
    kernels.attend_partition(args, first_seen / kPartition, running.data());
    for (int64_t p = first_seen / kPartition + 1; p * kPartition < first + count; ++p) {
      kernels.attend_partition(args, p, next.data());
      for (int64_t i = 0; i < rows; ++i)
        kernels.merge_states(&running[static_cast<size_t>(i * floats)], &next[static_cast<size_t>(i * floats)],
                             s.head_dim);
    }
    std::vector<float> out(static_cast<size_t>(rows * s.head_dim));
    for (int64_t i = 0; i < rows; ++i)
      kernels.finish_state(&running[static_cast<size_t>(i * floats)], &out[static_cast<size_t>(i * s.head_dim)],
                           s.head_dim);
    return out;
  }

  std::vector<double> reference(int64_t kv_head, int64_t position, int64_t head) const {
    const int64_t kv_row = s.num_kv_heads * s.head_dim;
    const float* query =
        &q[static_cast<size_t>((position * s.num_kv_heads + kv_head) * s.group * s.head_dim + head * s.head_dim)];
    const int64_t first = s.window > 0 ? std::max<int64_t>(0, position + 1 - s.window) : 0;
    std::vector<double> weights;
    for (int64_t p = first; p <= position; ++p) {
      double score = 0;
      for (int64_t d = 0; d < s.head_dim; ++d) {
        score += static_cast<double>(query[d]) *
                 static_cast<double>(rounded(k[static_cast<size_t>(p * kv_row + kv_head * s.head_dim + d)], s.dtype));
      }
      weights.push_back(score);
    }
    const double top = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& w : weights) sum += w = std::exp(w - top);
    std::vector<double> out(static_cast<size_t>(s.head_dim));
    for (int64_t p = first; p <= position; ++p) {
      for (int64_t d = 0; d < s.head_dim; ++d) {
        out[static_cast<size_t>(d)] +=
            weights[static_cast<size_t>(p - first)] / sum *
            static_cast<double>(rounded(v[static_cast<size_t>(p * kv_row + kv_head * s.head_dim + d)], s.dtype));
      }
    }
    return out;
  }
};

class AttentionKernel : public testing::TestWithParam<const Kernels*> {};

TEST_P(AttentionKernel, MatchesABinary64Softmax) {
  std::vector<Setting> settings;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) settings.push_back({.dtype = dtype});
  settings.push_back({.head_dim = 8, .group = 1, .block_size = 4});
  settings.push_back({.head_dim = 80, .group = 7, .block_size = 32});
  settings.push_back({.window = 100});
  settings.push_back({.block_size = 48, .window = 300});
  settings.push_back({.length = 300, .head_dim = 20, .group = 30, .block_size = 1});
  for (const Setting& s : settings) {
    const World world(s);
    for (const int64_t position : {int64_t{0}, int64_t{3}, int64_t{17}, int64_t{255}, int64_t{256}, s.length - 1}) {
      const std::vector<float> out = world.attend(*GetParam(), 1, position, 1);
      for (int64_t h = 0; h < s.group; ++h) {
        const std::vector<double> exact = world.reference(1, position, h);
        for (int64_t d = 0; d < s.head_dim; ++d) {
          // Scores of magnitude up to 15 carry errors of about head_dim * 2^-24 * 15, which weights inherit; values are
          // below 6.
          const double bound = 6 * (static_cast<double>(s.head_dim) * 15 + 300) * 0x1p-24;
          EXPECT_NEAR(out[static_cast<size_t>(h * s.head_dim + d)], exact[static_cast<size_t>(d)], bound)
              << "position " << position << ", head_dim " << s.head_dim << ", block " << s.block_size << ", window "
              << s.window;
        }
      }
    }
  }
}

TEST_P(AttentionKernel, GivesTheSameBitsHoweverQueriesAndBlocksAreGrouped) {
  for (const int64_t window : {int64_t{0}, int64_t{100}}) {
    const World world({.window = window, .dtype = DType::kBF16});
    std::vector<float> alone;
    for (int64_t p = 0; p < world.s.length; ++p) {
      const std::vector<float> out = world.attend(*GetParam(), 0, p, 1);
      alone.insert(alone.end(), out.begin(), out.end());
    }
    for (const int64_t count : {2, 3, 5, 8}) {
      std::vector<float> grouped;
      for (int64_t p = 0; p < world.s.length; p += count) {
        const std::vector<float> out = world.attend(*GetParam(), 0, p, std::min(count, world.s.length - p));
        grouped.insert(grouped.end(), out.begin(), out.end());
      }
      EXPECT_TRUE(is_same_bits(alone, grouped)) << count << " queries together, window " << window;
    }
    for (const int64_t block_size : {1, 4, 24, 64}) {
      const World other({.block_size = block_size, .window = window, .dtype = DType::kBF16});
      EXPECT_TRUE(is_same_bits(other.attend(*GetParam(), 0, 599, 1), world.attend(*GetParam(), 0, 599, 1)))
          << block_size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, AttentionKernel, testing::ValuesIn(runnable_kernels()),
                         [](const auto& param) { return std::string(param.param->name); });

TEST(KvPool, CopiesTheFirstSlotsOnly) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    MemoryLedger ledger;
    KvPool pool = *KvPool::create({2, 3, 2, 8, 4, dtype}, &ledger);
    EXPECT_EQ(pool.pool_bytes(), 2 * 3 * 2 * (8 + 8) * 4 * (dtype == DType::kF32 ? 4 : 2));
    EXPECT_EQ(ledger.charged(MemoryRole::kKvPool), pool.pool_bytes());
    const auto filled = [](float x) { return std::vector<float>(16, x); };
    for (int64_t slot = 0; slot < 4; ++slot) {
      pool.write(1, BlockId(1), slot, filled(1.0f + static_cast<float>(slot)).data(),
                 filled(11.0f + static_cast<float>(slot)).data());
      pool.write(1, BlockId(2), slot, filled(-1.0f).data(), filled(-2.0f).data());
    }
    KvPool expected = *KvPool::create({2, 3, 2, 8, 4, dtype}, &ledger);
    for (int64_t slot = 0; slot < 4; ++slot) {
      expected.write(1, BlockId(1), slot, filled(1.0f + static_cast<float>(slot)).data(),
                     filled(11.0f + static_cast<float>(slot)).data());
      const bool is_copied = slot < 3;
      const float number = static_cast<float>(slot);
      expected.write(1, BlockId(2), slot, filled(is_copied ? 1.0f + number : -1.0f).data(),
                     filled(is_copied ? 11.0f + number : -2.0f).data());
    }
    pool.copy(1, BlockId(1), BlockId(2), 3);
    EXPECT_EQ(std::memcmp(pool.keys(0, 0), expected.keys(0, 0), static_cast<size_t>(pool.pool_bytes())), 0);
  }
}

}  // namespace
}  // namespace ullage::cpu
