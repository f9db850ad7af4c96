#include "ullage/api/budget_bar.h"

#include <algorithm>
#include <utility>

namespace ullage::api {
namespace {

// Largest remainders, so that the cells sum to the width.
std::vector<int> share_cells(const std::vector<BarPart>& parts, int width) {
  double total = 0;
  for (const BarPart& part : parts) total += static_cast<double>(std::max<int64_t>(part.bytes.value, 0));
  std::vector<int> cells(parts.size(), 0);
  std::vector<std::pair<double, size_t>> rests;
  rests.reserve(parts.size());
  int used = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double exact = total > 0 ? std::max(0.0, static_cast<double>(parts[i].bytes.value)) / total * width : 0;
    cells[i] = static_cast<int>(exact);
    if (parts[i].bytes.value > 0 && cells[i] == 0) cells[i] = 1;
    used += cells[i];
    if (parts[i].bytes.value > 0) rests.emplace_back(exact - static_cast<double>(cells[i]), i);
  }
  std::stable_sort(rests.begin(), rests.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t k = 0; used < width && k < rests.size(); ++k, ++used) ++cells[rests[k].second];
  while (used > width) {
    --*std::max_element(cells.begin(), cells.end());
    --used;
  }
  return cells;
}

}  // namespace

std::string budget_bar(const std::vector<BarPart>& parts, int width, bool has_unicode) {
  const std::vector<int> cells = share_cells(parts, width);
  std::string bar;
  for (size_t i = 0; i < parts.size(); ++i) {
    for (int k = 0; k < cells[i]; ++k) {
      if (has_unicode) {
        bar += parts[i].unicode;
      } else {
        bar += parts[i].ascii;
      }
    }
  }
  return bar;
}

}  // namespace ullage::api
