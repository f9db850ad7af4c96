// The bundled model tells the stories that an independent fp64 forward pass tells
// (scripts/goldens/make_stories_golden.py).
//
// The bound of a logit's difference is 4 times what fp32 costs the reference's own forward pass, as the golden says
// (for the reason, see model_tiny_test.cc).
#include <string>

#include <gtest/gtest.h>

#include "tests/golden/golden_run.h"

namespace ullage::golden {
namespace {

TEST(StoriesModel, TellsTheReferencesStories) {
  const Golden golden = read_golden(data_path("tests/data/models/stories260K/golden.json"));
  const double bound = 4 * golden.reference_error;
  auto model = ModelUnderTest::open(data_path("data/stories260K.gguf"));
  ASSERT_NE(model, nullptr);
  Comparison c;
  for (size_t i = 0; i < golden.prompts.size(); ++i) {
    compare(*model, golden.prompts[i], bound, "story " + std::to_string(i), c);
  }
  report("stories260K", c, bound);
  EXPECT_EQ(c.num_tokens, 1000);
}

}  // namespace
}  // namespace ullage::golden
