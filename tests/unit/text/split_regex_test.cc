#include "ullage/text/split_regex.h"

#include <gtest/gtest.h>

namespace ullage::text {
namespace {

std::vector<std::string> split(std::string_view pattern, std::string_view text) {
  const Result<SplitRegex> regex = SplitRegex::compile(pattern, "test");
  EXPECT_TRUE(regex) << regex.error().to_string();
  RegexScratch scratch(text.size());
  std::vector<SplitSpan> spans;
  regex->split(text, scratch, spans);
  std::vector<std::string> out;
  size_t at = 0;
  for (const SplitSpan& span : spans) {
    EXPECT_EQ(span.begin, at);
    EXPECT_LT(span.begin, span.end);
    at = span.end;
    out.push_back((span.is_match ? "" : "~") + std::string(text.substr(span.begin, span.end - span.begin)));
  }
  EXPECT_EQ(at, text.size());
  return out;
}

using Parts = std::vector<std::string>;

TEST(SplitRegex, CutsByTheKnownPatterns) {
  EXPECT_EQ(split(kGpt2Pattern, "It's  42 x."), (Parts{"It", "'s", " ", " 42", " x", "."}));
  EXPECT_EQ(split(kLlama3Pattern, "IT'S 12345\n\n x"), (Parts{"IT", "'S", " ", "123", "45", "\n\n", " x"}));
  EXPECT_EQ(split(kQwen2Pattern, "a123"), (Parts{"a", "1", "2", "3"}));
  // U+180E is no white space (it was one up to Unicode 6.2, and still is to PCRE2).
  EXPECT_EQ(split(kGpt2Pattern, "\xE1\xA0\x8E."), (Parts{"\xE1\xA0\x8E."}));
}

TEST(SplitRegex, StrangersCutTheSame) {
  // A group around it makes the pattern a stranger, which runs anchored, in windows and under a budget.
  const std::string stranger = "(?:" + std::string(kLlama3Pattern) + ")";
  std::string text =
      "It's 12345\n\n words\tand " + std::string(3000, 'a') + std::string(5000, ' ') + "end \xE4\xBD\xA0\xE5\xA5\xBD!";
  EXPECT_EQ(split(stranger, text), split(kLlama3Pattern, text));
  EXPECT_EQ(split("(?=b)|c", "abca"), (Parts{"~a", "~b", "c", "~a"}));
  EXPECT_EQ(split("zz", "abc"), (Parts{"~abc"}));
}

TEST(SplitRegex, TranslatesWhatPcre2ReadsDifferently) {
  EXPECT_EQ(split(R"(\h+)", "xCAFEy"), (Parts{"~x", "CAFE", "~y"}));  // Ruby's \h is a hexadecimal digit
  EXPECT_EQ(split(R"([\s,]+)",
                  "a, \xC2\x85"
                  "b"),
            (Parts{"~a", ", \xC2\x85", "~b"}));
  EXPECT_EQ(split(R"(\w+\b)", "e\xCC\x81-f"), (Parts{"e\xCC\x81", "~-", "f"}));  // a mark belongs to its word
  for (const char* const pattern : {"[[a-z]&&[^b]]", "[\\S]", "(*LIMIT_MATCH=1)a", "[a&&b]", "a\\"}) {
    const auto regex = SplitRegex::compile(pattern, "place");
    ASSERT_FALSE(regex) << pattern;
    EXPECT_EQ(regex.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(regex.error().where, "place");
  }
}

TEST(SplitRegex, BadPatternsAreErrors) {
  for (const std::string& pattern :
       {std::string("(a"), std::string("a{2,1}"), std::string("\\p{Nonsense}"), std::string(20000, 'a'),
        std::string("(((((a{1000}){1000}){1000}){1000}))"), std::string("\xFF"), std::string(300, '(')}) {
    EXPECT_FALSE(SplitRegex::compile(pattern, "test")) << pattern.substr(0, 50);
  }
  EXPECT_FALSE(SplitRegex::literal("", "test"));
}

// Each of these takes exponential or quadratic time without the budget.
TEST(SplitRegex, CostlyPatternsEnd) {
  const std::string letters(20000, 'a');
  for (const char* const pattern : {"(a*)*b", "(a|aa)+$b", "a+b", "(?>a+)b", "(?>[^b]*)b", "(?:a?){50}a{50}b",
                                    "(.*)(.*)(.*)(.*)(.*)b", "(?<=a{1,200}).*c"}) {
    const Result<SplitRegex> regex = SplitRegex::compile(pattern, "test");
    if (!regex) continue;  // PCRE2 has no look-behind of open length
    RegexScratch scratch(letters.size());
    std::vector<SplitSpan> spans;
    regex->split(letters, scratch, spans);
    ASSERT_FALSE(spans.empty()) << pattern;
    EXPECT_EQ(spans.back().end, letters.size());
  }
}

}  // namespace
}  // namespace ullage::text
