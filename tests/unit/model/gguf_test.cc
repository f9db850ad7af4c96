#include "ullage/model/gguf.h"

#include <memory>

#include <gtest/gtest.h>

#include "tests/unit/model/gguf_builder.h"

namespace ullage::model {
namespace {

using testing::GgufBuilder;
using testing::parse;

void expect_error(const std::string& file, ErrorCode code, std::string_view part) {
  const auto result = parse(file);
  ASSERT_FALSE(result) << "accepted; expected: " << part;
  EXPECT_EQ(result.error().code, code) << result.error().to_string();
  EXPECT_NE(result.error().to_string().find(part), std::string::npos) << result.error().to_string();
  EXPECT_EQ(result.error().where.substr(0, 6), "m.gguf") << result.error().where;
}

GgufBuilder two_tensors() {
  GgufBuilder b;
  b.text("general.architecture", "llama").u32("n", 7);
  b.tensor("a", {4, 2}).tensor("b", {64}, DType::kQ8_0);
  return b;
}

TEST(Gguf, GivesMetadataAndTensorsOfVersions2And3) {
  for (const uint32_t version : {2u, 3u}) {
    GgufBuilder builder = two_tensors();
    builder.version = version;
    const std::string bytes = builder.build();
    const auto file = parse(bytes);
    ASSERT_TRUE(file) << file.error().to_string();
    EXPECT_EQ(file->version(), version);
    ASSERT_EQ(file->tensors().size(), 2u);
    const GgufTensor* b = file->find_tensor("b");
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(b->dtype, DType::kQ8_0);
    EXPECT_EQ(b->dims, std::vector<int64_t>{64});
    EXPECT_EQ(b->data.size(), 68u);
    EXPECT_EQ(b->offset % 32, 0u);
    EXPECT_EQ(reinterpret_cast<const char*>(b->data.data()), bytes.data() + b->offset);
    EXPECT_EQ(file->find_tensor("c"), nullptr);
    EXPECT_EQ(*file->get_string("general.architecture", ""), "llama");
    EXPECT_EQ(*file->get_int("n", 0), 7);
  }
}

TEST(Gguf, ReadsEveryScalarTypeAndWidensIt) {
  GgufBuilder b;
  b.raw("u8", 0, GgufBuilder::bytes_of<uint8_t>(200)).raw("i8", 1, GgufBuilder::bytes_of<int8_t>(-5));
  b.raw("u16", 2, GgufBuilder::bytes_of<uint16_t>(60000)).raw("i16", 3, GgufBuilder::bytes_of<int16_t>(-300));
  b.raw("u32", 4, GgufBuilder::bytes_of<uint32_t>(4000000000u)).raw("i32", 5, GgufBuilder::bytes_of<int32_t>(-7));
  b.raw("u64", 10, GgufBuilder::bytes_of<uint64_t>(UINT64_MAX))
      .raw("i64", 11, GgufBuilder::bytes_of<int64_t>(INT64_MIN));
  b.raw("f32", 6, GgufBuilder::bytes_of(0.5f)).raw("f64", 12, GgufBuilder::bytes_of(0.1));
  b.raw("yes", 7, std::string(1, '\1')).raw("no", 7, std::string(1, '\0'));
  const std::string bytes = b.build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(*file->get_int("u8", 0), 200);
  EXPECT_EQ(*file->get_int("i8", 0), -5);
  EXPECT_EQ(*file->get_int("u16", 0), 60000);
  EXPECT_EQ(*file->get_int("i16", 0), -300);
  EXPECT_EQ(*file->get_int("u32", 0), 4000000000);
  EXPECT_EQ(*file->get_int("i32", 0), -7);
  EXPECT_EQ(*file->get_int("i64", 0), INT64_MIN);
  EXPECT_FALSE(file->get_int("u64", 0));  // over 2^63
  EXPECT_EQ(*file->get_double("f32", 0), 0.5);
  EXPECT_EQ(*file->get_double("f64", 0), 0.1);
  EXPECT_EQ(*file->get_double("u32", 0), 4e9);
  EXPECT_TRUE(*file->get_bool("yes", false));
  EXPECT_FALSE(*file->get_bool("no", true));
  EXPECT_EQ(*file->get_int("absent", 42), 42);
}

TEST(Gguf, ReadsArraysAndSaysWhichTypeWasFound) {
  GgufBuilder b;
  b.strings("s", {"one", "", "three"}).array<float>("f", 6, {1.5f, -2.0f}).array<int32_t>("i", 5, {3, -4});
  const std::string bytes = b.build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(*file->get_strings("s"), (std::vector<std::string_view>{"one", "", "three"}));
  EXPECT_EQ(*file->get_doubles("f"), (std::vector<double>{1.5, -2.0}));
  EXPECT_EQ(*file->get_doubles("i"), (std::vector<double>{3, -4}));
  EXPECT_EQ(*file->get_ints("i"), (std::vector<int64_t>{3, -4}));
  EXPECT_TRUE(file->get_strings("absent")->empty());
  const auto wrong = file->get_ints("s");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().to_string(), "m.gguf: s: is an array of string; an array of integers was expected");
  EXPECT_FALSE(file->get_string("i", ""));
  EXPECT_FALSE(file->get_bool("f", false));
}

TEST(Gguf, HonoursTheFilesAlignment) {
  GgufBuilder builder;
  builder.alignment = 64;
  builder.u32("general.alignment", 64);
  builder.tensor("a", {4}).tensor("b", {4});
  const std::string bytes = builder.build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(file->alignment(), 64u);
  EXPECT_EQ(file->find_tensor("b")->offset % 64, 0u);
  for (const uint32_t bad : {0u, 3u, 48u, 0x80000000u}) {
    expect_error(GgufBuilder().u32("general.alignment", bad).build(), ErrorCode::kCorrupt, "power of two");
  }
  expect_error(GgufBuilder().text("general.alignment", "32").build(), ErrorCode::kCorrupt, "integer was expected");
}

TEST(Gguf, RefusesEveryTruncation) {
  const std::string whole = testing::tiny_llama().build();
  ASSERT_TRUE(parse(whole));
  for (size_t size = 0; size < whole.size(); ++size) {
    // Its own allocation, so that a sanitizer sees a read past the end.
    const auto part = std::make_unique<char[]>(size);
    std::memcpy(part.get(), whole.data(), size);
    const auto file = parse({part.get(), size});
    // Only the padding behind the last tensor is not needed.
    if (file) {
      ASSERT_GE(size, file->tensors().back().offset + file->tensors().back().data.size());
    } else {
      ASSERT_EQ(file.error().code, ErrorCode::kCorrupt) << size;
    }
  }
}

TEST(Gguf, SurvivesEveryByteChanged) {
  const std::string whole = two_tensors().strings("s", {"x", "y"}).build();
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::string changed = whole;
      changed[i] = static_cast<char>(value);
      const auto file = parse(changed);
      if (!file) {
        EXPECT_FALSE(file.error().message.empty());
        continue;
      }
      for (const GgufTensor& tensor : file->tensors()) {
        ASSERT_LE(tensor.offset + tensor.data.size(), changed.size());
      }
    }
  }
}

TEST(Gguf, RefusesOtherFilesAndVersionsByName) {
  expect_error("PK\3\4 something else entirely", ErrorCode::kCorrupt, "not a GGUF file");
  GgufBuilder old = two_tensors();
  old.version = 1;
  expect_error(old.build(), ErrorCode::kUnsupported, "version 1");
  GgufBuilder next = two_tensors();
  next.version = 4;
  expect_error(next.build(), ErrorCode::kUnsupported, "versions 2 and 3");
  GgufBuilder big_endian = two_tensors();
  big_endian.version = 0x03000000;
  expect_error(big_endian.build(), ErrorCode::kUnsupported, "big-endian");
}

TEST(Gguf, RefusesHugeCountsBeforeAllocatingForThem) {
  for (const uint64_t extra : {uint64_t{1}, uint64_t{1} << 32, uint64_t{1} << 63, UINT64_MAX - 8}) {
    GgufBuilder tensors = two_tensors();
    tensors.extra_tensor_count = extra;
    EXPECT_FALSE(parse(tensors.build())) << extra;
    GgufBuilder entries = two_tensors();
    entries.extra_entry_count = extra;
    EXPECT_FALSE(parse(entries.build())) << extra;
  }
  const auto count_of = [](uint64_t n) { return GgufBuilder::bytes_of(n); };
  for (const uint64_t n : {uint64_t{1} << 20, uint64_t{1} << 61, uint64_t{1} << 63, UINT64_MAX}) {
    for (const uint32_t element : {0u, 4u, 8u, 12u}) {
      expect_error(GgufBuilder().raw("k", 9, GgufBuilder::bytes_of(element) + count_of(n)).build(), ErrorCode::kCorrupt,
                   "bytes are left");
    }
    expect_error(GgufBuilder().raw("k", 8, count_of(n) + "abc").build(), ErrorCode::kCorrupt, "truncated");
  }
}

TEST(Gguf, RefusesArraysOfArrays) {
  std::string nested = GgufBuilder::bytes_of<uint32_t>(9) + GgufBuilder::bytes_of<uint64_t>(1);
  for (int i = 0; i < 1000; ++i) nested += nested.substr(0, 12);
  expect_error(GgufBuilder().raw("bomb", 9, nested).build(), ErrorCode::kUnsupported, "\"bomb\" is an array of arrays");
}

TEST(Gguf, RefusesDuplicates) {
  expect_error(GgufBuilder().u32("k", 1).u32("j", 1).u32("k", 2).build(), ErrorCode::kCorrupt, "\"k\" appears twice");
  GgufBuilder tensors;
  tensors.tensor("t", {4}).tensor("u", {4}).tensor("t", {4});
  expect_error(tensors.build(), ErrorCode::kCorrupt, "\"t\" appears twice");
}

TEST(Gguf, RefusesBadDimensions) {
  const auto with_dims = [](const std::vector<uint64_t>& dims) {
    GgufBuilder b;
    b.raw_tensor("t", dims, 0, 0);
    b.tail = std::string(64, '\0');
    return b.build();
  };
  expect_error(with_dims({}), ErrorCode::kCorrupt, "0 dimensions");
  expect_error(with_dims({1, 1, 1, 1, 1}), ErrorCode::kCorrupt, "5 dimensions");
  expect_error(with_dims({4, 0}), ErrorCode::kCorrupt, "dimension of 0");
  expect_error(with_dims({uint64_t{1} << 63}), ErrorCode::kCorrupt, "dimension of 9223372036854775808");
  expect_error(with_dims({uint64_t{1} << 62, 4}), ErrorCode::kCorrupt, "2^64");
  expect_error(with_dims({uint64_t{1} << 32, uint64_t{1} << 32, 4}), ErrorCode::kCorrupt, "2^64");
  expect_error(with_dims({1000}), ErrorCode::kCorrupt, "4000 bytes at offset 0");
}

TEST(Gguf, RefusesTensorsOutsideTheFileMisalignedOrOverlapping) {
  const auto at = [](uint64_t first, uint64_t second) {
    GgufBuilder b;
    b.raw_tensor("a", {16}, 0, first).raw_tensor("b", {16}, 0, second);
    b.tail = std::string(256, '\0');
    return b.build();
  };
  EXPECT_TRUE(parse(at(0, 64)));
  EXPECT_TRUE(parse(at(64, 0)));  // any order
  expect_error(at(0, 32), ErrorCode::kCorrupt, "\"a\" and \"b\" overlap");
  expect_error(at(64, 64), ErrorCode::kCorrupt, "overlap");
  expect_error(at(0, 65), ErrorCode::kCorrupt, "not a multiple");
  for (const uint64_t offset : {uint64_t{1} << 20, uint64_t{1} << 63, UINT64_MAX - 31}) {
    expect_error(at(0, offset), ErrorCode::kCorrupt, "end after the file's");
  }
}

TEST(Gguf, NamesUnknownTensorTypesAndListsTheKnown) {
  GgufBuilder b;
  b.raw_tensor("blk.0.ffn_up.weight", {256}, 16, 0);
  b.tail = std::string(512, '\0');
  expect_error(b.build(), ErrorCode::kUnsupported, "\"blk.0.ffn_up.weight\" is stored as GGML type 16 (IQ2_XXS)");
  expect_error(b.build(), ErrorCode::kUnsupported, "Q5_K and Q6_K");
  GgufBuilder odd;
  odd.raw_tensor("t", {33}, 8, 0);
  expect_error(odd.build(), ErrorCode::kCorrupt, "not a multiple of Q8_0's 32");
}

TEST(Gguf, RefusesBadTypesAndBools) {
  expect_error(GgufBuilder().raw("k", 13, "xxxx").build(), ErrorCode::kCorrupt, "type 13");
  expect_error(GgufBuilder().raw("k", 7, "\2").build(), ErrorCode::kCorrupt, "bool of value 2");
  expect_error(GgufBuilder().raw(std::string("k\n\xff", 3), 99, "").build(), ErrorCode::kCorrupt, "\"k\\x0a\\xff\"");
}

}  // namespace
}  // namespace ullage::model
