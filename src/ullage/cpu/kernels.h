// The arithmetic of a step, once per instruction set. Every function here is pure: it reads and writes the memory it is
// given, and each number it writes is computed in an order that depends on the row length (matrices) or on the position
// (attention) alone. That makes a token's result the same bits whatever is in the batch (invariant 7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ullage/base/ids.h"
#include "ullage/base/result.h"
#include "ullage/model/dtype.h"

namespace ullage::cpu {

// kAuto takes the best that this processor has; asking for one that it lacks is an Error.
enum class Isa : uint8_t { kAuto, kPortable, kAvx2, kAvx512 };

// A matrix as stored: [rows (outputs), columns (inputs)], rows `row_bytes` apart, perhaps unaligned.
struct Matrix {
  const std::byte* data = nullptr;
  model::DType dtype = model::DType::kF32;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_bytes = 0;
};

// Activation rows are padded with zeros to a multiple of this many floats, so that kernels need no tails.
inline constexpr int64_t kRowPadding = 32;
constexpr int64_t padded_width(int64_t n) { return (n + kRowPadding - 1) / kRowPadding * kRowPadding; }

// Positions that attention treats together: scores of a partition are normalised against its own maximum, and
// partitions are merged in order. Its boundaries are multiples of this, whoever asks.
inline constexpr int64_t kPartition = 256;
// Query rows (tokens times the heads that share a key head) that go through a partition together, at most; a single
// token with more heads than this goes alone.
inline constexpr int64_t kQueryRows = 24;

// out[t, r] = (sum over k of matrix[r, k] * x[t, k]) + bias[r], for rows [row_begin, row_end), t in [0, num_tokens).
struct MatmulArgs {
  const Matrix* matrix = nullptr;
  int64_t row_begin = 0;
  int64_t row_end = 0;
  const float* x = nullptr;  // [num_tokens, x_stride], x_stride = padded_width(columns), pads are zero
  int64_t x_stride = 0;
  int64_t num_tokens = 0;
  float* out = nullptr;  // [num_tokens, out_stride]
  int64_t out_stride = 0;
  const float* bias = nullptr;  // [rows], or null
  bool is_added = false;        // out += instead of out =
  float* scratch = nullptr;     // matmul_scratch_floats(columns)
};
int64_t matmul_scratch_floats(int64_t columns);

// What a query has seen so far, per query row: [maximum, sum, unused, weighted values from kRowPadding on
// (padded_width(head_dim))].
constexpr int64_t attention_state_floats(int64_t head_dim) { return kRowPadding + padded_width(head_dim); }

// Attention of consecutive tokens of one request for the query heads that share one key head.
// The pool of a layer holds, per block and key head, keys as [head_dim, block_size] and values as
// [block_size, head_dim]; 64 bytes after its end may be read (not used).
struct AttentionArgs {
  const float* q = nullptr;  // [num_tokens, q_stride]: `group` heads of head_dim from there; rotated and scaled
  int64_t q_stride = 0;
  int64_t num_tokens = 0;  // num_tokens * group <= max(kQueryRows, group)
  int64_t group = 0;
  int64_t head_dim = 0;
  int64_t first_position = 0;  // of the first token
  int64_t window = 0;          // 0 = all past tokens
  const BlockId* block_table = nullptr;
  const std::byte* keys = nullptr;    // this layer's and head's keys in block 0
  const std::byte* values = nullptr;  // likewise
  int64_t block_bytes = 0;            // from a block to the next
  int64_t block_size = 0;
  model::DType kv_dtype = model::DType::kBF16;
  float* scratch = nullptr;  // attention_scratch_floats(group, head_dim)
};
int64_t attention_scratch_floats(int64_t group, int64_t head_dim);

struct Kernels {
  Isa isa = Isa::kPortable;
  const char* name = "";
  void (*matmul)(const MatmulArgs& args) = nullptr;
  // states[row] of query rows (token-major) for the positions of one partition; sum = 0 where a row sees none of them.
  void (*attend_partition)(const AttentionArgs& args, int64_t partition, float* states) = nullptr;
  // Takes the next partition's state into the running one. Both: [attention_state_floats].
  void (*merge_states)(float* running, const float* next, int64_t head_dim) = nullptr;
  // out[head_dim] = the weighted mean of the values.
  void (*finish_state)(const float* state, float* out, int64_t head_dim) = nullptr;
  // out = x / sqrt(mean(x^2) + eps) * weight; [n], out's pad is left alone. x has zero pads; weight is padded. x may be
  // out.
  void (*rms_norm)(const float* x, const float* weight, float eps, float* out, int64_t n) = nullptr;
  // gate = silu(gate) * up; [n].
  void (*silu_multiply)(float* gate, const float* up, int64_t n) = nullptr;
  // out = exp((x - shift) * factor) for x <= shift; [n]. Below about e^-87, 0.
  void (*exp_shifted)(const float* x, float shift, float factor, float* out, int64_t n) = nullptr;
};

// The kernels of `isa`; an Error says when this processor (or build) lacks it.
Result<const Kernels*> select_kernels(Isa isa);
// "auto", "portable", "avx2", "avx512".
Result<Isa> parse_isa(std::string_view text, std::string_view where);

// One per file; null where the build has none.
const Kernels* portable_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();

}  // namespace ullage::cpu
