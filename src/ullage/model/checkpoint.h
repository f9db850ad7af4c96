// A model on disk: one GGUF file, or a Hugging Face directory. Opens, checks bounds, and hands out tensors as stored.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ullage/base/ids.h"
#include "ullage/base/result.h"
#include "ullage/model/model_shape.h"

namespace ullage::model {

class GgufFile;

enum class TensorRole : uint8_t {
  // once a model
  kTokenEmbedding,  // [vocab_size, hidden_size]
  kOutputNorm,      // [hidden_size]
  kOutputHead,      // [vocab_size, hidden_size]; absent when tied
  kRopeFactors,     // [rotary_dim / 2] divisors of the frequencies (GGUF rope_freqs.weight); usually absent
  // once a layer
  kAttentionNorm,  // [hidden_size]
  kQuery,          // [num_heads * head_dim, hidden_size]
  kKey,            // [num_kv_heads * head_dim, hidden_size]
  kValue,          // [num_kv_heads * head_dim, hidden_size]
  kQueryBias,      // [num_heads * head_dim]
  kKeyBias,
  kValueBias,
  kQueryNorm,        // [head_dim]
  kKeyNorm,          // [head_dim]
  kAttentionOutput,  // [hidden_size, num_heads * head_dim]
  kAttentionOutputBias,
  kFfnNorm,  // [hidden_size]
  kFfnGate,  // [intermediate_size, hidden_size]
  kFfnUp,    // [intermediate_size, hidden_size]
  kFfnDown,  // [hidden_size, intermediate_size]
};

// A tensor's bytes as stored, row-major. The data lives as long as the Checkpoint, and may be unaligned.
struct TensorView {
  std::string name;  // as in the file
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // outermost first: a matrix is [rows (outputs), columns (inputs)]
  std::span<const std::byte> data;
};

// What generation_config.json, config.json or GGUF metadata say about ending and sampling.
struct GenerationDefaults {
  std::vector<TokenId> eos_token_ids;
  TokenId bos_token_id = -1;
  double temperature = 1.0;
  double top_p = 1.0;
  int64_t top_k = 0;
  double repetition_penalty = 1.0;
};

// Movable; const use from any thread.
class Checkpoint {
 public:
  // `path`: a .gguf file, a directory with config.json and *.safetensors, or a name ("Qwen/Qwen3-0.6B") found in the
  // Hugging Face cache directory (HF_HUB_CACHE, HF_HOME, ~/.cache/huggingface; `hf_cache_dir` overrides).
  // Checks every needed tensor's presence, dtype and shape against the ModelShape; an Error names the first that is
  // off.
  static Result<Checkpoint> open(const std::string& path, const std::string& hf_cache_dir = "");
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const ModelShape& shape() const;
  const GenerationDefaults& generation() const;
  // The tensor, or nullptr when the model has none of that role. `layer` is ignored for once-a-model roles.
  const TensorView* tensor(TensorRole role, int64_t layer = 0) const;
  // All tensors in file order, for inspection and byte counts.
  std::span<const TensorView> tensors() const;
  // The file (GGUF), or the directory (Hugging Face), resolved.
  const std::string& path() const;
  // The GGUF behind it, or nullptr for a Hugging Face directory.
  const GgufFile* gguf() const;
  // The model's own chat template (Jinja text); empty when it has none.
  const std::string& chat_template() const;

 private:
  struct State;
  explicit Checkpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ullage::model
