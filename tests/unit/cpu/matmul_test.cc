// Matrix products of every stored format: against binary64 sums, and bit for bit however tokens and rows are grouped.
#include <cmath>
#include <tuple>

#include "tests/unit/cpu/cpu_test_util.h"
#include "ullage/model/dequant.h"

namespace ullage::cpu {
namespace {

using model::DType;

constexpr DType kAllDTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
                                DType::kQ5_0, DType::kQ5_1, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

bool is_plain(DType dtype) { return model::info(dtype).block_elements == 1; }

// Random stored bytes whose numbers are of ordinary size: the f16 fields of a block get sane values.
std::vector<std::byte> random_matrix(RandomStream& random, DType dtype, int64_t rows, int64_t columns) {
  std::vector<std::byte> data(static_cast<size_t>(rows * model::row_bytes(dtype, columns)));
  const auto put16 = [&](size_t at, uint16_t half) { std::memcpy(&data[at], &half, 2); };
  const auto block_bytes = static_cast<size_t>(model::info(dtype).block_bytes);
  for (std::byte& b : data) b = static_cast<std::byte>(random.below(256));
  for (size_t at = 0; at < data.size(); at += block_bytes) {
    const float scale = 0.01f * random_normal(random);
    switch (dtype) {
      case DType::kF32: {
        const float value = random_normal(random);
        std::memcpy(&data[at], &value, 4);
        break;
      }
      case DType::kF16:
        put16(at, model::f32_to_f16(random_normal(random)));
        break;
      case DType::kBF16:
        put16(at, model::f32_to_bf16(random_normal(random)));
        break;
      case DType::kQ8_0:
      case DType::kQ4_0:
      case DType::kQ5_0:
        put16(at, model::f32_to_f16(scale));
        break;
      case DType::kQ6_K:
        put16(at + 208, model::f32_to_f16(scale));
        break;
      default:  // Q4_1, Q5_1, Q4_K, Q5_K: a scale, then a minimum
        put16(at, model::f32_to_f16(scale));
        put16(at + 2, model::f32_to_f16(0.1f * random_normal(random)));
        break;
    }
  }
  return data;
}

struct Problem {
  Matrix matrix;
  std::vector<std::byte> data;
  std::vector<float> x;  // [tokens, padded_width(columns)]
  int64_t tokens = 0;

  Problem(DType dtype, int64_t rows, int64_t columns, int64_t num_tokens) : tokens(num_tokens) {
    RandomStream random(static_cast<uint64_t>(rows * 1000 + columns), static_cast<uint64_t>(dtype));
    data = random_matrix(random, dtype, rows, columns);
    data.insert(data.begin(), std::byte{0});  // an odd address, as in a file
    matrix = Matrix{data.data() + 1, dtype, rows, columns, model::row_bytes(dtype, columns)};
    const int64_t width = padded_width(columns);
    x.assign(static_cast<size_t>(num_tokens * width), 0.0f);
    for (int64_t t = 0; t < num_tokens; ++t) {
      for (int64_t k = 0; k < columns; ++k) x[static_cast<size_t>(t * width + k)] = random_normal(random);
    }
  }

  // out[tokens, rows] of tokens [t_begin, t_end) and rows [r_begin, r_end).
  void run(const Kernels& kernels, int64_t t_begin, int64_t t_end, int64_t r_begin, int64_t r_end,
           std::vector<float>* out, const float* bias = nullptr, bool is_added = false) const {
    std::vector<float> scratch(static_cast<size_t>(matmul_scratch_floats(matrix.columns)));
    MatmulArgs args;
    args.matrix = &matrix;
    args.row_begin = r_begin;
    args.row_end = r_end;
    args.x_stride = padded_width(matrix.columns);
    args.x = x.data() + t_begin * args.x_stride;
    args.num_tokens = t_end - t_begin;
    args.out_stride = matrix.rows;
    args.out = out->data() + t_begin * matrix.rows;
    args.bias = bias;
    args.is_added = is_added;
    args.scratch = scratch.data();
    kernels.matmul(args);
  }
  std::vector<float> zeros() const { return std::vector<float>(static_cast<size_t>(tokens * matrix.rows)); }
};

class Matmul : public testing::TestWithParam<std::tuple<const Kernels*, DType>> {};

TEST_P(Matmul, MatchesBinary64Sums) {
  const auto [kernels, dtype] = GetParam();
  for (const int64_t columns : {256, 1024, 40, 7}) {
    if (!is_plain(dtype) && columns % 256 != 0) continue;
    const Problem p(dtype, 21, columns, 5);
    std::vector<float> out = p.zeros();
    p.run(*kernels, 0, p.tokens, 0, p.matrix.rows, &out);
    std::vector<float> row(static_cast<size_t>(columns));
    for (int64_t r = 0; r < p.matrix.rows; ++r) {
      model::dequantize_row(dtype, p.matrix.data + r * p.matrix.row_bytes, row.data(), columns);
      for (int64_t t = 0; t < p.tokens; ++t) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < columns; ++k) {
          const double product = static_cast<double>(row[static_cast<size_t>(k)]) *
                                 static_cast<double>(p.x[static_cast<size_t>(t * padded_width(columns) + k)]);
          sum += product;
          magnitude += std::abs(product);
        }
        // A lane adds columns / 8 products (each perhaps rounded once more), then a tree of at most 4 levels.
        const double bound = (static_cast<double>(columns) / 8 + 6) * 0x1p-24 * magnitude;
        EXPECT_NEAR(out[static_cast<size_t>(t * p.matrix.rows + r)], sum, bound) << columns << " columns, row " << r;
      }
    }
  }
}

TEST_P(Matmul, GivesTheSameBitsHoweverTokensAndRowsAreGrouped) {
  const auto [kernels, dtype] = GetParam();
  for (const int64_t columns : {256, 1792, 172}) {  // 1792: more than one column block
    if (!is_plain(dtype) && columns % 256 != 0) continue;
    const Problem p(dtype, 23, columns, 70);
    std::vector<float> one_by_one = p.zeros();
    for (int64_t t = 0; t < p.tokens; ++t) p.run(*kernels, t, t + 1, 0, p.matrix.rows, &one_by_one);
    for (const int64_t group : {2, 3, 4, 5, 7, 70}) {
      std::vector<float> grouped = p.zeros();
      for (int64_t t = 0; t < p.tokens; t += group) {
        p.run(*kernels, t, std::min(p.tokens, t + group), 0, p.matrix.rows, &grouped);
      }
      EXPECT_TRUE(is_same_bits(one_by_one, grouped)) << columns << " columns in groups of " << group;
    }
    std::vector<float> by_rows = p.zeros();
    for (int64_t r = 0; r < p.matrix.rows; r += 5)
      p.run(*kernels, 0, p.tokens, r, std::min(p.matrix.rows, r + 5), &by_rows);
    EXPECT_TRUE(is_same_bits(one_by_one, by_rows)) << columns << " columns, rows by fives";
  }
}

TEST_P(Matmul, AddsBiasAndResidual) {
  const auto [kernels, dtype] = GetParam();
  const Problem p(dtype, 6, 256, 4);
  RandomStream random(7);
  const std::vector<float> bias = random_floats(random, p.matrix.rows);
  std::vector<float> plain = p.zeros();
  p.run(*kernels, 0, p.tokens, 0, p.matrix.rows, &plain);
  std::vector<float> both(plain.size(), 2.5f);
  p.run(*kernels, 0, p.tokens, 0, p.matrix.rows, &both, bias.data(), true);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(both[i], 2.5f + (plain[i] + bias[i % static_cast<size_t>(p.matrix.rows)]));
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsaAndFormat, Matmul,
                         testing::Combine(testing::ValuesIn(runnable_kernels()), testing::ValuesIn(kAllDTypes)),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param)->name) + "_" +
                                  model::info(std::get<1>(param.param)).name;
                         });

TEST(SelectKernels, SaysWhatIsMissing) {
  ASSERT_TRUE(select_kernels(Isa::kAuto));
  ASSERT_TRUE(select_kernels(Isa::kPortable));
  EXPECT_EQ((*select_kernels(Isa::kPortable))->isa, Isa::kPortable);
  EXPECT_EQ(*parse_isa("avx2", "--isa"), Isa::kAvx2);
  const auto wrong = parse_isa("mmx", "--isa");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().where, "--isa");
  EXPECT_NE(wrong.error().message.find("mmx"), std::string::npos);
}

}  // namespace
}  // namespace ullage::cpu
