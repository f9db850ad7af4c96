#include "ullage/cpu/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ullage::cpu {
namespace {

// YaRN (Peng et al. 2023), section 3.4: 0.1 m ln(s) + 1.
double yarn_magnitude(double scale, double m) { return scale <= 1.0 ? 1.0 : 0.1 * m * std::log(scale) + 1.0; }

// The dimension that turns `rotations` times over the original context.
double yarn_dimension(const model::Rope& rope, double rotations) {
  return static_cast<double>(rope.rotary_dim) *
         std::log(static_cast<double>(rope.original_max_positions) / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(rope.theta));
}

void scale_yarn(const model::Rope& rope, const std::vector<float>& periods, RopeFrequencies* f) {
  double low = yarn_dimension(rope, rope.beta_fast);
  double high = yarn_dimension(rope, rope.beta_slow);
  if (rope.yarn_truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rope.rotary_dim - 1));
  if (low == high) high += 0.001;  // as the reference does, against a division by zero
  const float factor = static_cast<float>(rope.factor);
  for (size_t i = 0; i < f->inverse.size(); ++i) {
    const float position = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float extrapolated = 1.0f - std::clamp(position, 0.0f, 1.0f);
    const float interpolation = 1.0f / (factor * periods[i]);
    f->inverse[i] = interpolation * (1.0f - extrapolated) + f->inverse[i] * extrapolated;
  }
  double magnitude = rope.attention_factor;
  if (magnitude == 0.0) {
    magnitude = rope.mscale != 0.0 && rope.mscale_all_dim != 0.0
                    ? yarn_magnitude(rope.factor, rope.mscale) / yarn_magnitude(rope.factor, rope.mscale_all_dim)
                    : yarn_magnitude(rope.factor, 1.0);
  }
  f->attention_factor = static_cast<float>(magnitude);
}

void scale_llama3(const model::Rope& rope, RopeFrequencies* f) {
  const double context = static_cast<double>(rope.original_max_positions);
  const float low_wavelength = static_cast<float>(context / rope.low_freq_factor);
  const float high_wavelength = static_cast<float>(context / rope.high_freq_factor);
  for (float& inverse : f->inverse) {
    const float wavelength = static_cast<float>(2.0 * std::numbers::pi) / inverse;
    const float scaled = inverse / static_cast<float>(rope.factor);
    if (wavelength > low_wavelength) {
      inverse = scaled;
    } else if (wavelength >= high_wavelength) {
      const float smooth = (static_cast<float>(context) / wavelength - static_cast<float>(rope.low_freq_factor)) /
                           static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
      inverse = (1.0f - smooth) * inverse / static_cast<float>(rope.factor) + smooth * inverse;
    }
  }
}

}  // namespace

RopeFrequencies rope_frequencies(const model::Rope& rope, std::span<const float> divisors) {
  RopeFrequencies f;
  std::vector<float> periods;  // theta^(2i / rotary_dim)
  for (int64_t i = 0; i < rope.rotary_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope.rotary_dim);
    periods.push_back(static_cast<float>(std::pow(rope.theta, static_cast<double>(exponent))));
    f.inverse.push_back(1.0f / periods.back());
  }
  switch (rope.scaling) {
    case model::RopeScaling::kNone:
    case model::RopeScaling::kOther:  // refused before a model is loaded (model/servable.h)
      break;
    case model::RopeScaling::kLinear:
      for (float& inverse : f.inverse) inverse /= static_cast<float>(rope.factor);
      break;
    case model::RopeScaling::kLlama3:
      scale_llama3(rope, &f);
      break;
    case model::RopeScaling::kYarn:
      scale_yarn(rope, periods, &f);
      break;
  }
  for (size_t i = 0; i < f.inverse.size() && i < divisors.size(); ++i) f.inverse[i] /= divisors[i];
  return f;
}

void rope_angles(const RopeFrequencies& frequencies, int64_t position, float* out) {
  const size_t n = frequencies.inverse.size();
  for (size_t i = 0; i < n; ++i) {
    const float angle = frequencies.inverse[i] * static_cast<float>(position);
    out[i] = static_cast<float>(std::cos(static_cast<double>(angle))) * frequencies.attention_factor;
    out[n + i] = static_cast<float>(std::sin(static_cast<double>(angle))) * frequencies.attention_factor;
  }
}

void rotate_head(float* head, const float* angles, int64_t rotary_dim, model::RopePairing pairing) {
  const int64_t n = rotary_dim / 2;
  const bool is_adjacent = pairing == model::RopePairing::kAdjacent;
  const int64_t step = is_adjacent ? 2 : 1;
  const int64_t distance = is_adjacent ? 1 : n;
  for (int64_t i = 0; i < n; ++i) {
    float* a = head + i * step;
    float* b = a + distance;
    const float x = *a;
    const float y = *b;
    *a = x * angles[i] - y * angles[n + i];
    *b = y * angles[i] + x * angles[n + i];
  }
}

}  // namespace ullage::cpu
