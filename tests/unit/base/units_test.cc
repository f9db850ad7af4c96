#include "ullage/base/units.h"

#include <gtest/gtest.h>

namespace ullage {
namespace {

TEST(ParseBytes, ReadsBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_bytes("1.5GiB", "--x")->value, 3 * kGiB / 2);
  EXPECT_EQ(parse_bytes("16GB", "--x")->value, 16'000'000'000);
  EXPECT_EQ(parse_bytes("4096", "--x")->value, 4096);
  EXPECT_EQ(parse_bytes("2G", "--x")->value, 2 * kGiB);
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "-1", "GiB", "12 parsecs", "1e3", "99999999999TiB", "nan", "1.2.3"}) {
    const Result<Bytes> result = parse_bytes(text, "--kv-cache-memory");
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().where, "--kv-cache-memory");
  }
}

TEST(ParseCount, ReadsVllmsSuffixes) {
  EXPECT_EQ(*parse_count("8k", "x"), 8000);
  EXPECT_EQ(*parse_count("8K", "x"), 8192);
  EXPECT_EQ(*parse_count("1M", "x"), 1 << 20);
  EXPECT_EQ(*parse_count("1.5k", "x"), 1500);
  EXPECT_FALSE(parse_count("1.5", "x"));
  EXPECT_FALSE(parse_count("-3", "x"));
}

TEST(FormatThousands, GroupsByThree) {
  EXPECT_EQ(format_thousands(0), "0");
  EXPECT_EQ(format_thousands(409600), "409,600");
  EXPECT_EQ(format_thousands(-1234567), "-1,234,567");
  EXPECT_EQ(format_thousands(INT64_MIN), "-9,223,372,036,854,775,808");
}

}  // namespace
}  // namespace ullage
