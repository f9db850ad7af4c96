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

TEST(ParseBandwidth, TellsUnitsApart) {
  EXPECT_DOUBLE_EQ(*parse_bandwidth("2.5TB/s", "x"), 2.5e12);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("900 GB/s", "x"), 9e11);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("1GiB/s", "x"), 1073741824.0);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("400Gbit/s", "x"), 5e10);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("400Gb/s", "x"), 5e10);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("100Gbps", "x"), 1.25e10);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("5MB/s", "x"), 5e6);
  for (const char* text : {"", "900", "900GB", "900 GX/s", "-1GB/s", "1e3GB/s", "99999999999999EB/s", "TB/s", "nan",
                           "/s", "1/s", "1Gib/s"}) {
    const Result<double> result = parse_bandwidth(text, "--bandwidth");
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().where, "--bandwidth");
  }
  EXPECT_NE(parse_bandwidth("900", "x").error().message.find("GiB/s"), std::string::npos);
}

TEST(ParseFlops, IsDecimal) {
  EXPECT_DOUBLE_EQ(*parse_flops("300T", "x"), 3e14);
  EXPECT_DOUBLE_EQ(*parse_flops("989.4 TFLOPS", "x"), 989.4e12);
  EXPECT_DOUBLE_EQ(*parse_flops("2PFLOP/s", "x"), 2e15);
  EXPECT_DOUBLE_EQ(*parse_flops("50 GOPS", "x"), 5e10);
  for (const char* text : {"", "300", "300TB/s", "300 TiFLOPS", "-3T", "99999999E", "T", "1e3T"}) {
    const Result<double> result = parse_flops(text, "--flops");
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().where, "--flops");
  }
}

TEST(FormatRates, AreDecimalWithFourDigits) {
  EXPECT_EQ(format_bandwidth(3.35e12), "3.35 TB/s");
  EXPECT_EQ(format_bandwidth(450e9), "450 GB/s");
  EXPECT_EQ(format_bandwidth(999.96e9), "1 TB/s");
  EXPECT_EQ(format_bandwidth(12), "12 B/s");
  EXPECT_EQ(format_flops(989.4e12), "989.4 TFLOP/s");
  EXPECT_EQ(format_flops(153.6e9), "153.6 GFLOP/s");
}

TEST(FormatThousands, GroupsByThree) {
  EXPECT_EQ(format_thousands(0), "0");
  EXPECT_EQ(format_thousands(409600), "409,600");
  EXPECT_EQ(format_thousands(-1234567), "-1,234,567");
  EXPECT_EQ(format_thousands(INT64_MIN), "-9,223,372,036,854,775,808");
}

}  // namespace
}  // namespace ullage
