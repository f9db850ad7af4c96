#include "ullage/text/utf8.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>

namespace ullage::text {
namespace {

// The expected texts are Python's: bytes.decode("utf-8", errors="replace").
TEST(Utf8, RepairsAsPythonDoes) {
  const std::string r = "\xEF\xBF\xBD";
  const std::pair<std::string, std::string> cases[] = {
      {"plain", "plain"},
      {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"},
      {"a\x80z", "a" + r + "z"},
      {"\xC3", r},
      {"\xE2\x82", r},
      {"\xF0\x9F\x98", r},
      {"\xE2\x82"
       "A",
       r + "A"},
      {"\xF0\x9F\x98\xF0\x9F\x98\x80", r + "\xF0\x9F\x98\x80"},
      {"\xC0\xAF", r + r},  // overlong
      {"\xE0\x80\x80", r + r + r},
      {"\xF0\x80\x80\x80", r + r + r + r},
      {"\xED\xA0\x80", r + r + r},          // a surrogate
      {"\xF4\x90\x80\x80", r + r + r + r},  // over U+10FFFF
      {"\xF8\x88\x80\x80\x80", r + r + r + r + r},
      {"\xFF\xFE", r + r},
      {std::string("\0\xC3", 2), std::string("\0", 1) + r},
  };
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(repair_utf8(bytes), text);
    EXPECT_EQ(is_valid_utf8(bytes), bytes == text);
  }
}

TEST(Utf8, RepairMovesRangesWithTheText) {
  // "ab" ? "cd" ? "ef": ranges around each part.
  const std::string text =
      "ab\xFF"
      "cd\xE2\x82"
      "ef";
  std::vector<TextRange> ranges = {{0, 2}, {3, 5}, {7, 9}, {0, 9}, {2, 3}};
  const std::string repaired = repair_utf8(text, &ranges);
  const auto part = [&](const TextRange& r) { return repaired.substr(r.begin, r.end - r.begin); };
  EXPECT_EQ(part(ranges[0]), "ab");
  EXPECT_EQ(part(ranges[1]), "cd");
  EXPECT_EQ(part(ranges[2]), "ef");
  EXPECT_EQ(part(ranges[3]), repaired);
  EXPECT_EQ(part(ranges[4]), "\xEF\xBF\xBD");
}

TEST(Utf8, RepairIsValidAndKeepsWhatIsValid) {
  rc::check("repair of any bytes", [](const std::string& bytes) {
    const std::string repaired = repair_utf8(bytes);
    RC_ASSERT(is_valid_utf8(repaired));
    RC_ASSERT(repair_utf8(repaired) == repaired);
    RC_ASSERT(!is_valid_utf8(bytes) || repaired == bytes);
  });
}

TEST(Utf8, CodePointsRoundTrip) {
  for (char32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 251) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(c, text);
    EXPECT_TRUE(is_valid_utf8(text));
    size_t at = 0;
    EXPECT_EQ(next_code_point(text, at), c);
    EXPECT_EQ(at, text.size());
  }
}

}  // namespace
}  // namespace ullage::text
