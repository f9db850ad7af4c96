// DeepSeek V4: known, and refused.
//
// Of each layer vLLM (vllm/models/deepseek_v4) keeps: the last sliding_window tokens at 584 bytes (448 FP8, 64 BF16, 8
// of scales); where compress_ratios says 4 or 128, an entry of 584 bytes for each so many tokens; with ratio 4 an
// indexer's key of 132 bytes beside each entry; and the compressors' fp32 running sums of the last 8 or 128 tokens.
// Blocks of all of these have different sizes, are aligned to 576 bytes and share tensors across layers. A request's
// bytes would follow; the number of blocks, and what is printed of it, has no reproduced log.
#include "ullage/model/config_recurrent.h"

namespace ullage::model {

Result<void> refuse_deepseek_v4(const ConfigSource& source, ModelShape&) {
  return source.text.unsupported(
      "DeepSeek V4 keeps windows, compressed entries, an indexer's keys and compressors' sums in blocks of different "
      "sizes that share tensors across layers; that layout is not modelled",
      "model_type");
}

}  // namespace ullage::model
