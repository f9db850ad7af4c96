// One matrix or vector of a model: its size, how it is stored, and how ranks divide it.
#pragma once

#include <cstdint>
#include <string>

#include "ullage/model/dtype.h"

namespace ullage::model {

// How the numbers of a matrix lie in memory. Plain: element_bits alone. Scaled: one scale (and perhaps a zero point)
// for each group of group_rows x group_columns, and some bytes for the whole tensor.
struct WeightFormat {
  // What the matrix units multiply in once the weights are read: decides which FLOP/s hold.
  enum class Compute : uint8_t { kF32, kBF16, kFP8, kINT8, kFP4 };

  int32_t element_bits = 16;
  int32_t group_rows = 0;     // 0 = no groups; -1 = all rows
  int32_t group_columns = 0;  // 0 = no groups; -1 = all columns
  int32_t scale_bits = 0;     // per group
  int32_t zero_bits = 0;      // per group
  int32_t tensor_bytes = 0;   // per tensor
  int32_t column_bytes = 0;   // per column, whatever the rows: GPTQ's order of the inputs (g_idx)
  // Scales that are quantised themselves have scales in turn: super_scale_bits for each groups_per_super_group groups
  // (bitsandbytes' double quantisation). 0 = no such.
  int32_t groups_per_super_group = 0;
  int32_t super_scale_bits = 0;
  Compute compute = Compute::kBF16;
  friend bool operator==(const WeightFormat&, const WeightFormat&) = default;
};

enum class WeightRole : uint8_t {
  kEmbedding,
  kOutputHead,
  kAttention,  // and recurrent mixers
  kFfn,        // dense
  kRouter,
  kExperts,        // routed
  kSharedExperts,  // and what lies dense beside routed experts
  kNorm,
  kDraft,
  kOther,  // towers, projectors
};

// What tensor parallelism does to a matrix (Shoeybi et al. 2019, section 3).
enum class Split : uint8_t {
  kReplicated,  // each rank has all of it
  kRows,        // column parallel: outputs are divided
  kColumns,     // row parallel: inputs are divided, outputs are summed (an all-reduce)
  kKvHeads,     // outputs are divided by KV head; a rank has at least one whole head, so heads may be replicated
  kVocabulary,  // rows are divided after padding to a multiple
  kExperts,     // experts are divided under expert parallelism, else each expert is split like kRows or kColumns
};

struct WeightMatrix {
  std::string name;  // within its layer, as Hugging Face names modules: "self_attn.q_proj", "mlp.experts.gate_proj"
  WeightRole role = WeightRole::kOther;
  int64_t layer = -1;   // index into ModelShape::layers (draft: draft_layers); -1 = once a model
  int64_t rows = 0;     // outputs
  int64_t columns = 1;  // inputs; 1 for a vector
  int64_t count = 1;    // alike ones: experts
  Split split = Split::kReplicated;
  int64_t num_heads = 0;      // of kKvHeads: heads in `rows`
  bool is_multiplied = true;  // false: a vector that is added or scales, or a table that is looked up
  WeightFormat format;
  friend bool operator==(const WeightMatrix&, const WeightMatrix&) = default;
};

int64_t num_parameters(const WeightMatrix& matrix);
// Of `rows` x `columns` numbers in `format`, groups rounded up.
int64_t stored_bytes(const WeightFormat& format, int64_t rows, int64_t columns);
// Of all `count`.
int64_t stored_bytes(const WeightMatrix& matrix);

}  // namespace ullage::model
