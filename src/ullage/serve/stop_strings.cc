#include "ullage/serve/stop_strings.h"

#include <algorithm>
#include <utility>

#include "ullage/base/check.h"

namespace ullage::serve {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop) : include_stop_(include_stop) {
  for (std::string& stop : stops) {
    ULLAGE_CHECK(!stop.empty());
    Pattern pattern;
    pattern.text = std::move(stop);
    pattern.failure.resize(pattern.text.size(), 0);
    uint32_t border = 0;
    for (size_t i = 1; i < pattern.text.size(); ++i) {
      while (border > 0 && pattern.text[i] != pattern.text[border]) border = pattern.failure[border - 1];
      if (pattern.text[i] == pattern.text[border]) ++border;
      pattern.failure[i] = border;
    }
    patterns_.push_back(std::move(pattern));
  }
}

void StopMatcher::advance(Pattern& pattern, char c) {
  if (pattern.matched == pattern.text.size()) pattern.matched = pattern.failure[pattern.matched - 1];
  while (pattern.matched > 0 && pattern.text[pattern.matched] != c) {
    pattern.matched = pattern.failure[pattern.matched - 1];
  }
  if (pattern.text[pattern.matched] == c) ++pattern.matched;
}

StopMatcher::Output StopMatcher::push(std::string_view piece, bool can_stop) {
  Output output;
  if (patterns_.empty()) {
    output.text = piece;
    return output;
  }
  for (const char c : piece) {
    held_ += c;
    int best = -1;
    for (size_t p = 0; p < patterns_.size(); ++p) {
      Pattern& pattern = patterns_[p];
      advance(pattern, c);
      if (!can_stop || pattern.matched < pattern.text.size()) continue;
      if (best < 0 || pattern.text.size() > stop(best).size()) best = static_cast<int>(p);
    }
    if (best >= 0) {
      if (!include_stop_) held_.resize(held_.size() - std::min(held_.size(), stop(best).size()));
      output.text = std::move(held_);
      held_.clear();
      output.stop_index = best;
      return output;
    }
  }
  size_t num_held = 0;
  for (const Pattern& pattern : patterns_) {
    // A whole stop string that did not count is text like any other; only what may still grow into one is held.
    const bool is_whole = pattern.matched == pattern.text.size();
    num_held = std::max<size_t>(num_held, is_whole ? pattern.failure[pattern.matched - 1] : pattern.matched);
  }
  num_held = std::min(num_held, held_.size());
  output.text = held_.substr(0, held_.size() - num_held);
  held_.erase(0, held_.size() - num_held);
  return output;
}

std::string StopMatcher::flush() { return std::exchange(held_, std::string()); }

}  // namespace ullage::serve
