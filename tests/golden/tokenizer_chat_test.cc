// Rendering equals Jinja's on the models' own templates, and the ids equal transformers' apply_chat_template.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/mapped_file.h"
#include "ullage/text/chat_template.h"
#include "ullage/text/tokenizer.h"

namespace ullage::text {
namespace {

std::string read(const std::string& name) {
  Result<std::string> text = read_text_file(std::string(ULLAGE_SOURCE_DIR "/tests/data/") + name, 1 << 26);
  if (!text) ADD_FAILURE() << text.error().to_string();
  return text ? *text : "";
}

uint64_t fnv(const std::vector<TokenId>& ids) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const TokenId id : ids) hash = (hash ^ static_cast<uint64_t>(id)) * 0x100000001B3u;
  return hash;
}

const Tokenizer* tokenizer_of(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Tokenizer>> loaded;
  std::unique_ptr<Tokenizer>& tokenizer = loaded[name];
  if (!tokenizer) {
    auto result = load_tokenizer_json(read("tokenizers/" + name + ".json"), "", name);
    if (!result) {
      ADD_FAILURE() << result.error().to_string();
      return nullptr;
    }
    tokenizer = std::move(*result);
  }
  return tokenizer.get();
}

bool has_late_system(const std::vector<ChatMessage>& messages) {
  for (size_t i = 1; i < messages.size(); ++i) {
    if (messages[i].role == "system") return true;
  }
  return false;
}

TEST(TokenizerChat, RendersWhatJinjaRenders) {
  std::istringstream lines(read("chat/goldens.jsonl"));
  std::map<std::string, ChatTemplate> templates;
  int num_checked = 0;
  int num_with_ids = 0;
  int num_refused = 0;
  for (std::string line; std::getline(lines, line);) {
    const Result<Json> golden = parse_json(line, "goldens.jsonl");
    ASSERT_TRUE(golden);
    const std::string name = golden->at("template").get<std::string>();
    if (!templates.contains(name)) {
      Result<ChatTemplate> detected = ChatTemplate::detect(read("chat/" + name + ".jinja"));
      ASSERT_TRUE(detected) << name << ": " << detected.error().to_string();
      templates.emplace(name, *detected);
    }
    std::vector<ChatMessage> messages;
    for (const Json& message : golden->at("messages")) {
      messages.push_back({message.at("role").get<std::string>(), message.at("content").get<std::string>()});
    }
    const bool add_generation_prompt = golden->at("add_generation_prompt").get<bool>();
    const Result<ChatPrompt> prompt = templates.at(name).render(messages, add_generation_prompt);
    ++num_checked;
    if (golden->contains("error")) {
      ++num_refused;
      EXPECT_FALSE(prompt) << name << " rendered what Jinja refuses: " << line;
      if (!prompt) {
        EXPECT_EQ(prompt.error().code, ErrorCode::kInvalidArgument);
      }
      continue;
    }
    if (!prompt && has_late_system(messages)) {  // some templates let it pass as a user's turn
      EXPECT_EQ(prompt.error().code, ErrorCode::kInvalidArgument);
      continue;
    }
    ASSERT_TRUE(prompt) << name << ": " << prompt.error().to_string() << "\n" << line;
    EXPECT_EQ(prompt->text, golden->at("text").get<std::string>()) << name << "\n" << line;
    if (!golden->contains("ids")) continue;
    const Tokenizer* const tokenizer = tokenizer_of(golden->at("tokenizer").get<std::string>());
    ASSERT_TRUE(tokenizer);
    EncodeOptions options;
    options.add_special_tokens = false;
    options.parse_special_everywhere = false;
    options.special_ranges = prompt->template_ranges;
    const std::vector<TokenId> ids = tokenizer->encode(prompt->text, options);
    EXPECT_EQ(fmt::format("{:016x}", fnv(ids)), golden->at("ids").get<std::string>()) << name << "\n" << line;
    ++num_with_ids;
  }
  EXPECT_GT(num_checked, 800);
  EXPECT_GT(num_with_ids, 200);
  EXPECT_GT(num_refused, 50);
}

}  // namespace
}  // namespace ullage::text
