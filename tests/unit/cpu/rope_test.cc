// Frequencies and rotations against the formulas in binary64. Agreement with another implementation is tested in
// tests/golden on whole models with every scaling.
#include "ullage/cpu/rope.h"

#include <cmath>
#include <numbers>

#include "tests/unit/cpu/cpu_test_util.h"

namespace ullage::cpu {
namespace {

model::Rope make_rope(model::RopeScaling scaling) {
  model::Rope rope;
  rope.theta = 10000.0;
  rope.rotary_dim = 64;
  rope.scaling = scaling;
  rope.factor = 8.0;
  rope.original_max_positions = 1024;
  return rope;
}

double plain_frequency(const model::Rope& rope, size_t i) {
  return std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(rope.rotary_dim));
}

TEST(RopeFrequencies, PlainLinearAndDivided) {
  const auto plain = rope_frequencies(make_rope(model::RopeScaling::kNone), {});
  const auto linear = rope_frequencies(make_rope(model::RopeScaling::kLinear), {});
  const std::vector<float> divisors(32, 4.0f);
  const auto divided = rope_frequencies(make_rope(model::RopeScaling::kNone), divisors);
  ASSERT_EQ(plain.inverse.size(), 32u);
  for (size_t i = 0; i < 32; ++i) {
    const double exact = plain_frequency(make_rope(model::RopeScaling::kNone), i);
    EXPECT_NEAR(plain.inverse[i], exact, exact * 1e-6);
    EXPECT_NEAR(linear.inverse[i], exact / 8, exact * 1e-6);
    EXPECT_NEAR(divided.inverse[i], exact / 4, exact * 1e-6);
  }
}

TEST(RopeFrequencies, Llama3KeepsShortWavesAndStretchesLongOnes) {
  const model::Rope rope = make_rope(model::RopeScaling::kLlama3);  // low factor 1, high factor 4
  const auto scaled = rope_frequencies(rope, {});
  int kept = 0, stretched = 0;
  for (size_t i = 0; i < 32; ++i) {
    const double plain = plain_frequency(rope, i);
    const double turns = 1024 * plain / (2 * std::numbers::pi);  // over the original context
    const double smooth = std::min(1.0, std::max(0.0, (turns - 1) / 3));
    const double exact = (1 - smooth) * plain / 8 + smooth * plain;
    EXPECT_NEAR(scaled.inverse[i], exact, exact * 3e-6) << i;
    kept += smooth == 1.0 ? 1 : 0;
    stretched += smooth == 0.0 ? 1 : 0;
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(stretched, 0);
}

TEST(RopeFrequencies, YarnBlendsAndScalesTheMagnitude) {
  model::Rope rope = make_rope(model::RopeScaling::kYarn);
  const auto scaled = rope_frequencies(rope, {});
  EXPECT_NEAR(scaled.attention_factor, 0.1 * std::log(8.0) + 1.0, 1e-6);
  EXPECT_NEAR(scaled.inverse[0], 1.0, 1e-6) << "the fastest turns as before";
  EXPECT_NEAR(scaled.inverse[31], plain_frequency(rope, 31) / 8, 1e-9) << "the slowest is interpolated";
  rope.attention_factor = 0.5;
  EXPECT_EQ(rope_frequencies(rope, {}).attention_factor, 0.5f);
  rope.attention_factor = 0.0;
  rope.mscale = 1.0;
  rope.mscale_all_dim = 0.5;
  EXPECT_NEAR(rope_frequencies(rope, {}).attention_factor, (0.1 * std::log(8.0) + 1) / (0.05 * std::log(8.0) + 1),
              1e-6);
}

TEST(RotateHead, TurnsThePairsOfItsPairing) {
  RandomStream random(1);
  const auto frequencies = rope_frequencies({.theta = 100.0, .rotary_dim = 6}, {});
  std::vector<float> angles(6);
  rope_angles(frequencies, 5, angles.data());
  for (const auto pairing : {model::RopePairing::kHalves, model::RopePairing::kAdjacent}) {
    const std::vector<float> head = random_floats(random, 8);  // the last two elements do not turn
    std::vector<float> turned = head;
    rotate_head(turned.data(), angles.data(), 6, pairing);
    for (size_t i = 0; i < 3; ++i) {
      const size_t a = pairing == model::RopePairing::kHalves ? i : 2 * i;
      const size_t b = pairing == model::RopePairing::kHalves ? i + 3 : 2 * i + 1;
      const double angle = 5 * std::pow(100.0, -static_cast<double>(2 * i) / 6);
      EXPECT_NEAR(turned[a], head[a] * std::cos(angle) - head[b] * std::sin(angle), 1e-5);
      EXPECT_NEAR(turned[b], head[b] * std::cos(angle) + head[a] * std::sin(angle), 1e-5);
    }
    EXPECT_EQ(turned[6], head[6]);
    EXPECT_EQ(turned[7], head[7]);
  }
}

}  // namespace
}  // namespace ullage::cpu
