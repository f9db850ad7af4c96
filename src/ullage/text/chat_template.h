// Chat messages to prompt text, for the families whose templates are known.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/text/tokenizer.h"

namespace ullage::text {

enum class ChatFormat { kChatMl, kLlama2, kLlama3, kMistral, kGemma };

struct ChatMessage {
  std::string role;  // "system", "user", "assistant" ("developer" is read as system)
  std::string content;
};

// A prompt's text, and which parts of it the template wrote (only there are special tokens recognised).
struct ChatPrompt {
  std::string text;
  std::vector<TextRange> template_ranges;
};

class ChatTemplate {
 public:
  // Recognises the family from the model's own Jinja text; kUnsupported, naming --chat-template, when none fits.
  // The default system message that the model's template inserts (SmolLM2, Qwen2.5 do) is read from it.
  static Result<ChatTemplate> detect(std::string_view jinja);
  // "chatml", "llama2", "llama3", "mistral", "gemma".
  static Result<ChatTemplate> named(std::string_view name);

  ChatFormat format() const { return format_; }
  const char* name() const;
  // kInvalidArgument when the messages do not fit the format (unknown role, roles that do not alternate where they
  // must).
  Result<ChatPrompt> render(std::span<const ChatMessage> messages, bool add_generation_prompt) const;

 private:
  ChatFormat format_ = ChatFormat::kChatMl;
  std::string default_system_;
};

}  // namespace ullage::text
