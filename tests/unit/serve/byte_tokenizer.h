// A tokenizer whose tokens are bytes, with two special tokens: enough to see what the server does with text.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/text/tokenizer.h"

namespace ullage::serve {

class ByteTokenizer : public text::Tokenizer {
 public:
  static constexpr TokenId kBos = 256;
  static constexpr TokenId kEos = 257;

  std::vector<TokenId> encode(std::string_view text, const text::EncodeOptions& options = {}) const override {
    std::vector<TokenId> tokens;
    if (options.add_special_tokens) tokens.push_back(kBos);
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  std::string token_bytes(TokenId token, bool skip_special, bool) const override {
    if (is_special(token)) return skip_special ? "" : token_name(token);
    return token >= 0 && token < 256 ? std::string(1, static_cast<char>(token)) : "";
  }
  std::string token_name(TokenId token) const override {
    if (token == kBos) return "<s>";
    if (token == kEos) return "</s>";
    return token_bytes(token, false, false);
  }
  bool is_special(TokenId token) const override { return token == kBos || token == kEos; }
  int64_t vocab_size() const override { return 258; }
  int64_t max_token_bytes() const override { return 4; }
  TokenId bos_token() const override { return kBos; }
  std::span<const TokenId> eos_tokens() const override { return eos_; }
  TokenId find_token(std::string_view name) const override { return name == "<s>" ? kBos : name == "</s>" ? kEos : -1; }

 private:
  std::array<TokenId, 1> eos_{kEos};
};

}  // namespace ullage::serve
