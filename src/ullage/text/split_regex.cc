#include "ullage/text/split_regex.h"

#include <algorithm>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <fmt/format.h>

namespace ullage::text {

const std::string_view kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string_view kDigitPattern = R"(\p{N})";

namespace {

constexpr size_t kMaxPatternBytes = 16384;
// A stranger's pattern gets few steps and a short stretch of text at each place at first, and eight times more whenever
// it hits either bound. What it was given is what it is charged; all tries of one text together stay within the budget.
// Patterns in use take some ten steps a try.
constexpr uint32_t kFirstLimit = 16;  // of PCRE2's steps
constexpr size_t kFirstWindow = 128;  // of bytes that a try may look at
constexpr uint32_t kLargestLimit = uint32_t{1} << 30;
constexpr int64_t kBytesPerStep = 16;  // a scan over a run of characters is not counted in steps
constexpr int64_t kBudgetBase = int64_t{1} << 23;
constexpr int64_t kBudgetPerByte = 256;

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* p) const {
    Free(p);
  }
};
using MatchData = std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Freer<pcre2_compile_context_free>>;
using Code = std::unique_ptr<pcre2_code, Freer<pcre2_code_free>>;

// The beginning of the character that has the byte at `at`.
size_t char_begin(std::string_view text, size_t at) {
  while (at > 0 && at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool is_known_pattern(std::string_view pattern) {
  return pattern == kGpt2Pattern || pattern == kLlama3Pattern || pattern == kQwen2Pattern || pattern == kDigitPattern;
}

}  // namespace

struct RegexScratch::State {
  MatchData match;
  MatchContext context;
  int64_t budget = 0;
};

RegexScratch::RegexScratch(size_t text_bytes) : state_(std::make_unique<State>()) {
  state_->match.reset(pcre2_match_data_create(1, nullptr));
  state_->budget = kBudgetBase + kBudgetPerByte * static_cast<int64_t>(text_bytes);
}
RegexScratch::~RegexScratch() = default;

struct SplitRegex::State {
  Code code;
  bool is_known = false;
  bool has_jit = false;
};

SplitRegex::SplitRegex(std::unique_ptr<State> state) : state_(std::move(state)) {}
SplitRegex::SplitRegex(SplitRegex&&) noexcept = default;
SplitRegex& SplitRegex::operator=(SplitRegex&&) noexcept = default;
SplitRegex::~SplitRegex() = default;

Result<std::string> to_pcre2_spelling(std::string_view pattern, std::string_view where) {
  // Unicode's White_Space; PCRE2's own \s also takes U+180E.
  constexpr std::string_view kSpace = R"(\p{Z}\x{09}-\x{0d}\x{85})";
  // Letters, marks, digits, joining punctuation, and the circled and squared letters that Unicode calls alphabetic.
  constexpr std::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149})"
                                     R"(\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
  constexpr std::string_view kHex = "0-9A-Fa-f";
  const auto refuse = [&](std::string_view what) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("the pattern uses {}, which Ullage does not translate: {}", what, pattern),
                 std::string(where)};
  };
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\') {
      if (next == '\0') return refuse("a backslash at its end");
      ++i;
      std::string_view set;
      if (next == 's' || next == 'S') set = kSpace;
      if (next == 'w' || next == 'W') set = kWord;
      if (next == 'h' || next == 'H') set = kHex;
      if (!in_class && (next == 'b' || next == 'B')) {
        const std::string word = fmt::format("[{}]", kWord);
        out += next == 'b' ? fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", word)
                           : fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", word);
      } else if (set.empty()) {
        out += c;
        out += next;
      } else if (in_class && next >= 'a') {
        out += set;
      } else if (in_class) {
        return refuse(fmt::format("\\{} inside brackets", next));
      } else {
        out += next >= 'a' ? "[" : "[^";
        out += set;
        out += ']';
      }
    } else if (in_class) {
      if (c == '[' && next != ':') return refuse("brackets inside brackets");
      if (c == '&' && next == '&') return refuse("&& inside brackets");
      out += c;
      if (c == '[') {  // [:alpha:]
        const size_t end = pattern.find(":]", i + 2);
        if (end == std::string_view::npos) return refuse("[: without :]");
        out += pattern.substr(i + 1, end + 2 - (i + 1));
        i = end + 1;
      } else if (c == ']') {
        in_class = false;
      }
    } else {
      if (c == '(' && next == '*') return refuse("(*");
      out += c;
      if (c == '[') {
        in_class = true;
        if (next == '^') out += pattern[++i];
        if (i + 1 < pattern.size() && pattern[i + 1] == ']') out += pattern[++i];
      }
    }
  }
  return out;
}

Result<SplitRegex> SplitRegex::make(std::string pattern, uint32_t options, bool is_known, std::string_view where) {
  if (pattern.size() > kMaxPatternBytes) {
    return Error{ErrorCode::kTooLarge,
                 fmt::format("the pattern has {} bytes, over the limit of {}", pattern.size(), kMaxPatternBytes),
                 std::string(where)};
  }
  const CompileContext context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  size_t offset = 0;
  auto state = std::make_unique<State>();
  state->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options | PCRE2_UTF,
                                  &error, &offset, context.get()));
  if (!state->code) {
    unsigned char message[128] = "";
    pcre2_get_error_message(error, message, sizeof message);
    return Error{ErrorCode::kCorrupt,
                 fmt::format("the pattern does not compile ({}, at byte {}): {}",
                             reinterpret_cast<const char*>(message), offset, pattern),
                 std::string(where)};
  }
  state->is_known = is_known;
  state->has_jit = is_known && pcre2_jit_compile(state->code.get(), PCRE2_JIT_COMPLETE) == 0;
  return SplitRegex(std::move(state));
}

Result<SplitRegex> SplitRegex::compile(std::string_view pattern, std::string_view where) {
  ULLAGE_TRY(std::string spelling, to_pcre2_spelling(pattern, where));
  // Ruby's ^ and $, which Oniguruma's default syntax has, match at every line.
  return make(std::move(spelling), PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, is_known_pattern(pattern),
              where);
}

Result<SplitRegex> SplitRegex::literal(std::string_view string, std::string_view where) {
  if (string.empty()) {
    return Error{ErrorCode::kCorrupt, "the string to split at is empty", std::string(where)};
  }
  return make(std::string(string), PCRE2_LITERAL, /*is_known=*/true, where);
}

void SplitRegex::split(std::string_view text, RegexScratch& scratch, std::vector<SplitSpan>& spans) const {
  spans.clear();
  RegexScratch::State& own = *scratch.state_;
  pcre2_code* const code = state_->code.get();
  pcre2_match_data* const match = own.match.get();
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());

  // The next match at or after `at`, in match data's first pair; false when there is none.
  const auto find_known = [&](size_t at) {
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    if (state_->has_jit) rc = pcre2_jit_match(code, subject, text.size(), at, 0, match, nullptr);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
      rc = pcre2_match(code, subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match, nullptr);
    }
    return rc >= 0;
  };
  // The same for a stranger: anchored at one place after the other, since PCRE2's limit holds for each starting place.
  const auto find_stranger = [&](size_t at) {
    if (!own.context) {
      own.context.reset(pcre2_match_context_create(nullptr));
      pcre2_set_heap_limit(own.context.get(), 64 * 1024);  // KiB
    }
    for (; at <= text.size(); ++at) {
      if (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) continue;
      uint32_t limit = kFirstLimit;
      size_t window = kFirstWindow;
      while (true) {
        const bool is_whole = window >= text.size() - at;
        const size_t end = is_whole ? text.size() : char_begin(text, at + window);
        const int64_t charge = limit + static_cast<int64_t>(end - at) / kBytesPerStep;
        if (own.budget < charge) return false;
        own.budget -= charge;
        pcre2_set_match_limit(own.context.get(), limit);
        // Partial matching tells when the match, or its failure, depends on text beyond the window.
        const uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED | (is_whole ? 0u : PCRE2_PARTIAL_HARD);
        const int rc = pcre2_match(code, subject, end, at, options, match, own.context.get());
        if (rc >= 0) return true;
        if (rc == PCRE2_ERROR_NOMATCH) break;
        if (rc == PCRE2_ERROR_PARTIAL)
          window *= 8;
        else if (rc == PCRE2_ERROR_MATCHLIMIT && limit < kLargestLimit)
          limit *= 8;
        else
          return false;
      }
    }
    return false;
  };

  size_t done = 0;
  size_t at = 0;
  while (at <= text.size() && (state_->is_known ? find_known(at) : find_stranger(at))) {
    const size_t* const pair = pcre2_get_ovector_pointer(match);
    const size_t begin = pair[0];
    const size_t end = pair[1];
    if (begin < done || end < begin || end > text.size()) break;  // \K can move a match's ends about
    if (begin > done) spans.push_back({done, begin, false});
    if (end > begin) spans.push_back({begin, end, true});
    done = end;
    at = end;
    if (end == begin) {  // an empty match: go on from the next character
      ++at;
      while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) ++at;
    }
  }
  if (done < text.size()) spans.push_back({done, text.size(), false});
}

}  // namespace ullage::text
