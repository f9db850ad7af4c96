#include "ullage/text/bpe_tokenizer.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "ullage/text/byte_alphabet.h"
#include "ullage/text/scored_merges.h"
#include "ullage/text/utf8.h"

namespace ullage::text {
namespace {

// Positions inside a piece are 32-bit: a longer one (a gigabyte without a place to cut) is cut here.
constexpr size_t kMaxPieceBytes = size_t{1} << 30;

// The byte that "<0x0A>" spells.
std::optional<uint8_t> byte_of_name(std::string_view name) {
  if (name.size() != 6 || !name.starts_with("<0x") || name[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : name.substr(3, 2)) {
    int digit;
    if (c >= '0' && c <= '9')
      digit = c - '0';
    else if (c >= 'A' && c <= 'F')
      digit = c - 'A' + 10;
    else
      return std::nullopt;
    value = value * 16 + digit;
  }
  return static_cast<uint8_t>(value);
}

}  // namespace

struct BpeTokenizer::Scratch {
  explicit Scratch(size_t text_bytes) : regex(text_bytes) {}
  RegexScratch regex;
  MergeScratch merge;
  PieceArena arena;
  std::vector<Piece> pieces;
  std::vector<TokenId> symbols;
};

Result<std::unique_ptr<BpeTokenizer>> BpeTokenizer::make(TokenizerParts parts, std::string_view where) {
  std::unique_ptr<BpeTokenizer> tokenizer(new BpeTokenizer());
  tokenizer->parts_ = std::move(parts);
  tokenizer->merges_ = MergeTable(tokenizer->parts_.merges);
  tokenizer->parts_.merges = {};
  ULLAGE_TRY_VOID(tokenizer->find_added(where));
  tokenizer->find_bytes();
  tokenizer->find_whole_words();
  return tokenizer;
}

Result<void> BpeTokenizer::find_added(std::string_view where) {
  const auto size = static_cast<size_t>(parts_.vocabulary.size());
  special_.resize(size);
  is_added_.resize(size);
  std::vector<AddedToken> raw, normalized, raw_in_ranges, normalized_in_ranges;
  for (const AddedToken& token : parts_.added) {
    if (!parts_.vocabulary.contains(token.id)) {
      return Error{ErrorCode::kCorrupt,
                   fmt::format("the added token \"{}\" has the id {}, outside the vocabulary of {}", token.content,
                               token.id, size),
                   std::string(where)};
    }
    is_added_[static_cast<size_t>(token.id)] = true;
    special_[static_cast<size_t>(token.id)] = token.is_special;
    AddedToken in_text = token;
    if (token.is_normalized) in_text.content = normalize(token.content, parts_.normalizer);
    (token.is_normalized ? normalized : raw).push_back(in_text);
    if (token.is_special)
      raw_in_ranges.push_back(token);
    else
      (token.is_normalized ? normalized_in_ranges : raw_in_ranges).push_back(in_text);
  }
  parts_.added = {};
  ULLAGE_TRY(raw_added_, AddedTokenFinder::make(std::move(raw), where));
  ULLAGE_TRY(normalized_added_, AddedTokenFinder::make(std::move(normalized), where));
  ULLAGE_TRY(raw_added_in_ranges_, AddedTokenFinder::make(std::move(raw_in_ranges), where));
  ULLAGE_TRY(normalized_added_in_ranges_, AddedTokenFinder::make(std::move(normalized_in_ranges), where));
  return {};
}

void BpeTokenizer::find_bytes() {
  const Vocabulary& vocabulary = parts_.vocabulary;
  byte_ids_.fill(kNoToken);
  ascii_ids_.fill(kNoToken);
  bytes_.resize(static_cast<size_t>(vocabulary.size()));
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string_view name = vocabulary.name(id);
    max_token_bytes_ = std::max(max_token_bytes_, name.size());
    std::string& bytes = bytes_[static_cast<size_t>(id)];
    if (parts_.kind == BpeKind::kBytes) {
      std::optional<std::string> spelled;
      if (!is_added_[static_cast<size_t>(id)]) spelled = bytes_of_spelling(name);
      bytes = spelled ? std::move(*spelled) : std::string(name);
    } else if (const auto byte = byte_of_name(name)) {
      bytes.assign(1, static_cast<char>(*byte));
    } else {
      bytes = name;
      replace_all(bytes, kSpaceMark, " ");
    }
    max_text_bytes_ = std::max(max_text_bytes_, bytes.size());
  }
  for (int i = 0; i < 256; ++i) {
    const auto byte = static_cast<uint8_t>(i);
    byte_ids_[byte] = parts_.kind == BpeKind::kBytes
                          ? vocabulary.find(spelling_of_bytes(std::string(1, static_cast<char>(byte))))
                          : vocabulary.find(fmt::format("<0x{:02X}>", i));
  }
  for (int i = 0; i < 128; ++i)
    ascii_ids_[static_cast<size_t>(i)] = vocabulary.find(std::string(1, static_cast<char>(i)));
}

void BpeTokenizer::find_whole_words() {
  if (parts_.kind != BpeKind::kBytes) return;
  Scratch scratch(0);
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < parts_.vocabulary.size(); ++id) {
    const std::string& bytes = bytes_[static_cast<size_t>(id)];
    if (bytes.empty() || parts_.vocabulary.find(parts_.vocabulary.name(id)) != id) continue;
    if (!parts_.ignore_merges) {
      ids.clear();
      encode_piece(bytes, scratch, ids);
      if (ids.size() != 1 || ids[0] != id) continue;
    } else if (!bytes_of_spelling(parts_.vocabulary.name(id))) {
      continue;
    }
    whole_words_[bytes] = id;
  }
}

void BpeTokenizer::append_unknown(TokenId& pending_unknown, std::vector<TokenId>& symbols) const {
  if (parts_.unknown == kNoToken) return;
  if (pending_unknown != kNoToken && !parts_.fuse_unknown) symbols.push_back(pending_unknown);
  pending_unknown = parts_.unknown;
}

void BpeTokenizer::append_char(std::string_view c, TokenId& pending_unknown, std::vector<TokenId>& symbols) const {
  const auto lead = static_cast<uint8_t>(c[0]);
  const TokenId id = lead < 0x80 ? ascii_ids_[lead] : parts_.vocabulary.find(c);
  if (id != kNoToken) {
    if (pending_unknown != kNoToken) symbols.push_back(std::exchange(pending_unknown, kNoToken));
    symbols.push_back(id);
    return;
  }
  if (parts_.byte_fallback) {
    const auto has_token = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)] != kNoToken; };
    if (std::all_of(c.begin(), c.end(), has_token)) {
      for (const char byte : c) symbols.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
      return;
    }
  }
  append_unknown(pending_unknown, symbols);
}

void BpeTokenizer::encode_piece(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  while (piece.size() > kMaxPieceBytes) {
    size_t cut = kMaxPieceBytes;
    while ((static_cast<uint8_t>(piece[cut]) & 0xC0) == 0x80) --cut;
    encode_piece(piece.substr(0, cut), scratch, out);
    piece.remove_prefix(cut);
  }
  TokenId pending_unknown = kNoToken;
  std::vector<TokenId>& symbols = scratch.symbols;
  symbols.clear();
  switch (parts_.kind) {
    case BpeKind::kBytes:
      if (const auto it = whole_words_.find(piece); it != whole_words_.end()) {
        out.push_back(it->second);
        return;
      }
      for (const char byte : piece) {
        const TokenId id = byte_ids_[static_cast<uint8_t>(byte)];
        if (id == kNoToken) {
          append_unknown(pending_unknown, symbols);
          continue;
        }
        if (pending_unknown != kNoToken) symbols.push_back(std::exchange(pending_unknown, kNoToken));
        symbols.push_back(id);
      }
      break;
    case BpeKind::kChars:
      if (parts_.ignore_merges) {
        if (const TokenId id = parts_.vocabulary.find(piece); id != kNoToken) {
          out.push_back(id);
          return;
        }
      }
      for (size_t at = 0; at < piece.size();) {
        const auto length = static_cast<size_t>(utf8_char_at(piece, at).length);
        append_char(piece.substr(at, length), pending_unknown, symbols);
        at += length;
      }
      break;
    case BpeKind::kScored:
      for (const ScoredSymbol& s : merge_scored(parts_.vocabulary, parts_.scores, max_token_bytes_, piece)) {
        if (s.id != kNoToken)
          out.push_back(s.id);
        else
          append_char(piece.substr(s.begin, s.length), pending_unknown, out);
        if (pending_unknown != kNoToken) out.push_back(std::exchange(pending_unknown, kNoToken));
      }
      return;
  }
  if (pending_unknown != kNoToken) symbols.push_back(pending_unknown);
  merge_symbols(merges_, symbols, scratch.merge);
  out.insert(out.end(), symbols.begin(), symbols.end());
}

void BpeTokenizer::encode_normalized(std::string_view text, bool is_first, Scratch& scratch,
                                     std::vector<TokenId>& out) const {
  scratch.pieces.assign(1, {text, is_first});
  pre_tokenize(parts_.pre_tokenizer, scratch.regex, scratch.arena, scratch.pieces);
  for (const Piece& piece : scratch.pieces) {
    if (!piece.text.empty()) encode_piece(piece.text, scratch, out);
  }
  scratch.arena.clear();
}

void BpeTokenizer::encode_raw(std::string_view text, bool is_first, const SpecialFilter& filter, Scratch& scratch,
                              std::vector<TokenId>& out) const {
  std::string normalized;
  if (!parts_.normalizer.empty()) {
    normalized = normalize(std::string(text), parts_.normalizer);
    text = normalized;
  }
  const AddedTokenFinder& finder = filter.everywhere ? normalized_added_ : normalized_added_in_ranges_;
  size_t done = 0;
  for (const AddedTokenMatch& match : finder.find(text, {})) {
    if (done < match.begin)
      encode_normalized(text.substr(done, match.begin - done), is_first && done == 0, scratch, out);
    out.push_back(match.id);
    done = match.end;
  }
  if (done < text.size()) encode_normalized(text.substr(done), is_first && done == 0, scratch, out);
}

std::vector<TokenId> BpeTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::string repaired;
  std::vector<TextRange> ranges(options.special_ranges.begin(), options.special_ranges.end());
  if (!is_valid_utf8(text)) {
    repaired = repair_utf8(text, &ranges);
    text = repaired;
  }
  const SpecialFilter filter{options.parse_special_everywhere, ranges};
  Scratch scratch(text.size());
  std::vector<TokenId> out;
  out.reserve(text.size() / 4 + 8);
  if (options.add_special_tokens) out = parts_.prefix;
  const AddedTokenFinder& finder = filter.everywhere ? raw_added_ : raw_added_in_ranges_;
  size_t done = 0;
  for (const AddedTokenMatch& match : finder.find(text, filter)) {
    if (done < match.begin) encode_raw(text.substr(done, match.begin - done), done == 0, filter, scratch, out);
    out.push_back(match.id);
    done = match.end;
  }
  if (done < text.size()) encode_raw(text.substr(done), done == 0, filter, scratch, out);
  if (options.add_special_tokens) out.insert(out.end(), parts_.suffix.begin(), parts_.suffix.end());
  return out;
}

std::string BpeTokenizer::token_bytes(TokenId token, bool skip_special, bool is_first) const {
  if (!parts_.vocabulary.contains(token) || (skip_special && is_special(token))) return {};
  const std::string& bytes = bytes_[static_cast<size_t>(token)];
  if (is_first && parts_.strips_first_space && bytes.starts_with(' ')) return bytes.substr(1);
  return bytes;
}

}  // namespace ullage::text
