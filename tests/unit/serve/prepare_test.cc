#include "ullage/serve/prepare.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/serve/byte_tokenizer.h"

namespace ullage::serve {
namespace {

ModelInfo model_of(int64_t max_model_len, int64_t num_blocks = 1000) {
  ModelInfo model;
  model.names = {"first", "second"};
  model.max_model_len = max_model_len;
  model.engine.num_blocks = num_blocks;
  model.engine.block_size = 4;
  model.generation.temperature = 0.6;
  model.generation.top_p = 0.95;
  model.generation.top_k = 20;
  model.generation.eos_token_ids = {'$', ByteTokenizer::kEos};
  return model;
}

CompletionRequest completion_of(std::string prompt) {
  CompletionRequest request;
  request.prompts.emplace_back(std::move(prompt));
  return request;
}

const ByteTokenizer kTokenizer;

TEST(Prepare, TakesTheModelsDefaultsWhereTheClientIsSilent) {
  CompletionRequest request = completion_of("ab");
  request.fields.top_p = 0.5;
  const auto prepared = prepare(std::move(request), model_of(100), kTokenizer);
  ASSERT_TRUE(prepared) << prepared.error().to_string();
  EXPECT_EQ(prepared->sampling.temperature, 0.6);
  EXPECT_EQ(prepared->sampling.top_p, 0.5);
  EXPECT_EQ(prepared->sampling.top_k, 20);
  EXPECT_EQ(prepared->stop.eos_token_ids, (std::vector<TokenId>{'$', ByteTokenizer::kEos}));
  EXPECT_EQ(prepared->prompts[0].tokens, (std::vector<TokenId>{ByteTokenizer::kBos, 'a', 'b'}));
  EXPECT_EQ(prepared->prompts[0].max_tokens, 16);
}

TEST(Prepare, ATokenThatTheModelHasNoEmbeddingForIsRefused) {
  ModelInfo model = model_of(100);
  model.vocab_size = ByteTokenizer::kBos + 1;
  CompletionRequest request = completion_of("ab");
  EXPECT_TRUE(prepare(request, model, kTokenizer));
  model.vocab_size = ByteTokenizer::kBos;
  auto prepared = prepare(request, model, kTokenizer);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().where, "prompt");
  EXPECT_NE(prepared.error().message.find("256 (\"<s>\")"), std::string::npos) << prepared.error().message;
  request.prompts[0] = std::vector<TokenId>{'a', ByteTokenizer::kEos};
  EXPECT_FALSE(prepare(request, model, kTokenizer));
  ChatRequest chat;
  chat.messages = {{"user", "\xff"}};
  model.chat_template = text::ChatTemplate::named("chatml");
  EXPECT_TRUE(prepare(chat, model, kTokenizer));
  model.vocab_size = 'z';
  EXPECT_FALSE(prepare(chat, model, kTokenizer));
}

TEST(Prepare, ADefaultLengthFitsButAnAskedForOneMustFit) {
  EXPECT_EQ(prepare(completion_of("abcdefg"), model_of(10), kTokenizer)->prompts[0].max_tokens, 2);
  CompletionRequest request = completion_of("abcdefg");
  request.fields.max_tokens = 3;
  const auto prepared = prepare(std::move(request), model_of(10), kTokenizer);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, ErrorCode::kTooLarge);
  for (const char* number : {"10", "11", "8", "3"}) {
    EXPECT_NE(prepared.error().message.find(number), std::string::npos) << prepared.error().message;
  }
  // Even the largest number that a client can write.
  request = completion_of("abcdefg");
  request.fields.max_tokens = INT64_MAX;
  EXPECT_FALSE(prepare(std::move(request), model_of(10), kTokenizer));
}

TEST(Prepare, RefusesAPromptThatFillsTheModel) {
  const auto prepared = prepare(completion_of("abcdefghi"), model_of(10), kTokenizer);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(prepared.error().where, "prompt");
}

TEST(Prepare, TruncatesFromTheLeft) {
  CompletionRequest request = completion_of("abcdef");
  request.fields.truncate_prompt_tokens = 2;
  EXPECT_EQ(prepare(std::move(request), model_of(100), kTokenizer)->prompts[0].tokens,
            (std::vector<TokenId>{'e', 'f'}));
  request = completion_of("abcdefghijklmnop");
  request.fields.truncate_prompt_tokens = -1;
  request.fields.max_tokens = 4;
  EXPECT_EQ(prepare(std::move(request), model_of(10), kTokenizer)->prompts[0].tokens.size(), 6U);
}

TEST(Prepare, RefusesTokensAndModelsThatAreNotThere) {
  CompletionRequest request;
  request.prompts.emplace_back(std::vector<TokenId>{1, 258});
  EXPECT_EQ(prepare(std::move(request), model_of(100), kTokenizer).error().where, "prompt");
  request = completion_of("a");
  request.fields.stop_token_ids = {300};
  EXPECT_EQ(prepare(std::move(request), model_of(100), kTokenizer).error().where, "stop_token_ids");
  request = completion_of("a");
  request.fields.model = "third";
  EXPECT_EQ(prepare(std::move(request), model_of(100), kTokenizer).error().code, ErrorCode::kNotFound);
  request = completion_of("a");
  request.fields.model = "second";
  EXPECT_TRUE(prepare(std::move(request), model_of(100), kTokenizer));
  request = completion_of("");
  request.fields.add_special_tokens = false;
  EXPECT_EQ(prepare(std::move(request), model_of(100), kTokenizer).error().where, "prompt");
}

TEST(Prepare, AChatWithoutATemplateSaysWhy) {
  ChatRequest request;
  request.messages = {{"user", "hi"}};
  const auto prepared = prepare(std::move(request), model_of(100), kTokenizer);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(prepared.error().message.find("template"), std::string::npos);
}

TEST(Prepare, EchoGivesThePromptBack) {
  CompletionRequest request;
  request.prompts.emplace_back(std::vector<TokenId>{ByteTokenizer::kBos, 'h', 'i'});
  request.prompts.emplace_back(std::string("yo"));
  request.echo = true;
  const auto prepared = prepare(std::move(request), model_of(100), kTokenizer);
  EXPECT_EQ(prepared->prompts[0].echo, "hi");
  EXPECT_EQ(prepared->prompts[1].echo, "yo");
}

TEST(Prepare, EchoOfATruncatedPromptIsWhatWasKept) {
  CompletionRequest request = completion_of("abcdef");
  request.fields.truncate_prompt_tokens = 2;
  request.echo = true;
  EXPECT_EQ(prepare(std::move(request), model_of(100), kTokenizer)->prompts[0].echo, "ef");
}

// Counts the bytes that it is asked to read.
class CountingTokenizer final : public ByteTokenizer {
 public:
  std::vector<TokenId> encode(std::string_view text, const text::EncodeOptions& options) const override {
    num_bytes += text.size();
    return ByteTokenizer::encode(text, options);
  }
  mutable size_t num_bytes = 0;
};

TEST(Prepare, DoesNotReadATextThatCanNeverFit) {
  const CountingTokenizer tokenizer;
  const auto refused = [&](std::string text, int64_t max_model_len) {
    CompletionRequest request = completion_of(std::move(text));
    request.fields.truncate_prompt_tokens = 2;
    const auto prepared = prepare(std::move(request), model_of(max_model_len), tokenizer);
    return prepared ? "" : prepared.error().message;
  };
  const std::string text((1 << 20) + 1, 'a');
  const std::string message = refused(text, 10);
  for (const char* number : {"10 tokens", "has 1048577 bytes", "than 1048576 bytes"}) {
    EXPECT_NE(message.find(number), std::string::npos) << message;
  }
  EXPECT_EQ(tokenizer.num_bytes, 0U);
  // Up to a megabyte the tokens can be counted, and a longer model may have room.
  EXPECT_EQ(refused(text.substr(1), 10), "");
  EXPECT_EQ(refused(text, 1 << 20), "");
  EXPECT_EQ(tokenizer.num_bytes, (2U << 20) + 1);
}

// "Try again later" would never end.
TEST(Prepare, RefusesMoreChoicesThanTheQueueHolds) {
  ModelInfo model = model_of(100);
  model.engine.max_queue_len = 3;
  CompletionRequest request = completion_of("a");
  request.fields.n = 3;
  EXPECT_TRUE(prepare(std::move(request), model, kTokenizer));
  request = completion_of("a");
  request.prompts.emplace_back("b");
  request.fields.n = 2;
  const auto prepared = prepare(std::move(request), model, kTokenizer);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(prepared.error().message.find("3 (max_queue_len)"), std::string::npos) << prepared.error().message;
}

TEST(Prepare, ChoicesHaveSeedsOfTheirOwn) {
  const auto prepared = prepare(completion_of("a"), model_of(100), kTokenizer);
  const auto first = make_engine_request(*prepared, prepared->prompts[0], 0, 7);
  const auto second = make_engine_request(*prepared, prepared->prompts[0], 1, 7);
  EXPECT_EQ(first.sampling.seed, 7U);
  EXPECT_NE(first.sampling.seed, second.sampling.seed);
  EXPECT_EQ(first.stop.max_tokens, 16);
}

}  // namespace
}  // namespace ullage::serve
