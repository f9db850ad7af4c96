#include "ullage/text/vocabulary.h"

#include <algorithm>

#include <fmt/format.h>

namespace ullage::text {
namespace {

// The largest vocabularies in use have some 260,000 entries.
constexpr int64_t kMaxTokens = int64_t{1} << 23;
// Models pad their embedding beyond the tokens in use; no known one leaves gaps anywhere near this.
constexpr int64_t kMaxGaps = int64_t{1} << 20;

}  // namespace

Result<Vocabulary> Vocabulary::make(std::vector<std::pair<std::string, int64_t>> entries, std::string_view where) {
  const auto num_entries = static_cast<int64_t>(entries.size());
  if (num_entries > kMaxTokens) {
    return Error{ErrorCode::kTooLarge,
                 fmt::format("the vocabulary has {} tokens, over the limit of {}", num_entries, kMaxTokens),
                 std::string(where)};
  }
  int64_t largest = -1;
  for (const auto& [name, id] : entries) {
    if (id < 0 || id >= num_entries + kMaxGaps) {
      return Error{ErrorCode::kCorrupt,
                   fmt::format("token \"{}\" has the id {}; expected an id from 0 to about the number of tokens ({})",
                               name, id, num_entries),
                   std::string(where)};
    }
    largest = std::max(largest, id);
  }
  Vocabulary vocabulary;
  vocabulary.names_.resize(static_cast<size_t>(largest + 1));
  std::vector<bool> taken(static_cast<size_t>(largest + 1));
  for (auto& [name, id] : entries) {
    const auto slot = static_cast<size_t>(id);
    if (taken[slot] && vocabulary.names_[slot] != name) {
      return Error{ErrorCode::kCorrupt,
                   fmt::format("the id {} belongs to two tokens, \"{}\" and \"{}\"", id, vocabulary.names_[slot], name),
                   std::string(where)};
    }
    taken[slot] = true;
    vocabulary.names_[slot] = std::move(name);
  }
  for (size_t i = 0; i < vocabulary.names_.size(); ++i) {
    if (taken[i]) vocabulary.ids_[vocabulary.names_[i]] = static_cast<TokenId>(i);
  }
  return vocabulary;
}

Result<Vocabulary> Vocabulary::make(std::vector<std::string> names, std::string_view where) {
  if (static_cast<int64_t>(names.size()) > kMaxTokens) {
    return Error{ErrorCode::kTooLarge,
                 fmt::format("the vocabulary has {} tokens, over the limit of {}", names.size(), kMaxTokens),
                 std::string(where)};
  }
  Vocabulary vocabulary;
  vocabulary.names_ = std::move(names);
  for (size_t i = 0; i < vocabulary.names_.size(); ++i) {
    vocabulary.ids_[vocabulary.names_[i]] = static_cast<TokenId>(i);
  }
  return vocabulary;
}

}  // namespace ullage::text
