#include "ullage/base/near_names.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace ullage {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::string near_names(std::string_view wanted, std::span<const NamedThing> things, size_t count) {
  std::vector<std::pair<size_t, std::string_view>> ranked;
  ranked.reserve(things.size());
  for (const NamedThing& thing : things) {
    size_t best = SIZE_MAX;
    for (const std::string& spelling : thing.spellings) {
      const bool is_part = !wanted.empty() && !spelling.empty() &&
                           (spelling.find(wanted) != std::string::npos || wanted.find(spelling) != std::string::npos);
      // "a100" in "a100pcie80gb" is nearer than any edit.
      best = std::min(best, is_part ? 0 : edit_distance(wanted, spelling));
    }
    ranked.emplace_back(best, thing.name);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (size_t i = 0; i < std::min(ranked.size(), count); ++i) {
    if (i > 0) text += ", ";
    text += ranked[i].second;
  }
  return text;
}

}  // namespace ullage
