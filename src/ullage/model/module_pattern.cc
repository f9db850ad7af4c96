#include "ullage/model/module_pattern.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "ullage/base/ascii.h"
#include "ullage/base/quote.h"

namespace ullage::model {
namespace {

constexpr size_t kMaxPatternBytes = 4096;
constexpr int kMaxDepth = 32;
constexpr int64_t kMaxSteps = 20000;  // of one match: real patterns on real names need hundreds

// The number behind "layers." when the pattern spells it out up to a dot, a star or its end.
int64_t named_layer(std::string_view text) {
  constexpr std::string_view kKey = "layers.";
  const size_t at = text.find(kKey);
  if (at == std::string_view::npos) return -1;
  int64_t layer = 0;
  size_t i = at + kKey.size();
  const size_t begin = i;
  while (i < text.size() && is_digit(text[i]) && i - begin < 9) layer = layer * 10 + (text[i++] - '0');
  if (i == begin) return -1;
  // "layers.1*" also means layers 10 to 19.
  return i == text.size() || text[i] == '.' ? layer : -1;
}

// `text` with any number of stars against the whole of `name`.
bool glob_matches(std::string_view text, std::string_view name) {
  size_t t = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;
  size_t resume = 0;
  while (n < name.size()) {
    if (t < text.size() && text[t] == '*') {
      star = t++;
      resume = n;
    } else if (t < text.size() && (text[t] == name[n] || text[t] == '?')) {
      ++t;
      ++n;
    } else if (star != std::string_view::npos) {
      t = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (t < text.size() && text[t] == '*') ++t;
  return t == text.size();
}

// Whole parts of the dotted name: "mlp.gate" is in "layers.3.mlp.gate", "gate" is not in "mlp.gate_proj".
bool contains_parts(std::string_view name, std::string_view text) {
  size_t at = 0;
  while ((at = name.find(text, at)) != std::string_view::npos) {
    const size_t end = at + text.size();
    if ((at == 0 || name[at - 1] == '.') && (end == name.size() || name[end] == '.')) return true;
    ++at;
  }
  return false;
}

// A matcher of the regular expressions that checkpoints use, by backtracking with a bound. Works on the text itself:
// an expression is alternatives of sequences of repeated atoms. std::regex throws, recurses without bound and is not
// the same on every platform.
class Matcher {
 public:
  Matcher(std::string_view pattern, std::string_view name) : pattern_(pattern), name_(name) {}

  // As Python's re.match: from the beginning of the name, not necessarily to its end.
  bool run() {
    return alternatives(0, pattern_.size(), 0, [](size_t) { return true; });
  }

 private:
  // One past the atom at p: a class, a group, an escape or a character.
  size_t atom_end(size_t p, size_t end) const {
    if (pattern_[p] == '\\') return std::min(p + 2, end);
    if (pattern_[p] == '[') return class_end(p, end);
    if (pattern_[p] != '(') return p + 1;
    int depth = 0;
    while (p < end) {
      if (pattern_[p] == '(') ++depth;
      if (pattern_[p] == ')' && --depth == 0) return p + 1;
      p = pattern_[p] == '\\' ? p + 2 : pattern_[p] == '[' ? class_end(p, end) : p + 1;
    }
    return end;
  }

  size_t class_end(size_t p, size_t end) const {
    ++p;
    if (p < end && pattern_[p] == '^') ++p;
    if (p < end && pattern_[p] == ']') ++p;
    while (p < end && pattern_[p] != ']') p += pattern_[p] == '\\' ? 2 : 1;
    return std::min(p + 1, end);
  }

  static bool in_escape(char escape, char c) {
    const bool word = is_letter_or_digit(c) || c == '_';
    if (escape == 'd') return is_digit(c);
    if (escape == 'w') return word;
    if (escape == 'D') return !is_digit(c);
    if (escape == 'W') return !word;
    return escape == c;
  }

  bool in_class(size_t p, size_t end, char c) const {
    bool negated = false;
    bool found = false;
    ++p;
    if (p < end && pattern_[p] == '^') {
      negated = true;
      ++p;
    }
    for (; p + 1 < end; ++p) {
      if (pattern_[p] == '\\') {
        found = found || in_escape(pattern_[++p], c);
      } else if (p + 3 < end && pattern_[p + 1] == '-') {
        found = found || (pattern_[p] <= c && c <= pattern_[p + 2]);
        p += 2;
      } else {
        found = found || pattern_[p] == c;
      }
    }
    return found != negated;
  }

  bool one_matches(size_t p, size_t end, size_t n) const {
    if (n >= name_.size()) return false;
    if (pattern_[p] == '.') return true;
    if (pattern_[p] == '\\') return in_escape(pattern_[p + 1], name_[n]);
    if (pattern_[p] == '[') return in_class(p, end, name_[n]);
    return pattern_[p] == name_[n];
  }

  // `next` is what follows; templates would recurse in types, so it is a small interface.
  struct Next {
    virtual bool operator()(size_t n) = 0;

   protected:
    ~Next() = default;
  };
  template <class F>
  struct Then final : Next {
    explicit Then(F f) : f_(f) {}
    bool operator()(size_t n) override { return f_(n); }
    F f_;
  };

  template <class F>
  bool alternatives(size_t p, size_t end, size_t n, F next) {
    Then<F> then(next);
    return any_of(p, end, n, then);
  }

  bool any_of(size_t p, size_t end, size_t n, Next& next) {
    size_t begin = p;
    while (true) {
      size_t stop = begin;
      while (stop < end && pattern_[stop] != '|') stop = atom_end(stop, end);
      if (sequence(begin, stop, n, next)) return true;
      if (stop >= end) return false;
      begin = stop + 1;
    }
  }

  bool sequence(size_t p, size_t end, size_t n, Next& next) {
    const Nesting nesting(nesting_);
    if (--steps_ < 0 || nesting_ > kMaxNesting) return false;
    if (p >= end) return next(n);
    if (pattern_[p] == '^') return n == 0 && sequence(p + 1, end, n, next);
    if (pattern_[p] == '$') return n == name_.size() && sequence(p + 1, end, n, next);
    const size_t stop = atom_end(p, end);
    const std::string_view opening = pattern_.substr(p, 3);
    if (opening == "(?=" || opening == "(?!") {
      const bool is_ahead = alternatives(p + 3, stop - 1, n, [](size_t) { return true; });
      return is_ahead == (opening == "(?=") && sequence(stop, end, n, next);
    }
    const char repeat = stop < end ? pattern_[stop] : '\0';
    const bool has_repeat = repeat == '*' || repeat == '+' || repeat == '?';
    size_t rest = stop + (has_repeat ? 1 : 0);
    if (has_repeat && rest < end && pattern_[rest] == '?') ++rest;  // lazy: whether it matches is the same
    const size_t least = has_repeat && repeat != '+' ? 0 : 1;
    const size_t most = has_repeat && repeat != '?' ? name_.size() + 1 : 1;
    if (pattern_[p] == '(') return group(p, stop, end, rest, least, most, n, next);
    size_t count = 0;
    while (count < most && one_matches(p, stop, n + count)) ++count;
    for (; count + 1 > least; --count) {
      if (sequence(rest, end, n + count, next)) return true;
      if (count == 0 || steps_ < 0) break;
    }
    return false;
  }

  bool group(size_t p, size_t stop, size_t end, size_t rest, size_t least, size_t most, size_t n, Next& next) {
    const size_t inner = p + (pattern_.substr(p).starts_with("(?:") ? 3 : 1);
    if (most > 0) {
      const bool again = alternatives(inner, stop - 1, n, [&](size_t m) {
        if (m == n && least == 0) return false;  // a round that takes nothing would go on for ever
        return group(p, stop, end, rest, least > 0 ? least - 1 : 0, most - 1, m, next);
      });
      if (again) return true;
    }
    return least == 0 && sequence(rest, end, n, next);
  }

  struct Nesting {
    explicit Nesting(int& depth) : depth_(depth) { ++depth_; }
    ~Nesting() { --depth_; }
    int& depth_;
  };
  static constexpr int kMaxNesting = 600;  // calls in one another: bounds the stack
  std::string_view pattern_;
  std::string_view name_;
  int64_t steps_ = kMaxSteps;
  int nesting_ = 0;
};

// What in the expression is not handled; nothing when all is.
std::optional<std::string> find_unsupported(std::string_view text) {
  int depth = 0;
  bool follows_atom = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      if (i + 1 == text.size()) return "a backslash at its end";
      const char next = text[++i];
      if (is_digit(next) || next == 'b' || next == 'B' || next == 'A' || next == 'Z') return fmt::format("\\{}", next);
      if (next == 's' || next == 'S' || static_cast<unsigned char>(next) >= 0x80) return "an escape of a space";
      follows_atom = true;
    } else if (c == '[') {
      size_t end = i + 1;
      if (end < text.size() && text[end] == '^') ++end;
      if (end < text.size() && text[end] == ']') ++end;
      while (end < text.size() && text[end] != ']') end += text[end] == '\\' ? 2 : 1;
      if (end >= text.size()) return "a [ without its ]";
      i = end;
      follows_atom = true;
    } else if (c == '(') {
      if (++depth > kMaxDepth) return fmt::format("groups over {} deep", kMaxDepth);
      if (i + 1 < text.size() && text[i + 1] == '?') {
        const std::string_view opening = text.substr(i, 3);
        if (opening != "(?:" && opening != "(?=" && opening != "(?!") return quote(opening);
        i += 2;
      }
      follows_atom = false;
    } else if (c == ')') {
      if (--depth < 0) return "a ) without its (";
      follows_atom = true;
    } else if (c == '*' || c == '+' || c == '?') {
      if (!follows_atom) return fmt::format("{} with nothing to repeat", c);
      if (c != '?' && i + 1 < text.size() && text[i + 1] == '?') ++i;
      follows_atom = false;
    } else if (c == '{' || c == '}') {
      return "a counted repeat {}";
    } else {
      follows_atom = c != '|' && c != '^' && c != '$';
    }
  }
  if (depth > 0) return "a ( without its )";
  return std::nullopt;
}

}  // namespace

Result<ModulePattern> parse_module_pattern(std::string_view text, std::string_view where) {
  if (text.size() > kMaxPatternBytes) {
    return Error{ErrorCode::kTooLarge,
                 fmt::format("a pattern of {} bytes; {} are the most", text.size(), kMaxPatternBytes),
                 std::string(where)};
  }
  ModulePattern pattern;
  if (text.starts_with("re:")) {
    pattern.kind = ModulePattern::Kind::kRegex;
    text.remove_prefix(3);
    if (const auto problem = find_unsupported(text)) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("the pattern {} has {}, which is not handled: groups, alternatives, classes, escapes "
                               "and the repeats * + ? are",
                               quote(text), *problem),
                   std::string(where)};
    }
    pattern.text = text;
    return pattern;
  }
  if (text.find('*') != std::string_view::npos) pattern.kind = ModulePattern::Kind::kGlob;
  pattern.text = text;
  pattern.layer = named_layer(text);
  return pattern;
}

bool matches(const ModulePattern& pattern, std::string_view name) {
  switch (pattern.kind) {
    case ModulePattern::Kind::kName:
      return !pattern.text.empty() && contains_parts(name, pattern.text);
    case ModulePattern::Kind::kGlob: {
      if (glob_matches(pattern.text, name)) return true;
      // "model.layers.*.self_attn" means all that is in it.
      return !pattern.text.ends_with('*') && glob_matches(pattern.text + ".*", name);
    }
    case ModulePattern::Kind::kRegex:
      return Matcher(pattern.text, name).run();
  }
  return false;
}

}  // namespace ullage::model
