#include "ullage/text/tokenizer_gguf.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "ullage/text/bpe_tokenizer.h"
#include "ullage/text/merge_names.h"
#include "ullage/text/scored_merges.h"
#include "ullage/text/utf8.h"

namespace ullage::text {
namespace {

using model::GgufFile;

// Values of tokenizer.ggml.token_type.
constexpr int64_t kUnknownType = 2;
constexpr int64_t kControlType = 3;
constexpr int64_t kUserDefinedType = 4;
constexpr int64_t kByteType = 6;

// The cutting that tokenizer.ggml.pre names. llama.cpp gives a name to each tokenizer it has met, so that several names
// stand for one pattern.
struct PreName {
  std::string_view name;
  std::string_view pattern;
  bool cuts_digits = false;  // each digit alone, before the pattern
  bool ignore_merges = false;
  bool is_nfc = false;
  bool adds_bos = false;  // when the file does not say
};

constexpr std::string_view kSupportedPre =
    "gpt-2, phi-2, llama-bpe (llama3, llama-v3), qwen2 (deepseek-r1-qwen), smollm";

const PreName* find_pre_name(std::string_view name) {
  static const std::array<PreName, 8> kNames = {{
      {"gpt-2", kGpt2Pattern},
      {"phi-2", kGpt2Pattern},
      {"llama-bpe", kLlama3Pattern, false, true, false, true},
      {"llama3", kLlama3Pattern, false, true, false, true},
      {"llama-v3", kLlama3Pattern, false, true, false, true},
      {"qwen2", kQwen2Pattern, false, false, true},
      {"deepseek-r1-qwen", kQwen2Pattern, false, false, true},
      {"smollm", kGpt2Pattern, true},
  }};
  const auto it = std::find_if(kNames.begin(), kNames.end(), [&](const PreName& n) { return n.name == name; });
  return it == kNames.end() ? nullptr : &*it;
}

Result<TokenId> get_token(const GgufFile& gguf, const char* key, TokenId fallback, const Vocabulary& vocabulary) {
  ULLAGE_TRY(const int64_t id, gguf.get_int(key, fallback));
  if (id == kNoToken) return kNoToken;
  if (id < 0 || id >= vocabulary.size()) {
    return Error{ErrorCode::kCorrupt,
                 fmt::format("found token {}, expected one of the {} tokens", id, vocabulary.size()), gguf.where(key)};
  }
  return static_cast<TokenId>(id);
}

Result<void> add_split(TokenizerParts& parts, std::string_view pattern, std::string_view where) {
  PreTokenizerStep step;
  ULLAGE_TRY(SplitRegex regex, SplitRegex::compile(pattern, where));
  step.regex.push_back(std::move(regex));
  parts.pre_tokenizer.push_back(std::move(step));
  return {};
}

Result<void> read_byte_level(const GgufFile& gguf, TokenizerParts& parts, bool& adds_bos) {
  const std::string where = gguf.where("tokenizer.ggml.pre");
  ULLAGE_TRY(const std::string_view name, gguf.get_string("tokenizer.ggml.pre", ""));
  const PreName* const pre = find_pre_name(name);
  if (!pre) {
    return Error{ErrorCode::kUnsupported,
                 name.empty()
                     ? fmt::format("the file does not say how its tokenizer cuts text; expected one of {}. Convert the "
                                   "model again with a current llama.cpp",
                                   kSupportedPre)
                     : fmt::format("found the pre-tokenizer \"{}\"; supported are {}", name, kSupportedPre),
                 where};
  }
  if (pre->cuts_digits) ULLAGE_TRY_VOID(add_split(parts, kDigitPattern, where));
  ULLAGE_TRY_VOID(add_split(parts, pre->pattern, where));
  if (pre->is_nfc) parts.normalizer.push_back({NormalizerStep::Kind::kNormalForm, NormalForm::kNfc, "", ""});
  parts.kind = BpeKind::kBytes;
  parts.ignore_merges = pre->ignore_merges;
  adds_bos = pre->adds_bos;
  ULLAGE_TRY(const std::vector<std::string_view> merges, gguf.get_strings("tokenizer.ggml.merges"));
  const std::string merges_where = gguf.where("tokenizer.ggml.merges");
  MergeNames names;
  names.reserve(merges.size());
  for (const std::string_view merge : merges) {
    ULLAGE_TRY(auto pair, split_merge(merge, names.size(), merges_where));
    names.push_back(std::move(pair));
  }
  ULLAGE_TRY(parts.merges, find_merges(names, parts.vocabulary, merges_where));
  return {};
}

Result<void> read_sentencepiece(const GgufFile& gguf, TokenizerParts& parts, bool& adds_bos) {
  parts.kind = BpeKind::kScored;
  parts.byte_fallback = true;
  adds_bos = true;
  ULLAGE_TRY(const std::vector<double> scores, gguf.get_doubles("tokenizer.ggml.scores"));
  if (static_cast<int64_t>(scores.size()) != parts.vocabulary.size()) {
    return Error{ErrorCode::kCorrupt,
                 fmt::format("found {} scores for {} tokens", scores.size(), parts.vocabulary.size()),
                 gguf.where("tokenizer.ggml.scores")};
  }
  for (const double score : scores) {
    // A NaN would break the heap's order.
    parts.scores.push_back(score == score ? static_cast<float>(score) : -1e30f);
  }
  ULLAGE_TRY(const bool adds_space, gguf.get_bool("tokenizer.ggml.add_space_prefix", true));
  if (adds_space) parts.normalizer.push_back({NormalizerStep::Kind::kPrepend, {}, "", std::string(kSpaceMark)});
  parts.normalizer.push_back({NormalizerStep::Kind::kReplace, {}, " ", std::string(kSpaceMark)});
  parts.strips_first_space = adds_space;
  return {};
}

// Tokens that end a turn, by the names the families give them: files often have only one of several as their eos.
bool ends_turn(std::string_view name) {
  return name == "<|im_end|>" || name == "<|eot_id|>" || name == "<|eom_id|>" || name == "<end_of_turn>";
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_tokenizer_gguf(const GgufFile& gguf, std::span<const TokenId> eos) {
  ULLAGE_TRY(const std::string_view model, gguf.get_string("tokenizer.ggml.model", ""));
  if (model.empty()) {
    return Error{ErrorCode::kUnsupported, "is missing: the file has no tokenizer; take another file of the model",
                 gguf.where("tokenizer.ggml.model")};
  }
  const bool is_sentencepiece = model == "llama";
  if (model != "gpt2" && !is_sentencepiece) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format(
            "found the tokenizer model \"{}\"; supported are gpt2 (byte-level BPE) and llama (SentencePiece BPE)",
            model),
        gguf.where("tokenizer.ggml.model")};
  }
  const std::string tokens_where = gguf.where("tokenizer.ggml.tokens");
  ULLAGE_TRY(const std::vector<std::string_view> tokens, gguf.get_strings("tokenizer.ggml.tokens"));
  if (tokens.empty())
    return Error{ErrorCode::kCorrupt, "the file has no tokens; expected the vocabulary", tokens_where};
  TokenizerParts parts;
  ULLAGE_TRY(parts.vocabulary, Vocabulary::make(std::vector<std::string>(tokens.begin(), tokens.end()), tokens_where));

  bool adds_bos = false;
  ULLAGE_TRY_VOID(is_sentencepiece ? read_sentencepiece(gguf, parts, adds_bos)
                                   : read_byte_level(gguf, parts, adds_bos));
  ULLAGE_TRY(parts.bos, get_token(gguf, "tokenizer.ggml.bos_token_id",
                                  is_sentencepiece && parts.vocabulary.size() > 2 ? 1 : kNoToken, parts.vocabulary));
  ULLAGE_TRY(const TokenId eos_token,
             get_token(gguf, "tokenizer.ggml.eos_token_id",
                       is_sentencepiece && parts.vocabulary.size() > 2 ? 2 : kNoToken, parts.vocabulary));
  // Byte-level files name an unknown token too, but their tokenizers leave out what they cannot spell.
  if (is_sentencepiece) {
    ULLAGE_TRY(parts.unknown, get_token(gguf, "tokenizer.ggml.unknown_token_id", 0, parts.vocabulary));
  }
  ULLAGE_TRY(const TokenId eot, get_token(gguf, "tokenizer.ggml.eot_token_id", kNoToken, parts.vocabulary));
  ULLAGE_TRY(const TokenId eom, get_token(gguf, "tokenizer.ggml.eom_token_id", kNoToken, parts.vocabulary));
  ULLAGE_TRY(adds_bos, gguf.get_bool("tokenizer.ggml.add_bos_token", adds_bos));
  ULLAGE_TRY(const bool adds_eos, gguf.get_bool("tokenizer.ggml.add_eos_token", false));
  if (adds_bos && parts.bos != kNoToken) parts.prefix.push_back(parts.bos);
  if (adds_eos && eos_token != kNoToken) parts.suffix.push_back(eos_token);

  parts.eos.assign(eos.begin(), eos.end());
  for (const TokenId id : {eos_token, eot, eom}) {
    if (id != kNoToken) parts.eos.push_back(id);
  }
  ULLAGE_TRY(const std::vector<int64_t> types, gguf.get_ints("tokenizer.ggml.token_type"));
  if (!types.empty() && types.size() != tokens.size()) {
    return Error{ErrorCode::kCorrupt, fmt::format("found {} types for {} tokens", types.size(), tokens.size()),
                 gguf.where("tokenizer.ggml.token_type")};
  }
  for (TokenId id = 0; id < parts.vocabulary.size(); ++id) {
    const std::string_view name = parts.vocabulary.name(id);
    const bool is_named = id == parts.bos || id == eos_token || (is_sentencepiece && id == parts.unknown);
    const int64_t type = !types.empty() ? types[static_cast<size_t>(id)] : is_named ? kControlType : 1;
    const bool is_special = type == kControlType || type == kUnknownType;
    if (is_sentencepiece && (is_special || type == kByteType)) parts.scores[static_cast<size_t>(id)] = kNeverMerged;
    if (!is_special && type != kUserDefinedType) continue;
    if (is_special && ends_turn(name)) parts.eos.push_back(id);
    // What is not text cannot stand in a text; it keeps its id but is never found.
    if (!is_valid_utf8(name)) continue;
    parts.added.push_back({std::string(name), id, is_special});
  }
  std::sort(parts.eos.begin(), parts.eos.end());
  parts.eos.erase(std::unique(parts.eos.begin(), parts.eos.end()), parts.eos.end());
  ULLAGE_TRY(auto tokenizer, BpeTokenizer::make(std::move(parts), tokens_where));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace ullage::text
