#include <cmath>

#include "tests/unit/cpu/cpu_test_util.h"

namespace ullage::cpu {
namespace {

class VectorMath : public testing::TestWithParam<const Kernels*> {};

TEST_P(VectorMath, ExpIsWithinThreeUnitsInTheLastPlace) {
  std::vector<float> x;
  for (float v = -86.9f; v <= 0.0f; v += 0.00731f) x.push_back(v);
  x.push_back(0.0f);
  std::vector<float> y(x.size());
  GetParam()->exp_shifted(x.data(), 0.0f, 1.0f, y.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    // Without fused operations the reduced argument carries a rounding of n * ln 2: 2^-24 * 87.
    const double relative = GetParam()->isa == Isa::kPortable ? 87 * 0x1p-24 : 3 * 0x1p-23;
    EXPECT_NEAR(y[i], exact, exact * relative) << x[i];
  }
  EXPECT_EQ(y.back(), 1.0f);
}

TEST_P(VectorMath, ExpOfExtremesIsDefined) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {-inf, -1e30f, -100.0f, std::nanf(""), 0.0f, 100.0f};
  std::vector<float> y(x.size());
  GetParam()->exp_shifted(x.data(), 0.0f, 1.0f, y.data(), static_cast<int64_t>(x.size()));
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_EQ(y[1], 0.0f);
  EXPECT_EQ(y[2], 0.0f);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_EQ(y[4], 1.0f);
  EXPECT_TRUE(std::isfinite(y[5]));
}

TEST_P(VectorMath, ElementsDoNotDependOnTheirPlace) {
  RandomStream random(3);
  const std::vector<float> gate = random_floats(random, 77);
  const std::vector<float> up = random_floats(random, 77);
  std::vector<float> all = gate;
  GetParam()->silu_multiply(all.data(), up.data(), 77);
  for (size_t i = 0; i < gate.size(); ++i) {
    float one = gate[i];
    GetParam()->silu_multiply(&one, &up[i], 1);
    EXPECT_TRUE(is_same_bits({&one, 1}, {&all[i], 1})) << i;
    const double g = static_cast<double>(gate[i]);
    EXPECT_NEAR(one, g / (1.0 + std::exp(-g)) * static_cast<double>(up[i]), 1e-5) << i;
  }
}

TEST_P(VectorMath, RmsNormMatchesBinary64) {
  for (const int64_t n : {1, 5, 8, 64, 576, 999}) {
    RandomStream random(static_cast<uint64_t>(n));
    const std::vector<float> x = random_floats(random, n);
    const std::vector<float> weight = random_floats(random, n);
    std::vector<float> out(static_cast<size_t>(n));
    GetParam()->rms_norm(x.data(), weight.data(), 1e-5f, out.data(), n);
    double squares = 0;
    for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
    for (size_t i = 0; i < out.size(); ++i) {
      const double exact = static_cast<double>(x[i]) * scale * static_cast<double>(weight[i]);
      // The sum's relative error is halved by the root; then division, root, and two products round.
      EXPECT_NEAR(out[i], exact, std::abs(exact) * (static_cast<double>(n) / 16 + 12) * 0x1p-24) << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, VectorMath, testing::ValuesIn(runnable_kernels()),
                         [](const auto& param) { return std::string(param.param->name); });

}  // namespace
}  // namespace ullage::cpu
