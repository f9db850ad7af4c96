#include "ullage/base/ascii.h"

#include <gtest/gtest.h>

#include <cctype>

namespace ullage {
namespace {

// The C library in its "C" locale is the other opinion, on every byte.
TEST(Ascii, AgreesWithTheCLocaleOnEveryByte) {
  for (int i = 0; i < 256; ++i) {
    const char c = static_cast<char>(i);
    EXPECT_EQ(is_digit(c), std::isdigit(i) != 0) << i;
    EXPECT_EQ(is_letter(c), std::isalpha(i) != 0) << i;
    EXPECT_EQ(is_letter_or_digit(c), std::isalnum(i) != 0) << i;
    EXPECT_EQ(hex_digit(c) >= 0, std::isxdigit(i) != 0) << i;
    EXPECT_EQ(to_lower(c), static_cast<char>(std::tolower(i))) << i;
  }
}

TEST(Ascii, ReadsHexadecimalDigits) {
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(hex_digit("0123456789abcdef"[i]), i);
    EXPECT_EQ(hex_digit("0123456789ABCDEF"[i]), i);
  }
}

TEST(Ascii, ComparesWithoutCase) {
  EXPECT_EQ(to_lower("NVIDIA H100-80GB \xC3\x84"), "nvidia h100-80gb \xC3\x84");
  EXPECT_TRUE(equals_ignoring_case("Bearer ", "bEARER "));
  EXPECT_FALSE(equals_ignoring_case("bearer", "bearer "));
  EXPECT_FALSE(equals_ignoring_case("", "b"));
  EXPECT_TRUE(equals_ignoring_case("", ""));
}

}  // namespace
}  // namespace ullage
