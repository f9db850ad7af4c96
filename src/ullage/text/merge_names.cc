#include "ullage/text/merge_names.h"

#include <fmt/format.h>

namespace ullage::text {

Result<std::pair<std::string, std::string>> split_merge(std::string_view merge, size_t index, std::string_view where) {
  const size_t space = merge.find(' ');
  if (space == 0 || space == std::string_view::npos || space + 1 == merge.size() ||
      merge.find(' ', space + 1) != std::string_view::npos) {
    return Error{ErrorCode::kCorrupt,
                 fmt::format("merge {} is \"{}\"; expected two tokens with one space between", index, merge),
                 std::string(where)};
  }
  return std::pair(std::string(merge.substr(0, space)), std::string(merge.substr(space + 1)));
}

Result<std::vector<Merge>> find_merges(const MergeNames& names, const Vocabulary& vocabulary, std::string_view where) {
  std::vector<Merge> merges;
  merges.reserve(names.size());
  std::string joined;
  for (const auto& [left, right] : names) {
    joined = left;
    joined += right;
    const Merge merge{vocabulary.find(left), vocabulary.find(right), vocabulary.find(joined)};
    if (left.empty() || right.empty() || merge.left < 0 || merge.right < 0 || merge.result < 0) {
      return Error{
          ErrorCode::kCorrupt,
          fmt::format("merge {} joins \"{}\" and \"{}\"; expected both, and \"{}\", to be tokens of the vocabulary",
                      merges.size(), left, right, joined),
          std::string(where)};
    }
    merges.push_back(merge);
  }
  return merges;
}

}  // namespace ullage::text
