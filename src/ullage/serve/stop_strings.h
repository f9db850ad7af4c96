// Looks for stop strings in text that comes in pieces, and holds back what may be the beginning of one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ullage::serve {

// One choice's; one thread. Cost: characters times stop strings, whatever the pieces (Knuth, Morris and Pratt 1977).
// The result depends on the text alone, not on how it was cut: the stop string that is complete first ends the text; of
// two that are complete at the same character, the longer.
class StopMatcher {
 public:
  // REQUIRES: no empty string in `stops`.
  StopMatcher(std::vector<std::string> stops, bool include_stop);

  struct Output {
    std::string text;     // may be sent now
    int stop_index = -1;  // of the stop string that ended the text; -1 = none
  };
  // `can_stop` false: a stop string that ends in this piece does not count (min_tokens).
  Output push(std::string_view piece, bool can_stop);
  // What was held back, at the end of a text that no stop string ended.
  std::string flush();
  const std::string& stop(int index) const { return patterns_[static_cast<size_t>(index)].text; }

 private:
  struct Pattern {
    std::string text;
    std::vector<uint32_t> failure;  // [text.size()]: longest proper border of text[0, i]
    size_t matched = 0;             // characters of `text` that the input ends with
  };
  static void advance(Pattern& pattern, char c);

  std::vector<Pattern> patterns_;
  bool include_stop_ = false;
  std::string held_;
};

}  // namespace ullage::serve
