#include "ullage/model/safetensors.h"

#include <cstring>
#include <memory>

#include <gtest/gtest.h>

namespace ullage::model {
namespace {

std::string file_of(std::string_view header, size_t data_bytes) {
  const uint64_t size = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &size, 8);
  file += header;
  for (size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i);
  return file;
}

Result<SafetensorsFile> parse(std::string_view file) {
  return SafetensorsFile::parse(std::as_bytes(std::span(file)), "m.safetensors");
}

void expect_error(std::string_view header, size_t data_bytes, ErrorCode code, std::string_view part) {
  const auto result = parse(file_of(header, data_bytes));
  ASSERT_FALSE(result) << "accepted: " << header;
  EXPECT_EQ(result.error().code, code) << result.error().to_string();
  EXPECT_NE(result.error().to_string().find(part), std::string::npos) << result.error().to_string();
  EXPECT_EQ(result.error().where.substr(0, 13), "m.safetensors");
}

constexpr std::string_view kTwo =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},)"
    R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"n":{"dtype":"I64","shape":[],"data_offsets":[20,28]}}  )";

TEST(Safetensors, GivesTensorsInTheOrderOfTheirData) {
  const std::string bytes = file_of(kTwo, 28);
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().to_string();
  ASSERT_EQ(file->tensors().size(), 3u);
  EXPECT_EQ(file->tensors()[0].name, "a");
  EXPECT_EQ(file->tensors()[0].dtype, DType::kF32);
  const SafetensorsTensor& b = file->tensors()[1];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.dtype, DType::kBF16);
  EXPECT_EQ(b.shape, (std::vector<int64_t>{2, 3}));
  ASSERT_EQ(b.data.size(), 12u);
  EXPECT_EQ(static_cast<int>(b.data[0]), 8);
  EXPECT_EQ(file->tensors()[2].dtype, std::nullopt);  // known, but not read by models
  EXPECT_EQ(file->tensors()[2].dtype_name, "I64");
  ASSERT_EQ(file->metadata().size(), 1u);
  EXPECT_EQ(file->metadata()[0].second, "pt");
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string whole = file_of(kTwo, 28);
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto part = std::make_unique<char[]>(size);
    std::memcpy(part.get(), whole.data(), size);
    const auto file = parse({part.get(), size});
    ASSERT_FALSE(file) << size;
    ASSERT_EQ(file.error().code, ErrorCode::kCorrupt) << size;
  }
}

TEST(Safetensors, SurvivesEveryByteChanged) {
  const std::string whole = file_of(kTwo, 28);
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const int value : {0x00, 0x22, 0x2d, 0x39, 0x5b, 0x7b, 0xff}) {
      std::string changed = whole;
      changed[i] = static_cast<char>(value);
      const auto file = parse(changed);
      if (!file) {
        EXPECT_FALSE(file.error().message.empty());
      }
    }
  }
}

TEST(Safetensors, RefusesHolesOverlapsAndLeftovers) {
  const auto two = [](const char* first, const char* second) {
    return std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  EXPECT_TRUE(parse(file_of(two("[0,4]", "[4,8]"), 8)));
  EXPECT_TRUE(parse(file_of(two("[4,8]", "[0,4]"), 8)));
  expect_error(two("[0,4]", "[3,7]"), 7, ErrorCode::kCorrupt, "overlaps");
  expect_error(two("[0,4]", "[0,4]"), 4, ErrorCode::kCorrupt, "overlaps");
  expect_error(two("[0,4]", "[5,9]"), 9, ErrorCode::kCorrupt, "hole");
  expect_error(two("[1,5]", "[5,9]"), 9, ErrorCode::kCorrupt, "hole");
  expect_error(two("[0,4]", "[4,8]"), 9, ErrorCode::kCorrupt, "1 bytes after the last");
  expect_error(two("[0,4]", "[4,8]"), 7, ErrorCode::kCorrupt, "truncated");
  expect_error(two("[0,4]", "[8,4]"), 8, ErrorCode::kCorrupt, "lies at [8, 4)");
  expect_error(two("[0,4]", "[4,18446744073709551615]"), 8, ErrorCode::kCorrupt, "lies at");
}

TEST(Safetensors, RefusesShapesThatDoNotFitTheirBytes) {
  const auto one = [](const char* dtype, const char* shape, const char* offsets) {
    return std::string(R"({"t":{"dtype":")") + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  EXPECT_TRUE(parse(file_of(one("F16", "[2,0]", "[0,0]"), 0)));  // an empty tensor is one
  expect_error(one("F32", "[3]", "[0,8]"), 8, ErrorCode::kCorrupt, "8 bytes, but its shape and dtype F32 need 12");
  expect_error(one("F32", "[4611686018427387904,4]", "[0,0]"), 0, ErrorCode::kCorrupt, "2^64");
  expect_error(one("F32", "[9223372036854775808]", "[0,0]"), 0, ErrorCode::kCorrupt, "2^64");
  expect_error(one("F32", "[-1]", "[0,4]"), 4, ErrorCode::kCorrupt, "negative");
  expect_error(one("F32", "[1.5]", "[0,4]"), 4, ErrorCode::kCorrupt, "fraction");
  expect_error(one("Q7", "[4]", "[0,4]"), 4, ErrorCode::kUnsupported, "\"Q7\"");
  expect_error(one("F32", "[1]", "[0,4,8]"), 4, ErrorCode::kCorrupt, "number");
  expect_error(one("F32", "[1]", "[0]"), 4, ErrorCode::kCorrupt, "lacks");
}

TEST(Safetensors, RefusesHeadersOfAnotherForm) {
  expect_error("", 0, ErrorCode::kCorrupt, "not valid JSON");
  expect_error("[]", 0, ErrorCode::kCorrupt, "array");
  expect_error("{", 0, ErrorCode::kCorrupt, "not valid JSON");
  expect_error(R"({"t":3})", 0, ErrorCode::kCorrupt, "a number at key \"t\"");
  expect_error(R"({"t":{"dtype":"F32","shape":[]}})", 4, ErrorCode::kCorrupt, "lacks");
  expect_error(R"({"t":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4, ErrorCode::kCorrupt,
               "twice");
  expect_error(
      R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2,
      ErrorCode::kCorrupt, "\"t\" appears twice");
  std::string deep = R"({"t":)" + std::string(100000, '[');
  expect_error(deep, 0, ErrorCode::kTooLarge, "levels deep");
  std::string huge_header(8, '\xff');
  const auto file = parse(huge_header);
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find("100000000"), std::string::npos);
}

TEST(Safetensors, ReadsManyTensorsInShortTime) {
  std::string header = "{";
  constexpr int kTensors = 50000;  // a reader quadratic in their number would take minutes
  for (int i = 0; i < kTensors; ++i) {
    header += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
              std::to_string(i) + "," + std::to_string(i + 1) + "]}";
  }
  const auto file = parse(file_of(header + "}", kTensors));
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(file->tensors().size(), static_cast<size_t>(kTensors));
}

}  // namespace
}  // namespace ullage::model
