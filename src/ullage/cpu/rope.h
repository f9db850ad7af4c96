// Rotary position embedding: frequencies once, angles per position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ullage/model/model_shape.h"

namespace ullage::cpu {

// What a model's rotations need. Frequencies follow Hugging Face transformers (modeling_rope_utils), which computes
// them in binary32: at position 8192 a rounding of the frequency turns an angle by 5e-4, so the same rounding is kept.
struct RopeFrequencies {
  std::vector<float> inverse;     // [rotary_dim / 2]; angle = inverse[i] * position
  float attention_factor = 1.0f;  // of sine and cosine (yarn)
};
// `divisors`: [rotary_dim / 2] or empty (GGUF rope_freqs.weight).
RopeFrequencies rope_frequencies(const model::Rope& rope, std::span<const float> divisors);

// cosines then sines of a position: out[rotary_dim].
void rope_angles(const RopeFrequencies& frequencies, int64_t position, float* out);
// Turns a head in place. angles: [rotary_dim] from rope_angles.
void rotate_head(float* head, const float* angles, int64_t rotary_dim, model::RopePairing pairing);

}  // namespace ullage::cpu
