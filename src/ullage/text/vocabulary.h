// Token spellings and their ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ullage/base/ids.h"
#include "ullage/base/result.h"

namespace ullage::text {

inline constexpr TokenId kNoToken = -1;

// Ids may have gaps: those have the empty spelling and are found by no name. Immutable once built; any thread.
class Vocabulary {
 public:
  // Refuses ids that are negative, taken twice, or so large that the table would be mostly gaps.
  static Result<Vocabulary> make(std::vector<std::pair<std::string, int64_t>> entries, std::string_view where);
  // Ids are positions. A spelling met twice (GGUF files have such) is found as its last id.
  static Result<Vocabulary> make(std::vector<std::string> names, std::string_view where);

  TokenId find(std::string_view name) const {
    const auto it = ids_.find(name);
    return it == ids_.end() ? kNoToken : it->second;
  }
  std::string_view name(TokenId id) const { return contains(id) ? std::string_view(names_[id]) : std::string_view(); }
  bool contains(TokenId id) const { return id >= 0 && id < size(); }
  TokenId size() const { return static_cast<TokenId>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;                     // [size]; never changed, so that the views below stay good
  std::unordered_map<std::string_view, TokenId> ids_;  // looked up only, never walked
};

}  // namespace ullage::text
