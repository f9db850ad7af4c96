#include "ullage/text/chat_template.h"

#include <algorithm>

#include <fmt/format.h>

#include "ullage/text/utf8.h"

namespace ullage::text {
namespace {

// Puts a prompt together and keeps account of who wrote what.
class PromptBuilder {
 public:
  // Text of the template's own.
  void write(std::string_view text) {
    if (text.empty()) return;
    std::vector<TextRange>& ranges = prompt_.template_ranges;
    const size_t begin = prompt_.text.size();
    prompt_.text += text;
    if (!ranges.empty() && ranges.back().end == begin)
      ranges.back().end = prompt_.text.size();
    else
      ranges.push_back({begin, prompt_.text.size()});
  }
  // Text of a message.
  void quote(std::string_view text) { prompt_.text += text; }
  ChatPrompt take() { return std::move(prompt_); }

 private:
  ChatPrompt prompt_;
};

// What Python's str.strip() drops: white space, and the four separators U+001C to U+001F.
std::string_view strip(std::string_view text) {
  const auto is_dropped = [](char32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); };
  while (!text.empty() && utf8_char_at(text, 0).kind == Utf8Char::Kind::kValid) {
    size_t at = 0;
    if (!is_dropped(next_code_point(text, at))) break;
    text.remove_prefix(at);
  }
  while (!text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && text.size() - begin < 4 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
    size_t at = begin;
    const Utf8Char c = utf8_char_at(text, begin);
    if (c.kind != Utf8Char::Kind::kValid || begin + static_cast<size_t>(c.length) != text.size()) break;
    if (!is_dropped(next_code_point(text, at))) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

std::string_view strip_newlines(std::string_view text, bool left, bool right) {
  while (left && text.starts_with('\n')) text.remove_prefix(1);
  while (right && text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

std::string_view role_of(const ChatMessage& message) {
  return message.role == "developer" ? std::string_view("system") : std::string_view(message.role);
}

Error bad_message(size_t index, std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), fmt::format("messages/{}", index)};
}

// [begin, end) after an optional system message at the front.
Result<void> check_alternate(std::span<const ChatMessage> messages, size_t begin) {
  for (size_t i = begin; i < messages.size(); ++i) {
    const std::string_view expected = (i - begin) % 2 == 0 ? "user" : "assistant";
    if (role_of(messages[i]) == expected) continue;
    return bad_message(i, fmt::format("found the role \"{}\", expected \"{}\": after an optional system message, this "
                                      "model's messages alternate between user and assistant",
                                      messages[i].role, expected));
  }
  return {};
}

void render_llama31_system(const ChatStyle& style, std::string_view system, PromptBuilder& out) {
  out.write("<|start_header_id|>system<|end_header_id|>\n\n");
  out.write(style.llama31_dates);
  out.quote(strip(system));
  out.write("<|eot_id|>");
}

void render_llama3(const ChatStyle& style, std::span<const ChatMessage> messages, PromptBuilder& out) {
  out.write(style.bos);
  size_t begin = 0;
  if (style.has_llama31_header) {
    const bool has_system = role_of(messages[0]) == "system";
    render_llama31_system(style, has_system ? std::string_view(messages[0].content) : "", out);
    begin = has_system ? 1 : 0;
  }
  for (size_t i = begin; i < messages.size(); ++i) {
    out.write(fmt::format("<|start_header_id|>{}<|end_header_id|>\n\n", role_of(messages[i])));
    out.quote(strip(messages[i].content));
    out.write("<|eot_id|>");
  }
}

// Qwen3: the last answers keep their thinking, older ones lose it.
void render_thinking(const ChatMessage& message, bool is_after_query, bool is_last, PromptBuilder& out) {
  constexpr std::string_view kBegin = "<think>";
  constexpr std::string_view kEnd = "</think>";
  std::string_view content = message.content;
  std::string_view thinking;
  if (const size_t first = content.find(kEnd); first != std::string_view::npos) {
    thinking = strip_newlines(content.substr(0, first), false, true);
    if (const size_t at = thinking.rfind(kBegin); at != std::string_view::npos)
      thinking.remove_prefix(at + kBegin.size());
    thinking = strip_newlines(thinking, true, false);
    content = strip_newlines(content.substr(content.rfind(kEnd) + kEnd.size()), true, false);
  }
  if (is_after_query && (is_last || !thinking.empty())) {
    out.write("<think>\n");
    out.quote(strip_newlines(thinking, true, true));
    out.write("\n</think>\n\n");
    content = strip_newlines(content, true, false);
  }
  out.quote(content);
}

void render_chat_ml(const ChatStyle& style, std::span<const ChatMessage> messages, bool prompts, PromptBuilder& out) {
  out.write(style.bos);
  if (!style.default_system.empty() && role_of(messages[0]) != "system") {
    out.write(fmt::format("<|im_start|>system\n{}<|im_end|>\n", style.default_system));
  }
  // The last message of the user's that is no tool's answer.
  size_t last_query = messages.size() - 1;
  for (size_t i = messages.size(); i-- > 0;) {
    const std::string_view content = messages[i].content;
    if (messages[i].role != "user" || (content.starts_with("<tool_response>") && content.ends_with("</tool_response>")))
      continue;
    last_query = i;
    break;
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    const bool is_last = i + 1 == messages.size();
    out.write(fmt::format("<|im_start|>{}\n", role_of(message)));
    if (style.thinking == ChatStyle::Thinking::kPastDropped && message.role == "assistant") {
      render_thinking(message, i > last_query, is_last, out);
    } else if (style.thinking == ChatStyle::Thinking::kAllButLastDropped && !is_last && message.role == "assistant") {
      const std::string_view content = message.content;
      const size_t end = content.rfind("</think>");
      out.quote(strip_newlines(end == std::string_view::npos ? content : content.substr(end + 8), true, false));
    } else {
      out.quote(style.trims_content ? strip(message.content) : std::string_view(message.content));
    }
    if (!(style.leaves_last_open && is_last && !prompts)) out.write("<|im_end|>\n");
  }
}

Result<void> render_llama2(const ChatStyle& style, std::span<const ChatMessage> messages, PromptBuilder& out) {
  const bool has_system = role_of(messages[0]) == "system";
  const size_t begin = has_system ? 1 : 0;
  ULLAGE_TRY_VOID(check_alternate(messages, begin));
  for (size_t i = begin; i < messages.size(); ++i) {
    const std::string_view content = messages[i].content;
    if ((i - begin) % 2 == 1) {
      out.write(" ");
      out.quote(strip(content));
      out.write(" ");
      out.write(style.eos);
      continue;
    }
    out.write(style.bos);
    out.write("[INST] ");
    if (i == begin && has_system) {
      out.write("<<SYS>>\n");
      out.quote(messages[0].content);
      // The template strips the two texts as one: only the question's end can be at an edge, unless it is blank.
      const std::string_view kept =
          strip(content).empty() ? content.substr(0, 0)
                                 : content.substr(0, static_cast<size_t>(strip(content).end() - content.begin()));
      out.write(kept.empty() ? "\n<</SYS>>" : "\n<</SYS>>\n\n");
      out.quote(kept);
    } else {
      out.quote(strip(content));
    }
    out.write(" [/INST]");
  }
  return {};
}

// The index of the first user message, after a system message where the template has a place for one; user and
// assistant must alternate from there.
Result<size_t> first_turn(const ChatStyle& style, std::span<const ChatMessage> messages) {
  const bool has_system = role_of(messages[0]) == "system";
  if (has_system && !style.has_system) {
    return bad_message(
        0, "this model's chat template has no place for a system message; put its text into the first user message");
  }
  const size_t begin = has_system ? 1 : 0;
  ULLAGE_TRY_VOID(check_alternate(messages, begin));
  return begin;
}

Result<void> render_mistral(const ChatStyle& style, std::span<const ChatMessage> messages, PromptBuilder& out) {
  ULLAGE_TRY(const size_t begin, first_turn(style, messages));
  const bool has_system = begin > 0;
  out.write(style.bos);
  for (size_t i = begin; i < messages.size(); ++i) {
    const std::string_view content = messages[i].content;
    if ((i - begin) % 2 == 1) {
      out.write(style.assistant_open);
      out.quote(style.trims_assistant ? strip(content) : content);
      out.write(style.eos);
      out.write(style.assistant_close);
      continue;
    }
    out.write(style.user_open);
    if (has_system && i == (style.system_in_last_user ? messages.size() - 1 : begin)) {
      out.quote(messages[0].content);
      out.write("\n\n");
    }
    out.quote(content);
    out.write(style.user_close);
  }
  return {};
}

Result<void> render_gemma(const ChatStyle& style, std::span<const ChatMessage> messages, PromptBuilder& out) {
  ULLAGE_TRY(const size_t begin, first_turn(style, messages));
  const bool has_system = begin > 0;
  out.write(style.bos);
  for (size_t i = begin; i < messages.size(); ++i) {
    out.write((i - begin) % 2 == 1 ? "<start_of_turn>model\n" : "<start_of_turn>user\n");
    if (has_system && i == begin) {
      out.quote(messages[0].content);
      out.write("\n\n");
    }
    out.quote(strip(messages[i].content));
    out.write("<end_of_turn>\n");
  }
  return {};
}

}  // namespace

Result<ChatPrompt> ChatTemplate::render(std::span<const ChatMessage> messages, bool add_generation_prompt) const {
  if (messages.empty()) {
    return Error{ErrorCode::kInvalidArgument, "there are no messages; expected at least one", "messages"};
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string_view role = role_of(messages[i]);
    if (role == "system" || role == "user" || role == "assistant") continue;
    return bad_message(
        i, fmt::format("found the role \"{}\"; expected system, developer, user or assistant", messages[i].role));
  }
  const bool prompts = add_generation_prompt || style_.always_prompts;
  PromptBuilder out;
  switch (style_.format) {
    case ChatFormat::kChatMl:
      render_chat_ml(style_, messages, prompts, out);
      break;
    case ChatFormat::kLlama3:
      render_llama3(style_, messages, out);
      break;
    case ChatFormat::kLlama2:
      ULLAGE_TRY_VOID(render_llama2(style_, messages, out));
      break;
    case ChatFormat::kMistral:
      ULLAGE_TRY_VOID(render_mistral(style_, messages, out));
      break;
    case ChatFormat::kGemma:
      ULLAGE_TRY_VOID(render_gemma(style_, messages, out));
      break;
  }
  if (prompts && (style_.prompts_after_assistant || messages.back().role != "assistant"))
    out.write(style_.generation_prompt);
  return out.take();
}

}  // namespace ullage::text
