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

// A family's layout, with what its models' templates differ in. Read from the model's own template.
struct ChatStyle {
  ChatFormat format = ChatFormat::kChatMl;
  std::string bos;  // empty: the template writes none
  std::string eos;
  std::string default_system;  // ChatML: the message that stands in for a missing system message; empty = none
  std::string generation_prompt;
  bool always_prompts = false;          // the generation prompt comes whether asked for or not
  bool leaves_last_open = false;        // ChatML: without a generation prompt the last message gets no end (Qwen1.5)
  bool prompts_after_assistant = true;  // else not when the last message is the assistant's (Qwen1.5)
  // ChatML: what becomes of an assistant's <think> part. Qwen3 drops those of past turns, QwQ those of all but the last
  // message.
  enum class Thinking { kKept, kPastDropped, kAllButLastDropped };
  Thinking thinking = Thinking::kKept;
  bool trims_content = false;       // Llama 3, Gemma, some ChatML: white space around a message's text is dropped
  bool has_system = true;           // there is a place for a system message
  bool has_llama31_header = false;  // Llama 3.1 and later: a system message with dates comes always
  std::string llama31_dates;        // "Cutting Knowledge Date: ...\nToday Date: ...\n\n"
  // Mistral: what stands around a user's and an assistant's text.
  std::string user_open = "[INST] ";
  std::string user_close = "[/INST]";
  std::string assistant_open = " ";
  std::string assistant_close;  // after the EOS
  bool trims_assistant = false;
  bool system_in_last_user = false;  // else in the first
};

// Immutable; any thread. render() takes linear time.
//
// The text has the BOS that the model's template writes, so it is to be encoded with add_special_tokens = false, and
// special tokens parsed in template_ranges only; the ids are then those of transformers'
// apply_chat_template(tokenize=True), but for a message that spells special tokens, which stay text here. Templates
// that ask for today's date get the date they name themselves for when there is none: the same messages give the same
// tokens on any day.
class ChatTemplate {
 public:
  // Recognises the family from the model's own Jinja text; kUnsupported, naming --chat-template, when none fits.
  // The default system message that the model's template inserts (SmolLM2, Qwen2.5 do) is read from it.
  static Result<ChatTemplate> detect(std::string_view jinja);
  // "chatml", "llama2", "llama3", "mistral", "gemma".
  static Result<ChatTemplate> named(std::string_view name);

  // Spells BOS and EOS as this tokenizer does. Without it they are spelled as the family's own models do.
  void use_tokens_of(const Tokenizer& tokenizer);

  ChatFormat format() const { return style_.format; }
  const char* name() const;
  // kInvalidArgument when the messages do not fit the format (unknown role, roles that do not alternate where they
  // must).
  Result<ChatPrompt> render(std::span<const ChatMessage> messages, bool add_generation_prompt) const;

 private:
  ChatStyle style_;
};

}  // namespace ullage::text
