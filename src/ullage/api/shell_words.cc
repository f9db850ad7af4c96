#include "ullage/api/shell_words.h"

#include <utility>

#include <fmt/format.h>

namespace ullage::api {
namespace {

constexpr size_t kMaxWords = 4096;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool ends_command(char c) { return c == ';' || c == '|' || c == '&' || c == '>' || c == '<' || c == '\n'; }

// Reads one line from left to right.
class Splitter {
 public:
  Splitter(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  Result<std::vector<std::string>> split() {
    std::vector<std::string> words;
    while (skip_blanks(words.empty())) {
      ULLAGE_TRY(std::string word, read_word());
      words.push_back(std::move(word));
      if (words.size() > kMaxWords) {
        return Error{ErrorCode::kTooLarge, fmt::format("has over {} words", kMaxWords), std::string(where_)};
      }
    }
    return words;
  }

 private:
  // To the next word; false when the command is over.
  bool skip_blanks(bool is_first) {
    while (i_ < text_.size()) {
      if (is_blank(text_[i_]) || (is_first && text_[i_] == '\n')) {
        ++i_;
      } else if (is_joined_line()) {
        i_ += line_break_length();
      } else if (text_[i_] == '#') {
        while (i_ < text_.size() && text_[i_] != '\n') ++i_;
      } else {
        return !ends_command(text_[i_]);
      }
    }
    return false;
  }

  // A backslash at the end of a line, carriage return or not.
  size_t line_break_length() const {
    if (i_ + 1 < text_.size() && text_[i_ + 1] == '\n') return 2;
    if (i_ + 2 < text_.size() && text_[i_ + 1] == '\r' && text_[i_ + 2] == '\n') return 3;
    return 0;
  }
  bool is_joined_line() const { return text_[i_] == '\\' && line_break_length() > 0; }

  Result<std::string> read_word() {
    std::string word;
    while (i_ < text_.size() && !is_blank(text_[i_]) && !ends_command(text_[i_])) {
      const char c = text_[i_];
      if (c == '\'' || c == '"') {
        ULLAGE_TRY_VOID(read_quoted(c, &word));
      } else if (is_joined_line()) {
        i_ += line_break_length();
      } else if (c == '\\' && i_ + 1 < text_.size()) {
        word += text_[i_ + 1];
        i_ += 2;
      } else {
        word += c;
        ++i_;
      }
    }
    return word;
  }

  Result<void> read_quoted(char quote, std::string* word) {
    const size_t start = i_++;
    while (i_ < text_.size() && text_[i_] != quote) {
      if (quote == '"' && text_[i_] == '\\' && i_ + 1 < text_.size()) {
        const char next = text_[i_ + 1];
        if (next == '"' || next == '\\' || next == '$' || next == '`') {
          *word += next;
        } else if (next != '\n') {
          *word += '\\';
          *word += next;
        }
        i_ += 2;
        continue;
      }
      *word += text_[i_++];
    }
    if (i_ == text_.size()) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("has a quote ({}) at character {} that does not end; close it", quote, start + 1),
                   std::string(where_)};
    }
    ++i_;
    return {};
  }

  std::string_view text_;
  std::string_view where_;
  size_t i_ = 0;
};

}  // namespace

Result<std::vector<std::string>> split_shell_words(std::string_view line, std::string_view where) {
  return Splitter(line, where).split();
}

std::string quote_shell_word(std::string_view word) {
  static constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace ullage::api
