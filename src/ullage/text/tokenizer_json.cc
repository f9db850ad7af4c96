#include "ullage/text/tokenizer_json.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/log.h"
#include "ullage/text/bpe_tokenizer.h"
#include "ullage/text/json_fields.h"
#include "ullage/text/merge_names.h"
#include "ullage/text/tokenizer_json_steps.h"

namespace ullage::text {
namespace {

using VocabularyEntries = std::vector<std::pair<std::string, int64_t>>;

Result<VocabularyEntries> read_vocabulary(const SortedJson& model, const std::string& where) {
  const SortedJson* const vocab = find_field(model, "vocab");
  if (!vocab || !vocab->is_object()) {
    return Error{ErrorCode::kCorrupt, "expected an object of tokens and their ids", where + "/vocab"};
  }
  VocabularyEntries entries;
  entries.reserve(vocab->size());
  for (const auto& [name, id] : vocab->items()) {
    if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > INT64_MAX)) {
      return wrong_json_type(id, fmt::format("a whole number as the id of \"{}\"", name), where + "/vocab");
    }
    entries.emplace_back(name, id.get<int64_t>());
  }
  return entries;
}

Result<MergeNames> read_merges(const SortedJson& model, const std::string& where) {
  const SortedJson* const merges = find_field(model, "merges");
  const std::string place = where + "/merges";
  if (!merges || !merges->is_array()) return Error{ErrorCode::kCorrupt, "expected a list of merges", place};
  MergeNames names;
  names.reserve(merges->size());
  for (const SortedJson& merge : *merges) {
    if (merge.is_string()) {
      ULLAGE_TRY(auto pair, split_merge(merge.get_ref<const std::string&>(), names.size(), place));
      names.push_back(std::move(pair));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      names.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    } else {
      return wrong_json_type(merge, "\"left right\" or [\"left\", \"right\"]",
                             fmt::format("{}/{}", place, names.size()));
    }
  }
  return names;
}

// A tokenizer_config.json gives a token as its text, or as an object with its "content".
Result<std::string> token_text_field(const SortedJson& json, const char* key, const std::string& where) {
  const SortedJson* const value = find_field(json, key);
  if (value && value->is_object()) return string_field(*value, "content", "", fmt::format("{}/{}", where, key));
  return string_field(json, key, "", where);
}

Result<AddedToken> read_added_token(const SortedJson& json, const std::string& where) {
  AddedToken token;
  ULLAGE_TRY(token.content, string_field(json, "content", "", where));
  ULLAGE_TRY(token.is_special, bool_field(json, "special", false, where));
  ULLAGE_TRY(token.is_normalized, bool_field(json, "normalized", !token.is_special, where));
  ULLAGE_TRY(token.strips_left, bool_field(json, "lstrip", false, where));
  ULLAGE_TRY(token.strips_right, bool_field(json, "rstrip", false, where));
  ULLAGE_TRY(token.is_single_word, bool_field(json, "single_word", false, where));
  return token;
}

// Gathers the added tokens of both files, and gives those that the model's vocabulary lacks their place in it.
class AddedTokenReader {
 public:
  explicit AddedTokenReader(VocabularyEntries& entries) : entries_(entries) {
    for (const auto& [name, id] : entries) ids_.emplace(name, id);
  }

  Result<void> add(AddedToken token, int64_t id, const std::string& where) {
    if (token.content.empty()) return {};
    const auto [it, is_new] = ids_.emplace(token.content, id);
    if (is_new) {
      entries_.emplace_back(token.content, id);
    } else if (it->second != id) {
      log(LogLevel::kWarning,
          fmt::format("{}: the added token \"{}\" says its id is {}, the vocabulary says {}; the vocabulary counts",
                      where, token.content, id, it->second));
    }
    if (it->second < 0 || it->second > INT32_MAX) {
      return Error{ErrorCode::kCorrupt, fmt::format("the added token \"{}\" has the id {}", token.content, it->second),
                   where};
    }
    token.id = static_cast<TokenId>(it->second);
    if (!seen_.emplace(token.content, 0).second) return {};  // the first file counts
    tokens.push_back(std::move(token));
    return {};
  }

  // Marks a token of the vocabulary as special, unless it is an added token already.
  void add_named(const std::string& content) {
    const auto it = ids_.find(content);
    if (it == ids_.end() || it->second < 0 || it->second > INT32_MAX || !seen_.emplace(content, 0).second) return;
    tokens.push_back({content, static_cast<TokenId>(it->second), /*is_special=*/true});
  }

  std::vector<AddedToken> tokens;

 private:
  VocabularyEntries& entries_;
  std::unordered_map<std::string, int64_t> ids_;
  std::unordered_map<std::string, int> seen_;
};

Result<void> read_added_tokens(const SortedJson& json, const SortedJson& config, AddedTokenReader& reader,
                               const std::string& where) {
  if (const SortedJson* const list = find_field(json, "added_tokens")) {
    if (!list->is_array()) return wrong_json_type(*list, "a list", where + "/added_tokens");
    size_t i = 0;
    for (const SortedJson& item : *list) {
      const std::string place = fmt::format("{}/added_tokens/{}", where, i++);
      ULLAGE_TRY(AddedToken token, read_added_token(item, place));
      ULLAGE_TRY(const int64_t id, int_field(item, "id", -1, place));
      ULLAGE_TRY_VOID(reader.add(std::move(token), id, place));
    }
  }
  const std::string config_where = where + " (tokenizer_config.json)";
  if (const SortedJson* const decoder = find_field(config, "added_tokens_decoder"); decoder && decoder->is_object()) {
    for (const auto& [key, item] : decoder->items()) {
      const std::string place = fmt::format("{}/added_tokens_decoder/{}", config_where, key);
      ULLAGE_TRY(AddedToken token, read_added_token(item, place));
      if (key.empty() || key.size() > 9 ||
          !std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; })) {
        return Error{ErrorCode::kCorrupt, "expected a token's id as the key", place};
      }
      ULLAGE_TRY_VOID(reader.add(std::move(token), std::stol(key), place));
    }
  }
  for (const char* const key : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
    ULLAGE_TRY(const std::string content, token_text_field(config, key, config_where));
    reader.add_named(content);
  }
  return {};
}

// One item of a TemplateProcessing: {"Sequence": ...} or {"SpecialToken": {"id": "<s>"}}.
Result<void> read_template(const SortedJson& json, const Vocabulary& vocabulary, TokenizerParts& parts,
                           const std::string& where) {
  const SortedJson* const single = find_field(json, "single");
  if (!single || !single->is_array()) return Error{ErrorCode::kCorrupt, "expected a list", where + "/single"};
  const SortedJson* const specials = find_field(json, "special_tokens");
  bool is_after = false;
  for (const SortedJson& item : *single) {
    if (find_field(item, "Sequence")) {
      is_after = true;
      continue;
    }
    const SortedJson* const special = find_field(item, "SpecialToken");
    if (!special) return wrong_json_type(item, "a Sequence or a SpecialToken", where + "/single");
    ULLAGE_TRY(const std::string name, string_field(*special, "id", "", where + "/single"));
    std::vector<TokenId>& out = is_after ? parts.suffix : parts.prefix;
    const SortedJson* const entry = specials ? find_field(*specials, name.c_str()) : nullptr;
    const SortedJson* const ids = entry ? find_field(*entry, "ids") : nullptr;
    if (!ids || !ids->is_array()) {
      return Error{ErrorCode::kCorrupt, fmt::format("expected the ids of \"{}\"", name), where + "/special_tokens"};
    }
    for (const SortedJson& id : *ids) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(vocabulary.size())) {
        return Error{ErrorCode::kCorrupt,
                     fmt::format("\"{}\" has an id outside the vocabulary of {}", name, vocabulary.size()),
                     where + "/special_tokens"};
      }
      out.push_back(id.get<TokenId>());
    }
  }
  return {};
}

Result<void> read_post_processor(const SortedJson& json, const Vocabulary& vocabulary, TokenizerParts& parts,
                                 const std::string& where) {
  ULLAGE_TRY(const std::string type, string_field(json, "type", "", where));
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return read_template(json, vocabulary, parts, where);
  if (type == "Sequence") {
    const SortedJson* const list = find_field(json, "processors");
    if (!list || !list->is_array()) return Error{ErrorCode::kCorrupt, "expected a list", where + "/processors"};
    for (const SortedJson& item : *list)
      ULLAGE_TRY_VOID(read_post_processor(item, vocabulary, parts, where + "/processors"));
    return {};
  }
  return Error{ErrorCode::kUnsupported,
               fmt::format("found the type \"{}\"; supported are Sequence, TemplateProcessing and ByteLevel", type),
               where};
}

// transformers rebuilds the post-processor when tokenizer_config.json says add_bos_token or add_eos_token.
Result<void> apply_config(const SortedJson& config, bool has_post_processor, TokenizerParts& parts,
                          const std::string& where) {
  const std::string place = where + " (tokenizer_config.json)";
  ULLAGE_TRY(const std::string bos, token_text_field(config, "bos_token", place));
  ULLAGE_TRY(const std::string eos, token_text_field(config, "eos_token", place));
  parts.bos = parts.vocabulary.find(bos);
  const TokenId eos_id = parts.vocabulary.find(eos);
  if (eos_id != kNoToken) parts.eos.push_back(eos_id);
  ULLAGE_TRY(const bool adds_bos, bool_field(config, "add_bos_token", false, place));
  ULLAGE_TRY(const bool adds_eos, bool_field(config, "add_eos_token", false, place));
  if (find_field(config, "add_bos_token") || find_field(config, "add_eos_token") || !has_post_processor) {
    parts.prefix.clear();
    parts.suffix.clear();
    if (adds_bos && parts.bos != kNoToken) parts.prefix.push_back(parts.bos);
    if (adds_eos && eos_id != kNoToken) parts.suffix.push_back(eos_id);
  }
  // A file without a config still says its BOS when it puts one before every text.
  if (parts.bos == kNoToken && parts.prefix.size() == 1) parts.bos = parts.prefix[0];
  return {};
}

Result<void> read_model(const SortedJson& model, TokenizerParts& parts, const std::string& where) {
  for (const char* const key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    ULLAGE_TRY(const std::string affix, string_field(model, key, "", where));
    if (!affix.empty()) {
      return Error{ErrorCode::kUnsupported, fmt::format("found \"{}\"; supported is none", affix),
                   fmt::format("{}/{}", where, key)};
    }
  }
  ULLAGE_TRY(parts.ignore_merges, bool_field(model, "ignore_merges", false, where));
  ULLAGE_TRY(parts.byte_fallback, bool_field(model, "byte_fallback", false, where));
  ULLAGE_TRY(parts.fuse_unknown, bool_field(model, "fuse_unk", false, where));
  ULLAGE_TRY(const std::string unknown, string_field(model, "unk_token", "", where));
  if (!unknown.empty()) parts.unknown = parts.vocabulary.find(unknown);
  ULLAGE_TRY(const MergeNames merges, read_merges(model, where));
  ULLAGE_TRY(parts.merges, find_merges(merges, parts.vocabulary, where + "/merges"));
  return {};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_tokenizer_json(std::string_view text, std::string_view config_text,
                                                       std::string_view where_view, std::span<const TokenId> eos) {
  const std::string where(where_view);
  ULLAGE_TRY(const SortedJson json, parse_sorted_json(text, where));
  SortedJson config;
  if (!config_text.empty()) {
    ULLAGE_TRY(config, parse_sorted_json(config_text, where + " (tokenizer_config.json)"));
  }
  const SortedJson* const model = find_field(json, "model");
  const std::string model_where = where + "/model";
  if (!model) return Error{ErrorCode::kCorrupt, "expected a tokenizer.json with a \"model\"", where};
  // Old files do not name the type; only BPE has merges.
  ULLAGE_TRY(const std::string type,
             string_field(*model, "type", find_field(*model, "merges") ? "BPE" : "", model_where));
  if (type != "BPE") {
    return Error{ErrorCode::kUnsupported, fmt::format("found the tokenizer model \"{}\"; supported is BPE", type),
                 model_where + "/type"};
  }
  TokenizerParts parts;
  StepFacts facts;
  if (const SortedJson* const n = find_field(json, "normalizer")) {
    ULLAGE_TRY_VOID(read_normalizer(*n, parts.normalizer, where + "/normalizer"));
  }
  if (const SortedJson* const p = find_field(json, "pre_tokenizer")) {
    ULLAGE_TRY_VOID(read_pre_tokenizer(*p, parts.pre_tokenizer, facts, where + "/pre_tokenizer"));
  }
  if (const SortedJson* const d = find_field(json, "decoder")) {
    ULLAGE_TRY_VOID(read_decoder(*d, facts, where + "/decoder"));
  }
  parts.kind = facts.is_byte_level ? BpeKind::kBytes : BpeKind::kChars;
  parts.strips_first_space = facts.strips_first_space;

  ULLAGE_TRY(VocabularyEntries entries, read_vocabulary(*model, model_where));
  AddedTokenReader added(entries);
  ULLAGE_TRY_VOID(read_added_tokens(json, config, added, where));
  parts.added = std::move(added.tokens);
  ULLAGE_TRY(parts.vocabulary, Vocabulary::make(std::move(entries), model_where + "/vocab"));
  ULLAGE_TRY_VOID(read_model(*model, parts, model_where));
  const SortedJson* const post = find_field(json, "post_processor");
  if (post) ULLAGE_TRY_VOID(read_post_processor(*post, parts.vocabulary, parts, where + "/post_processor"));
  parts.eos.assign(eos.begin(), eos.end());
  ULLAGE_TRY_VOID(apply_config(config, post != nullptr, parts, where));
  std::sort(parts.eos.begin(), parts.eos.end());
  parts.eos.erase(std::unique(parts.eos.begin(), parts.eos.end()), parts.eos.end());
  ULLAGE_TRY(auto tokenizer, BpeTokenizer::make(std::move(parts), where));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace ullage::text
