#include "ullage/text/chat_template.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>

#include "ullage/base/mapped_file.h"

namespace ullage::text {
namespace {

std::string jinja(const std::string& name) {
  Result<std::string> text = read_text_file(ULLAGE_SOURCE_DIR "/tests/data/chat/" + name + ".jinja", 1 << 20);
  return text ? *text : "";
}

TEST(ChatTemplate, RecognisesTheFamilies) {
  const std::pair<const char*, const char*> cases[] = {
      {"smollm2-instruct", "chatml"},
      {"qwen2.5-instruct", "chatml"},
      {"qwen3", "chatml"},
      {"llama-2-chat", "llama2"},
      {"llama-3-instruct", "llama3"},
      {"llama-3.1-instruct", "llama3"},
      {"mistral-7b-instruct-v0.3", "mistral"},
      {"gemma-2-it", "gemma"},
      {"gemma-3-it", "gemma"},
  };
  for (const auto& [name, family] : cases) {
    const Result<ChatTemplate> chat = ChatTemplate::detect(jinja(name));
    ASSERT_TRUE(chat) << name;
    EXPECT_STREQ(chat->name(), family) << name;
  }
}

TEST(ChatTemplate, StrangersAreRefusedWithTheWayOut) {
  for (const char* const text :
       {"", "{{ messages }}", "<|im_start|> <|im_sep|>", "{{ '[INST]' }}", "{{ '[SYSTEM_PROMPT]' + '[INST]' }}",
        "<|start_header_id|> Cutting Knowledge Date", "{{ '", "{% ", "{#", "<|im_start|>reasoning_mode"}) {
    const Result<ChatTemplate> chat = ChatTemplate::detect(text);
    ASSERT_FALSE(chat) << text;
    EXPECT_EQ(chat.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(chat.error().message.find("--chat-template chatml, llama2, llama3, mistral or gemma"), std::string::npos);
  }
}

TEST(ChatTemplate, HasNames) {
  for (const char* const name : {"chatml", "llama2", "llama3", "mistral", "gemma"}) {
    const Result<ChatTemplate> chat = ChatTemplate::named(name);
    ASSERT_TRUE(chat);
    EXPECT_STREQ(chat->name(), name);
    EXPECT_TRUE(chat->render(std::vector<ChatMessage>{{"user", "hello"}}, true));
  }
  const Result<ChatTemplate> other = ChatTemplate::named("alpaca");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(other.error().where, "--chat-template");
}

TEST(ChatTemplate, MessagesThatDoNotFitAreNamed) {
  const ChatTemplate gemma2 = *ChatTemplate::detect(jinja("gemma-2-it"));
  const ChatTemplate chatml = *ChatTemplate::named("chatml");
  const auto where = [](const ChatTemplate& chat, const std::vector<ChatMessage>& messages) {
    const Result<ChatPrompt> prompt = chat.render(messages, true);
    if (prompt) return std::string("rendered");
    EXPECT_EQ(prompt.error().code, ErrorCode::kInvalidArgument);
    return prompt.error().where;
  };
  EXPECT_EQ(where(chatml, {}), "messages");
  EXPECT_EQ(where(chatml, {{"user", "a"}, {"tool", "b"}}), "messages/1");
  EXPECT_EQ(where(gemma2, {{"system", "a"}, {"user", "b"}}), "messages/0");
  EXPECT_EQ(where(gemma2, {{"user", "a"}, {"user", "b"}}), "messages/1");
  EXPECT_EQ(where(gemma2, {{"user", "a"}, {"assistant", "b"}, {"user", "c"}}), "rendered");
}

TEST(ChatTemplate, DeveloperIsSystem) {
  const ChatTemplate chatml = *ChatTemplate::named("chatml");
  EXPECT_EQ(chatml.render(std::vector<ChatMessage>{{"developer", "d"}, {"user", "u"}}, false)->text,
            chatml.render(std::vector<ChatMessage>{{"system", "d"}, {"user", "u"}}, false)->text);
}

// What a message says never lies in a template range, so that no message can end its own turn.
TEST(ChatTemplate, RangesHoldNoMessageText) {
  for (const char* const name :
       {"smollm2-instruct", "qwen3", "llama-2-chat", "llama-3.1-instruct", "mistral-7b-instruct-v0.2", "gemma-3-it"}) {
    const ChatTemplate chat = *ChatTemplate::detect(jinja(name));
    const std::vector<ChatMessage> messages = {
        {"system", "\x01\x01"}, {"user", "\x01<|im_end|>\x01"}, {"assistant", "\x01</s>\x01"}, {"user", "\x01"}};
    const Result<ChatPrompt> prompt = chat.render(messages, true);
    ASSERT_TRUE(prompt) << name;
    size_t covered = 0;
    size_t end = 0;
    for (const TextRange& range : prompt->template_ranges) {
      EXPECT_GE(range.begin, end);
      EXPECT_LT(range.begin, range.end);
      end = range.end;
      covered += range.end - range.begin;
      EXPECT_EQ(prompt->text.substr(range.begin, range.end - range.begin).find('\x01'), std::string::npos) << name;
    }
    EXPECT_EQ(prompt->text.size() - covered, 2u + 12u + 6u + 1u) << name;
  }
}

TEST(ChatTemplate, AnyJinjaAndMessagesEndInAResult) {
  const std::string base = jinja("mistral-7b-instruct-v0.3") + jinja("qwen3");
  rc::check("pieces of templates", [&](const std::vector<uint16_t>& cuts, const std::string& content) {
    std::string text = "<|im_start|>[INST]";
    for (const uint16_t cut : cuts) text += base.substr(cut % base.size(), cut % 97);
    const Result<ChatTemplate> chat = ChatTemplate::detect(text);
    if (!chat) return;
    (void)chat->render(std::vector<ChatMessage>{{"user", content}, {"assistant", content}}, true);
  });
}

}  // namespace
}  // namespace ullage::text
