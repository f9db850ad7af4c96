// Writes GGUF files for tests, right ones and wrong ones.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/model/gguf.h"

namespace ullage::model::testing {

class GgufBuilder {
 public:
  uint32_t version = 3;
  uint32_t alignment = 32;
  uint64_t extra_tensor_count = 0;  // added to the true count
  uint64_t extra_entry_count = 0;
  std::string tail;  // after the data

  template <class T>
  static std::string bytes_of(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  }
  static std::string string_of(std::string_view text) { return bytes_of<uint64_t>(text.size()) + std::string(text); }

  // A metadata entry with its value already encoded.
  GgufBuilder& raw(std::string_view key, uint32_t type, std::string_view payload) {
    entries_.push_back(string_of(key) + bytes_of(type) + std::string(payload));
    return *this;
  }
  GgufBuilder& u32(std::string_view key, uint32_t value) { return raw(key, 4, bytes_of(value)); }
  GgufBuilder& f32(std::string_view key, float value) { return raw(key, 6, bytes_of(value)); }
  GgufBuilder& text(std::string_view key, std::string_view value) { return raw(key, 8, string_of(value)); }
  GgufBuilder& strings(std::string_view key, const std::vector<std::string>& values) {
    std::string payload = bytes_of<uint32_t>(8) + bytes_of<uint64_t>(values.size());
    for (const std::string& value : values) payload += string_of(value);
    return raw(key, 9, payload);
  }
  template <class T>
  GgufBuilder& array(std::string_view key, uint32_t element_type, const std::vector<T>& values) {
    std::string payload = bytes_of(element_type) + bytes_of<uint64_t>(values.size());
    for (const T value : values) payload += bytes_of(value);
    return raw(key, 9, payload);
  }

  // A tensor of zeros right after the one before it.
  GgufBuilder& tensor(std::string_view name, const std::vector<uint64_t>& dims, DType dtype = DType::kF32) {
    // In the order of DType.
    static constexpr uint32_t kNumbers[] = {0,  1,  30, 8,  2,  3,  6,  7,  12, 13, 14, 9,  10, 11, 15, 19, 29,
                                            16, 17, 22, 18, 21, 20, 23, 34, 35, 39, 40, 24, 25, 26, 27, 28};
    static_assert(std::size(kNumbers) == kNumDTypes);
    uint64_t elements = 1;
    for (const uint64_t dim : dims) elements *= dim;
    const auto size = static_cast<uint64_t>(row_bytes(dtype, static_cast<int64_t>(elements)));
    raw_tensor(name, dims, kNumbers[static_cast<int>(dtype)], data_bytes_);
    data_bytes_ += (size + alignment - 1) / alignment * alignment;
    return *this;
  }
  GgufBuilder& raw_tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    std::string tensor = string_of(name) + bytes_of(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) tensor += bytes_of(dim);
    tensors_.push_back(tensor + bytes_of(type) + bytes_of(offset));
    return *this;
  }

  std::string build() const {
    std::string file = "GGUF" + bytes_of(version) + bytes_of<uint64_t>(tensors_.size() + extra_tensor_count) +
                       bytes_of<uint64_t>(entries_.size() + extra_entry_count);
    for (const std::string& entry : entries_) file += entry;
    for (const std::string& tensor : tensors_) file += tensor;
    if (!tensors_.empty()) file.resize((file.size() + alignment - 1) / alignment * alignment + data_bytes_);
    return file + tail;
  }

 private:
  std::vector<std::string> entries_;
  std::vector<std::string> tensors_;
  uint64_t data_bytes_ = 0;
};

// A whole Llama of one layer: hidden 8, 2 heads of 4 (1 for keys and values), feed-forward 12, 5 tokens.
inline GgufBuilder tiny_llama(const std::string& architecture = "llama") {
  GgufBuilder b;
  const std::string prefix = architecture + ".";
  b.text("general.architecture", architecture)
      .text("general.name", "tiny")
      .u32(prefix + "block_count", 1)
      .u32(prefix + "context_length", 64)
      .u32(prefix + "embedding_length", 8)
      .u32(prefix + "feed_forward_length", 12)
      .u32(prefix + "attention.head_count", 2)
      .u32(prefix + "attention.head_count_kv", 1)
      .f32(prefix + "attention.layer_norm_rms_epsilon", 1e-5f)
      .f32(prefix + "rope.freq_base", 10000.0f)
      .strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a", "b"})
      .u32("tokenizer.ggml.bos_token_id", 1)
      .u32("tokenizer.ggml.eos_token_id", 2)
      .text("tokenizer.chat_template", "{{ messages }}");
  b.tensor("token_embd.weight", {8, 5})
      .tensor("blk.0.attn_norm.weight", {8})
      .tensor("blk.0.attn_q.weight", {8, 8})
      .tensor("blk.0.attn_k.weight", {8, 4})
      .tensor("blk.0.attn_v.weight", {8, 4})
      .tensor("blk.0.attn_output.weight", {8, 8})
      .tensor("blk.0.ffn_norm.weight", {8})
      .tensor("blk.0.ffn_gate.weight", {8, 12})
      .tensor("blk.0.ffn_up.weight", {8, 12})
      .tensor("blk.0.ffn_down.weight", {12, 8})
      .tensor("output_norm.weight", {8});
  return b;
}

inline Result<GgufFile> parse(std::string_view file) {
  return GgufFile::parse(std::as_bytes(std::span(file)), "m.gguf");
}

}  // namespace ullage::model::testing
