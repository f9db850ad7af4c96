#include "ullage/serve/stop_strings.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace ullage::serve {
namespace {

struct Ended {
  std::string text;
  std::string stop;  // empty = none
  friend bool operator==(const Ended&, const Ended&) = default;
};

// The definition, character by character: the first prefix that ends in a stop string, the longest such string.
Ended search(const std::string& text, const std::vector<std::string>& stops, bool include) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::string best;
    for (const std::string& stop : stops) {
      if (std::string_view(text).substr(0, end).ends_with(stop) && stop.size() > best.size()) best = stop;
    }
    if (!best.empty()) return {text.substr(0, include ? end : end - best.size()), best};
  }
  return {text, ""};
}

TEST(StopMatcher, HoldsBackWhatMayBecomeAStopString) {
  StopMatcher matcher({"\n\nUser:"}, false);
  EXPECT_EQ(matcher.push("Hello\n", true).text, "Hello");
  EXPECT_EQ(matcher.push("world\n\nUs", true).text, "\nworld");
  EXPECT_EQ(matcher.push("a", true).text, "\n\nUsa");
  const auto last = matcher.push(" b\n\nUser: c", true);
  EXPECT_EQ(last.text, " b");
  EXPECT_EQ(last.stop_index, 0);
}

TEST(StopMatcher, KeepsTheStopStringWhenAsked) {
  StopMatcher matcher({"END"}, true);
  EXPECT_EQ(matcher.push("so E", true).text, "so ");
  const auto last = matcher.push("ND and on", true);
  EXPECT_EQ(last.text, "END");
  EXPECT_EQ(last.stop_index, 0);
}

TEST(StopMatcher, DoesNotStopBeforeItMay) {
  StopMatcher matcher({"ab"}, false);
  EXPECT_EQ(matcher.push("xab", false).text, "xab");
  EXPECT_EQ(matcher.push("ya", false).text, "y");
  // Begun before, complete after: it counts.
  const auto last = matcher.push("b", true);
  EXPECT_EQ(last.stop_index, 0);
  EXPECT_EQ(last.text, "");
}

TEST(StopMatcher, GivesBackWhatWasHeldAtTheEnd) {
  StopMatcher matcher({"abc"}, false);
  EXPECT_EQ(matcher.push("zab", true).text, "z");
  EXPECT_EQ(matcher.flush(), "ab");
}

RC_GTEST_PROP(StopMatcher, IsTheSearchOfTheWholeTextHoweverItIsCut, ()) {
  const auto letters = rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c'));
  const auto text = *letters;
  auto stops = *rc::gen::container<std::vector<std::string>>(
      rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c'))));
  if (stops.size() > 4) stops.resize(4);
  const bool include = *rc::gen::arbitrary<bool>();
  const auto cuts = *rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(1, 5));

  StopMatcher matcher(stops, include);
  std::string sent;
  Ended found;
  size_t at = 0;
  for (size_t i = 0; at < text.size() && found.stop.empty(); ++i) {
    const size_t size = cuts.empty() ? 1 : cuts[i % cuts.size()];
    const auto output = matcher.push(std::string_view(text).substr(at, size), true);
    sent += output.text;
    at += size;
    if (output.stop_index >= 0) found.stop = matcher.stop(output.stop_index);
    if (found.stop.empty()) {
      // Nothing that was sent can be the beginning of a stop string that the rest completes.
      RC_ASSERT(search(text, stops, false).text.starts_with(sent));
    }
  }
  if (found.stop.empty()) sent += matcher.flush();
  found.text = sent;
  RC_ASSERT(found == search(text, stops, include));
}

}  // namespace
}  // namespace ullage::serve
