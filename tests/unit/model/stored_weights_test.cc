#include "ullage/model/stored_weights.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "gguf_builder.h"

namespace ullage::model {
namespace {

namespace fs = std::filesystem;

class StoredWeightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() /
                 (std::string("ullage_stored_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string write(const std::string& name, const std::string& bytes) {
    const fs::path path = directory_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

  // A safetensors file of its header and as many zeros as it asks for.
  static std::string safetensors(const std::string& header, size_t data_bytes) {
    std::string file(8, '\0');
    for (int i = 0; i < 8; ++i) file[static_cast<size_t>(i)] = static_cast<char>(header.size() >> (8 * i) & 0xff);
    return file + header + std::string(data_bytes, '\0');
  }

  fs::path directory_;
};

// An AWQ layer: packed int32 numbers and zero points, fp16 scales.
TEST_F(StoredWeightsTest, CountsEveryTypeOfASafetensorsFile) {
  const std::string path = write(
      "model.safetensors", safetensors(R"({"q.qweight":{"dtype":"I32","shape":[256,32],"data_offsets":[0,32768]},)"
                                       R"("q.qzeros":{"dtype":"I32","shape":[2,32],"data_offsets":[32768,33024]},)"
                                       R"("q.scales":{"dtype":"F16","shape":[2,256],"data_offsets":[33024,34048]},)"
                                       R"("k.weight":{"dtype":"F8_E4M3","shape":[16],"data_offsets":[34048,34064]}})",
                                       34064));
  for (const std::string& given : {path, directory_.string()}) {
    const auto weights = read_stored_weights(given);
    ASSERT_TRUE(weights) << weights.error().to_string();
    EXPECT_EQ(weights->bytes, 34064);
    EXPECT_EQ(weights->num_tensors, 4);
    EXPECT_FALSE(weights->is_gguf);
    ASSERT_EQ(weights->by_type.size(), 3u);
    EXPECT_EQ(weights->by_type[0].name, "I32");
    EXPECT_EQ(weights->by_type[0].bytes, 33024);
    EXPECT_EQ(weights->by_type[1].name, "F16");
    EXPECT_EQ(weights->by_type[2].num_elements, 16);
  }
}

TEST_F(StoredWeightsTest, TheIndexAloneGivesTheTotal) {
  write("model.safetensors.index.json",
        R"({"metadata": {"total_size": 16060522496}, "weight_map": {"a": "model-00001-of-00004.safetensors"}})");
  const auto weights = read_stored_weights(directory_.string());
  ASSERT_TRUE(weights) << weights.error().to_string();
  EXPECT_EQ(weights->bytes, 16060522496);
  EXPECT_TRUE(weights->is_from_index);
}

TEST_F(StoredWeightsTest, CountsGgufTypesThatAreNotComputedWith) {
  testing::GgufBuilder builder;
  builder.text("general.architecture", "any");
  builder.tensor("a", {256, 2}, DType::kIQ2_XXS);
  builder.tensor("b", {64}, DType::kMXFP4);
  const std::string path = write("m.gguf", builder.build());
  const auto weights = read_stored_weights(path);
  ASSERT_TRUE(weights) << weights.error().to_string();
  EXPECT_TRUE(weights->is_gguf);
  EXPECT_EQ(weights->bytes, 132 + 34);
  EXPECT_EQ(weights->by_type[0].name, "IQ2_XXS");
  EXPECT_EQ(weights->by_type[0].num_elements, 512);
}

TEST_F(StoredWeightsTest, AllPartsOfASplitGgufMustBeThere) {
  testing::GgufBuilder builder;
  builder.tensor("a", {8});
  const std::string first = write("m-00001-of-00002.gguf", builder.build());
  const auto missing = read_stored_weights(first);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find("m-00002-of-00002.gguf"), std::string::npos) << missing.error().message;

  const std::string second = write("m-00002-of-00002.gguf", builder.build());
  for (const std::string& given : {first, second}) {
    const auto weights = read_stored_weights(given);
    ASSERT_TRUE(weights) << weights.error().to_string();
    EXPECT_EQ(weights->num_files, 2);
    EXPECT_EQ(weights->bytes, 64);
  }
}

TEST_F(StoredWeightsTest, WhatIsNotThereIsSaid) {
  EXPECT_EQ(read_stored_weights((directory_ / "none").string()).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(read_stored_weights(directory_.string()).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace ullage::model
