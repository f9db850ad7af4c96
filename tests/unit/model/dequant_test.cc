#include "ullage/model/dequant.h"

#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ullage/base/mapped_file.h"

namespace ullage::model {
namespace {

// The golden file is made by scripts/goldens/make_dequant_goldens.py from the `gguf` package's own dequantisation.
TEST(Dequantize, EveryFormatEqualsTheGgufPackageBitForBit) {
  auto file = MappedFile::open(ULLAGE_SOURCE_DIR "/tests/data/gguf/dequant.bin");
  ASSERT_TRUE(file) << file.error().to_string();
  const auto bytes = file->bytes();
  size_t at = 0;
  int num_formats = 0;
  while (at < bytes.size()) {
    std::string line;
    while (static_cast<char>(bytes[at]) != '\n') line += static_cast<char>(bytes[at++]);
    ++at;
    std::istringstream words(line);
    std::string name;
    int64_t num_elements = 0;
    int64_t num_bytes = 0;
    words >> name >> num_elements >> num_bytes;
    auto dtype = parse_dtype(name, "golden");
    ASSERT_TRUE(dtype) << name;
    ASSERT_EQ(row_bytes(*dtype, num_elements), num_bytes) << name;
    std::vector<float> got(static_cast<size_t>(num_elements));
    dequantize_row(*dtype, bytes.data() + at, got.data(), num_elements);  // unaligned on purpose
    at += static_cast<size_t>(num_bytes);
    std::vector<float> want(got.size());
    std::memcpy(want.data(), bytes.data() + at, want.size() * sizeof(float));
    at += want.size() * sizeof(float);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], want[i]) << name << " element " << i;
    ++num_formats;
  }
  EXPECT_EQ(num_formats, 11);
}

TEST(DType, ReadsTheSpellingsOfAllFileFormats) {
  EXPECT_EQ(*parse_dtype("Q4_K", ""), DType::kQ4_K);
  EXPECT_EQ(*parse_dtype("q6_k", ""), DType::kQ6_K);
  EXPECT_EQ(*parse_dtype("BF16", ""), DType::kBF16);
  EXPECT_EQ(*parse_dtype("bfloat16", ""), DType::kBF16);
  EXPECT_EQ(*parse_dtype("torch.float16", ""), DType::kF16);
  EXPECT_EQ(*parse_dtype("float32", ""), DType::kF32);
}

TEST(DType, RefusesOthersByNameAndListsWhatIsRead) {
  const auto dtype = parse_dtype("IQ2_XS", "model.gguf: tensor x");
  ASSERT_FALSE(dtype);
  EXPECT_EQ(dtype.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(dtype.error().message.find("IQ2_XS"), std::string::npos);
  EXPECT_NE(dtype.error().message.find("Q6_K"), std::string::npos);
  EXPECT_EQ(dtype.error().where, "model.gguf: tensor x");
}

}  // namespace
}  // namespace ullage::model
