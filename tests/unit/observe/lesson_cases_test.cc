#include "ullage/observe/lesson_cases.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace ullage::observe {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(std::string(ULLAGE_SOURCE_DIR) + "/" + path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Every figure of the lessons, to the digits that are printed: one line a case.
TEST(LessonCases, AllComeOut) {
  const std::string json = read_file("tests/data/lessons/lesson-cases.json");

  const auto cases = run_lesson_cases(json, "lesson-cases.json");

  ASSERT_TRUE(cases) << cases.error().to_string();
  EXPECT_EQ(cases->size(), 65u);
  for (const LessonCase& one : *cases) {
    std::string misses;
    for (const std::string& miss : one.misses) misses += "; " + miss;
    EXPECT_TRUE(one.passed()) << one.id << misses;
    std::printf("[ %s ] %s (%d figures)\n", one.passed() ? "  ok  " : " MISS ", one.id.c_str(),
                static_cast<int>(one.num_figures));
  }
}

}  // namespace
}  // namespace ullage::observe
