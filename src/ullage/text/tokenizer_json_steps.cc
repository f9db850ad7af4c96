#include "ullage/text/tokenizer_json_steps.h"

#include <fmt/format.h>

#include "ullage/text/json_fields.h"

namespace ullage::text {
namespace {

Error unknown_type(std::string_view type, std::string_view supported, const std::string& where) {
  return Error{ErrorCode::kUnsupported, fmt::format("found the type \"{}\"; supported are {}", type, supported), where};
}

// Empty when there is none.
std::string_view type_of(const SortedJson& json) {
  const SortedJson* const type = find_field(json, "type");
  return type && type->is_string() ? std::string_view(type->get_ref<const std::string&>()) : std::string_view();
}

// {"String": "..."} or {"Regex": "..."}.
struct Pattern {
  std::string text;
  bool is_regex = false;
};
Result<Pattern> read_pattern(const SortedJson& json, const std::string& where) {
  const SortedJson* const pattern = find_field(json, "pattern");
  const std::string place = where + "/pattern";
  if (pattern && find_field(*pattern, "String")) {
    ULLAGE_TRY(std::string text, string_field(*pattern, "String", "", place));
    return Pattern{std::move(text), false};
  }
  if (pattern && find_field(*pattern, "Regex")) {
    ULLAGE_TRY(std::string text, string_field(*pattern, "Regex", "", place));
    return Pattern{std::move(text), true};
  }
  return Error{ErrorCode::kCorrupt, "expected a pattern that is {\"String\": ...} or {\"Regex\": ...}", place};
}

Result<void> add_regex(std::string_view pattern, bool is_regex, SplitBehavior behavior, bool invert,
                       std::vector<PreTokenizerStep>& steps, const std::string& where) {
  PreTokenizerStep step;
  ULLAGE_TRY(SplitRegex regex, is_regex ? SplitRegex::compile(pattern, where) : SplitRegex::literal(pattern, where));
  step.regex.push_back(std::move(regex));
  step.behavior = behavior;
  step.invert = invert;
  steps.push_back(std::move(step));
  return {};
}

Result<SplitBehavior> read_behavior(const SortedJson& json, const std::string& where) {
  ULLAGE_TRY(const std::string name, string_field(json, "behavior", "Isolated", where));
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return Error{
      ErrorCode::kUnsupported,
      fmt::format("found \"{}\"; supported are Isolated, Removed, MergedWithPrevious, MergedWithNext and Contiguous",
                  name),
      where + "/behavior"};
}

// Older files say "add_prefix_space" where newer ones have "prepend_scheme".
Result<PrependScheme> read_prepend_scheme(const SortedJson& json, const std::string& where) {
  ULLAGE_TRY(const bool adds_space, bool_field(json, "add_prefix_space", true, where));
  ULLAGE_TRY(const std::string scheme, string_field(json, "prepend_scheme", adds_space ? "always" : "never", where));
  if (scheme == "always") return PrependScheme::kAlways;
  if (scheme == "first") return PrependScheme::kFirst;
  if (scheme == "never") return PrependScheme::kNever;
  return Error{ErrorCode::kUnsupported, fmt::format("found \"{}\"; supported are always, first and never", scheme),
               where + "/prepend_scheme"};
}

Result<void> read_list(const SortedJson& json, const char* key, const std::string& where, auto read) {
  const SortedJson* const list = find_field(json, key);
  const std::string place = fmt::format("{}/{}", where, key);
  if (!list || !list->is_array()) return Error{ErrorCode::kCorrupt, "expected a list", place};
  size_t i = 0;
  for (const SortedJson& item : *list) ULLAGE_TRY_VOID(read(item, fmt::format("{}/{}", place, i++)));
  return {};
}

}  // namespace

Result<void> read_normalizer(const SortedJson& json, std::vector<NormalizerStep>& steps, const std::string& where) {
  using Kind = NormalizerStep::Kind;
  const std::string_view type = type_of(json);
  if (type == "Sequence") {
    return read_list(json, "normalizers", where, [&](const SortedJson& item, const std::string& place) {
      return read_normalizer(item, steps, place);
    });
  }
  if (type == "NFC") {
    steps.push_back({Kind::kNormalForm, NormalForm::kNfc, "", ""});
  } else if (type == "NFD") {
    steps.push_back({Kind::kNormalForm, NormalForm::kNfd, "", ""});
  } else if (type == "NFKC") {
    steps.push_back({Kind::kNormalForm, NormalForm::kNfkc, "", ""});
  } else if (type == "NFKD") {
    steps.push_back({Kind::kNormalForm, NormalForm::kNfkd, "", ""});
  } else if (type == "Prepend") {
    ULLAGE_TRY(std::string prepend, string_field(json, "prepend", "", where));
    steps.push_back({Kind::kPrepend, {}, "", std::move(prepend)});
  } else if (type == "Replace") {
    ULLAGE_TRY(Pattern pattern, read_pattern(json, where));
    if (pattern.is_regex || pattern.text.empty())
      return unknown_type("Replace of a regular expression", "Replace of a string", where);
    ULLAGE_TRY(std::string content, string_field(json, "content", "", where));
    steps.push_back({Kind::kReplace, {}, std::move(pattern.text), std::move(content)});
  } else {
    return unknown_type(type, "Sequence, NFC, NFD, NFKC, NFKD, Prepend and Replace", where);
  }
  return {};
}

Result<void> read_pre_tokenizer(const SortedJson& json, std::vector<PreTokenizerStep>& steps, StepFacts& facts,
                                const std::string& where) {
  const std::string_view type = type_of(json);
  if (type == "Sequence") {
    return read_list(json, "pretokenizers", where, [&](const SortedJson& item, const std::string& place) {
      return read_pre_tokenizer(item, steps, facts, place);
    });
  }
  if (facts.is_byte_level) {
    // It would see the text in GPT-2's alphabet.
    return Error{ErrorCode::kUnsupported, fmt::format("found \"{}\" after ByteLevel; ByteLevel must come last", type),
                 where};
  }
  if (type == "Split") {
    ULLAGE_TRY(const Pattern pattern, read_pattern(json, where));
    ULLAGE_TRY(const SplitBehavior behavior, read_behavior(json, where));
    ULLAGE_TRY(const bool invert, bool_field(json, "invert", false, where));
    return add_regex(pattern.text, pattern.is_regex, behavior, invert, steps, where + "/pattern");
  }
  if (type == "Digits") {
    ULLAGE_TRY(const bool individual, bool_field(json, "individual_digits", false, where));
    return add_regex(kDigitPattern, true, individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, false,
                     steps, where);
  }
  if (type == "ByteLevel") {
    facts.is_byte_level = true;
    ULLAGE_TRY(const bool adds_space, bool_field(json, "add_prefix_space", true, where));
    ULLAGE_TRY(const bool has_regex, bool_field(json, "use_regex", true, where));
    if (adds_space) steps.emplace_back().kind = PreTokenizerStep::Kind::kPrefixSpace;
    if (has_regex) return add_regex(kGpt2Pattern, true, SplitBehavior::kIsolated, false, steps, where);
    return {};
  }
  if (type == "Metaspace") {
    PreTokenizerStep step;
    step.kind = PreTokenizerStep::Kind::kMetaspace;
    ULLAGE_TRY(step.replacement, string_field(json, "replacement", kSpaceMark, where));
    if (step.replacement.empty())
      return Error{ErrorCode::kCorrupt, "the replacement is empty; expected one character", where + "/replacement"};
    ULLAGE_TRY(step.prepend, read_prepend_scheme(json, where));
    ULLAGE_TRY(step.split, bool_field(json, "split", true, where));
    steps.push_back(std::move(step));
    return {};
  }
  return unknown_type(type, "Sequence, Split, Digits, ByteLevel and Metaspace", where);
}

Result<void> read_decoder(const SortedJson& json, StepFacts& facts, const std::string& where) {
  const std::string_view type = type_of(json);
  if (type == "Sequence") {
    return read_list(json, "decoders", where, [&](const SortedJson& item, const std::string& place) {
      return read_decoder(item, facts, place);
    });
  }
  if (type == "Metaspace") {
    ULLAGE_TRY(const PrependScheme scheme, read_prepend_scheme(json, where));
    facts.strips_first_space = scheme != PrependScheme::kNever;
  } else if (type == "Strip") {
    ULLAGE_TRY(const std::string content, string_field(json, "content", "", where));
    ULLAGE_TRY(const int64_t start, int_field(json, "start", 0, where));
    ULLAGE_TRY(const int64_t stop, int_field(json, "stop", 0, where));
    if (content != " " || start < 0 || start > 1 || stop != 0) {
      return unknown_type(fmt::format("Strip of {} \"{}\" before and {} after", start, content, stop),
                          "Strip of one space before", where);
    }
    facts.strips_first_space = start == 1;
  } else if (type == "Replace") {
    ULLAGE_TRY(const Pattern pattern, read_pattern(json, where));
    ULLAGE_TRY(const std::string content, string_field(json, "content", "", where));
    if (pattern.is_regex || pattern.text != kSpaceMark || content != " ") {
      return unknown_type("Replace", fmt::format("Replace of {} by a space", kSpaceMark), where);
    }
  } else if (type != "ByteLevel" && type != "ByteFallback" && type != "Fuse") {
    return unknown_type(type, "Sequence, ByteLevel, ByteFallback, Fuse, Metaspace, Replace and Strip", where);
  }
  return {};
}

}  // namespace ullage::text
