#include "ullage/serve/choice_stream.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/serve/byte_tokenizer.h"

namespace ullage::serve {
namespace {

sched::SampledToken token_of(char c) {
  sched::SampledToken sampled;
  sampled.token = static_cast<unsigned char>(c);
  return sampled;
}

// Feeds the text byte by byte; the last byte ends the request by length unless a stop string does before.
struct Answer {
  std::vector<std::string> texts;
  std::optional<ChoiceEnd> end;
  std::string whole() const {
    std::string out;
    for (const auto& text : texts) out += text;
    return out;
  }
};
Answer run(ChoiceStream& stream, const std::string& text) {
  Answer result;
  for (size_t i = 0; i < text.size() && !result.end; ++i) {
    std::optional<EngineEnd> end;
    if (i + 1 == text.size()) end = EngineEnd{sched::FinishReason::kLength, -1};
    ChoiceDelta delta = stream.push(token_of(text[i]), end);
    result.texts.push_back(delta.text);
    result.end = delta.end;
  }
  return result;
}

TEST(ChoiceStream, GivesOneDeltaATokenAndNoHalfCharacter) {
  const ByteTokenizer tokenizer;
  ChoiceStream stream(tokenizer, {});
  const Answer result = run(stream, "a\xE2\x82\xAC!");
  EXPECT_EQ(result.texts, (std::vector<std::string>{"a", "", "", "\xE2\x82\xAC", "!"}));
  ASSERT_TRUE(result.end);
  EXPECT_EQ(result.end->reason, sched::FinishReason::kLength);
}

TEST(ChoiceStream, EndsAtAStopString) {
  const ByteTokenizer tokenizer;
  ChoiceOptions options;
  options.stop = {"END"};
  ChoiceStream stream(tokenizer, options);
  const Answer result = run(stream, "aEbENDz");
  EXPECT_EQ(result.whole(), "aEb");
  EXPECT_EQ(result.texts.size(), 6U);  // the token that completed it is counted, those after are not
  EXPECT_EQ(result.end->reason, sched::FinishReason::kStop);
  EXPECT_EQ(result.end->stop_string, "END");
  EXPECT_TRUE(stream.is_ended());
}

TEST(ChoiceStream, AStopStringInTheLastTokenWinsOverLength) {
  const ByteTokenizer tokenizer;
  ChoiceOptions options;
  options.stop = {"END"};
  ChoiceStream stream(tokenizer, options);
  const Answer result = run(stream, "aEND");
  EXPECT_EQ(result.end->reason, sched::FinishReason::kStop);
  EXPECT_EQ(result.whole(), "a");
}

TEST(ChoiceStream, GivesHeldTextWhenTheLengthEndsIt) {
  const ByteTokenizer tokenizer;
  ChoiceOptions options;
  options.stop = {"END"};
  ChoiceStream stream(tokenizer, options);
  const Answer result = run(stream, "aEN");
  EXPECT_EQ(result.whole(), "aEN");
  EXPECT_EQ(result.end->reason, sched::FinishReason::kLength);
}

TEST(ChoiceStream, IgnoresStopStringsBeforeMinTokens) {
  const ByteTokenizer tokenizer;
  ChoiceOptions options;
  options.stop = {"b"};
  options.min_tokens = 3;
  ChoiceStream stream(tokenizer, options);
  EXPECT_EQ(run(stream, "abacbd").whole(), "abac");
}

TEST(ChoiceStream, TheEndTokenIsNoText) {
  const ByteTokenizer tokenizer;
  for (const bool include : {false, true}) {
    ChoiceOptions options;
    options.include_stop = include;
    options.stop_token_ids = {'z'};
    ChoiceStream stream(tokenizer, options);
    EXPECT_EQ(stream.push(token_of('a'), std::nullopt).text, "a");
    const ChoiceDelta last = stream.push(token_of('z'), EngineEnd{sched::FinishReason::kStop, 'z'});
    EXPECT_EQ(last.text, include ? "z" : "");
    ASSERT_TRUE(last.end);
    EXPECT_EQ(last.end->stop_token, 'z');
    EXPECT_EQ(stream.num_tokens(), 2);
  }
}

TEST(ChoiceStream, TheModelsOwnEndHasNoStopReason) {
  const ByteTokenizer tokenizer;
  ChoiceOptions options;
  options.skip_special_tokens = false;
  ChoiceStream stream(tokenizer, options);
  sched::SampledToken eos;
  eos.token = ByteTokenizer::kEos;
  const ChoiceDelta last = stream.push(eos, EngineEnd{sched::FinishReason::kStop, ByteTokenizer::kEos});
  EXPECT_EQ(last.text, "");
  EXPECT_EQ(last.end->stop_token, -1);
}

TEST(ChoiceStream, AnUnfinishedCharacterAtTheEndIsReplaced) {
  const ByteTokenizer tokenizer;
  ChoiceStream stream(tokenizer, {});
  EXPECT_EQ(run(stream, "a\xE2\x82").whole(), "a\xEF\xBF\xBD");
}

TEST(ChoiceStream, NamesLogprobs) {
  const ByteTokenizer tokenizer;
  ChoiceOptions options;
  options.num_logprobs = 2;
  ChoiceStream stream(tokenizer, options);
  sched::SampledToken sampled = token_of('\xE2');
  sampled.logprob = -0.5F;
  sampled.top = {{'a', -0.25F}, {ByteTokenizer::kEos, -3.F}};
  const ChoiceDelta first = stream.push(sampled, std::nullopt);
  ASSERT_TRUE(first.logprobs);
  EXPECT_EQ(first.logprobs->sampled.token, "\\xe2");
  EXPECT_EQ(first.logprobs->sampled.bytes, "\xE2");
  EXPECT_EQ(first.logprobs->top[0].token, "a");
  EXPECT_EQ(first.logprobs->top[1].token, "</s>");
  EXPECT_EQ(first.logprobs->text_offset, 0);
  EXPECT_EQ(stream.push(token_of('b'), std::nullopt).logprobs->text_offset, 4);
}

}  // namespace
}  // namespace ullage::serve
