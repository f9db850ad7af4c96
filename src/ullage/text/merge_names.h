// Merges as files spell them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/text/merge_table.h"
#include "ullage/text/vocabulary.h"

namespace ullage::text {

using MergeNames = std::vector<std::pair<std::string, std::string>>;

// "a b" as two spellings; an Error when it is not two spellings with one space between.
Result<std::pair<std::string, std::string>> split_merge(std::string_view merge, size_t index, std::string_view where);
// An Error names the first merge with a part, or a result, outside the vocabulary. A merge always makes a longer
// spelling, so that no order of them can run in circles.
Result<std::vector<Merge>> find_merges(const MergeNames& names, const Vocabulary& vocabulary, std::string_view where);

}  // namespace ullage::text
