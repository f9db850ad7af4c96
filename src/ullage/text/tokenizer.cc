#include "ullage/text/tokenizer.h"

#include "ullage/text/utf8.h"

namespace ullage::text {

std::string Tokenizer::decode(std::span<const TokenId> tokens, bool skip_special) const {
  StreamDecoder decoder(*this, skip_special);
  std::string text;
  for (const TokenId token : tokens) text += decoder.push(token);
  return text + decoder.flush();
}

std::string StreamDecoder::push(TokenId token) {
  const std::string bytes = tokenizer_.token_bytes(token, skip_special_, is_first_);
  // A special token that is left out is not the text's first.
  if (!(skip_special_ && tokenizer_.is_special(token))) is_first_ = false;
  pending_ += bytes;
  // What cannot change any more: all but an unfinished character at the end.
  size_t end = pending_.size();
  for (size_t back = 1; back <= 3 && back <= pending_.size(); ++back) {
    const size_t at = pending_.size() - back;
    if ((static_cast<uint8_t>(pending_[at]) & 0xC0) == 0x80) continue;
    if (utf8_char_at(pending_, at).kind == Utf8Char::Kind::kUnfinished) end = at;
    break;
  }
  std::string text = repair_utf8(std::string_view(pending_).substr(0, end));
  pending_.erase(0, end);
  return text;
}

std::string StreamDecoder::flush() { return repair_utf8(std::exchange(pending_, {})); }

}  // namespace ullage::text
