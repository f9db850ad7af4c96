#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "ullage/base/mapped_file.h"

namespace ullage {
namespace {

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "ullage-files-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string write(const char* name, std::string_view content) const {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  std::string directory_;
};

TEST_F(Files, MapsAFilesBytesAndKeepsThemWhenMoved) {
  const std::string path = write("a", std::string("ab\0cd", 5));
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file) << file.error().to_string();
  const auto bytes = file->bytes();
  MappedFile moved = std::move(*file);
  ASSERT_EQ(moved.bytes().size(), 5u);
  EXPECT_EQ(moved.bytes().data(), bytes.data());
  EXPECT_EQ(static_cast<char>(moved.bytes()[3]), 'c');
  EXPECT_EQ(moved.path(), path);
}

TEST_F(Files, AnEmptyFileHasNoBytes) {
  const auto file = MappedFile::open(write("empty", ""));
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->bytes().empty());
}

TEST_F(Files, SayWhatIsWrongWithAPath) {
  const auto missing = MappedFile::open(directory_ + "/missing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().where, directory_ + "/missing");
  const auto directory = MappedFile::open(directory_);
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(Files, ANamedPipeIsRefusedRatherThanWaitedFor) {
  const std::string path = directory_ + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(MappedFile::open(path));
  EXPECT_FALSE(read_text_file(path, 100));
}

TEST_F(Files, ReadsTextUpToALimit) {
  const std::string path = write("text", "hello\n");
  EXPECT_EQ(*read_text_file(path, 6), "hello\n");
  const auto over = read_text_file(path, 5);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, ErrorCode::kTooLarge);
  EXPECT_NE(over.error().message.find("6 bytes, over the limit of 5"), std::string::npos);
}

}  // namespace
}  // namespace ullage
