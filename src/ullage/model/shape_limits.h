// Bounds of a model's numbers, wide enough for any real model and small enough that products of them fit in 64 bits.
#pragma once

#include <cstdint>
#include <string_view>

#include "ullage/base/result.h"
#include "ullage/model/model_shape.h"

namespace ullage::model {

inline constexpr int64_t kMaxLayers = 1024;
inline constexpr int64_t kMaxHeads = 1024;
inline constexpr int64_t kMaxHeadDim = 1024;
inline constexpr int64_t kMaxHiddenSize = int64_t{1} << 18;
inline constexpr int64_t kMaxIntermediateSize = int64_t{1} << 20;
inline constexpr int64_t kMaxExperts = 4096;
inline constexpr int64_t kMaxVocabSize = int64_t{1} << 24;
inline constexpr int64_t kMaxPositions = int64_t{1} << 27;

// Of a whole model: with 8 bytes each they still fit in 63 bits.
inline constexpr int64_t kMaxParameters = int64_t{1} << 56;

// `value` when it is in [1, most]; an Error at `where` otherwise.
Result<int64_t> check_size(int64_t value, int64_t most, std::string_view where);
// `value` when it is finite and over 0; an Error at `where` otherwise.
Result<double> check_positive(double value, std::string_view where);
// Heads divide as they must, and the rotation fits the head. `where` is the file.
Result<void> check_attention(const Attention& attention, std::string_view where);

}  // namespace ullage::model
