// Which family's template a Jinja text is, and what it differs in.
#include <optional>

#include <fmt/format.h>

#include "ullage/text/chat_template.h"
#include "ullage/text/jinja_scan.h"

namespace ullage::text {
namespace {

using Kind = JinjaItem::Kind;

constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

ChatStyle chat_ml() {
  ChatStyle style;
  style.format = ChatFormat::kChatMl;
  style.generation_prompt = "<|im_start|>assistant\n";
  return style;
}

ChatStyle llama2() {
  ChatStyle style;
  style.format = ChatFormat::kLlama2;
  style.bos = "<s>";
  style.eos = "</s>";
  return style;
}

ChatStyle llama3() {
  ChatStyle style;
  style.format = ChatFormat::kLlama3;
  style.bos = "<|begin_of_text|>";
  style.eos = "<|eot_id|>";
  style.generation_prompt = "<|start_header_id|>assistant<|end_header_id|>\n\n";
  style.trims_content = true;
  return style;
}

ChatStyle mistral() {
  ChatStyle style;
  style.format = ChatFormat::kMistral;
  style.bos = "<s>";
  style.eos = "</s>";
  style.system_in_last_user = true;
  return style;
}

ChatStyle gemma() {
  ChatStyle style;
  style.format = ChatFormat::kGemma;
  style.bos = "<bos>";
  style.eos = "<eos>";
  style.generation_prompt = "<start_of_turn>model\n";
  style.trims_content = true;
  return style;
}

Error no_fit(std::string_view what) {
  return Error{
      ErrorCode::kUnsupported,
      fmt::format("the model's chat template {}; choose the nearest with --chat-template chatml, llama2, llama3, "
                  "mistral or gemma, or use /v1/completions",
                  what),
      "chat template"};
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool trims_content(const JinjaScan& scan) {
  for (const JinjaOutput& output : scan.outputs) {
    const JinjaItem* const content = output.find(Kind::kContent);
    if (content && content->is_trimmed) return true;
  }
  return false;
}

Result<ChatStyle> detect_chat_ml(std::string_view jinja, const JinjaScan& scan) {
  // Formats that borrow ChatML's marks and are something else.
  for (const std::string_view stranger : {"<|im_sep|>", "reasoning_mode", "<|plugin|>"}) {
    if (has(jinja, stranger)) return no_fit(fmt::format("is ChatML with {}, which Ullage does not know", stranger));
  }
  ChatStyle style = chat_ml();
  if (has(jinja, "last_query_index")) {
    style.thinking = ChatStyle::Thinking::kPastDropped;
  } else if (has(jinja, "split('</think>')")) {
    if (!has(jinja, "split('</think>')[-1].lstrip('\\n')") || !has(jinja, "if not loop.last %}")) {
      return no_fit("rewrites <think> parts in a way that Ullage does not know");
    }
    style.thinking = ChatStyle::Thinking::kAllButLastDropped;
  }
  style.prompts_after_assistant = !has(jinja, "messages[-1]['role'] != 'assistant'");
  style.leaves_last_open = has(jinja, "or not loop.last");
  style.trims_content = trims_content(scan);
  for (const JinjaOutput& output : scan.outputs) {
    if (output.find(Kind::kBos)) style.bos = "<s>";
  }
  // A whole system message in one literal is the default.
  constexpr std::string_view kOpen = "<|im_start|>system\n";
  constexpr std::string_view kClose = "<|im_end|>";
  for (const JinjaLiteral& literal : scan.literals) {
    const size_t open = literal.text.find(kOpen);
    const size_t close = literal.text.find(kClose, open == std::string::npos ? 0 : open);
    if (open != 0 || close == std::string::npos || close <= kOpen.size()) continue;
    style.default_system = literal.text.substr(kOpen.size(), close - kOpen.size());
    break;
  }
  const size_t asked = jinja.rfind("add_generation_prompt");
  style.always_prompts = asked == std::string_view::npos;
  for (const JinjaLiteral& literal : scan.literals) {
    if (asked != std::string_view::npos && literal.begin < asked) continue;
    if (literal.text.starts_with("<|im_start|>assistant\n")) style.generation_prompt = literal.text;
  }
  return style;
}

Result<ChatStyle> detect_llama3(std::string_view jinja, const JinjaScan& scan) {
  ChatStyle style = llama3();
  style.always_prompts = !has(jinja, "add_generation_prompt");
  if (!has(jinja, "bos_token")) style.bos.clear();
  if (!has(jinja, "Cutting Knowledge Date")) return style;
  style.has_llama31_header = true;
  std::string cutting;
  std::string date;
  for (const JinjaLiteral& literal : scan.literals) {
    if (literal.text.starts_with("Cutting Knowledge Date")) cutting = literal.text;
    // {%- set date_string = "26 Jul 2024" %}
    if (jinja.substr(0, literal.begin).ends_with("date_string = ")) date = literal.text;
  }
  if (cutting.empty() || date.empty()) return no_fit("is Llama 3.1's with dates that Ullage does not find in it");
  style.llama31_dates = fmt::format("{}Today Date: {}\n\n", cutting, date);
  return style;
}

// The statement that a place in the template stands under: the last {% %} before it.
std::string_view statement_before(std::string_view jinja, size_t at) {
  const size_t begin = jinja.rfind("{%", at);
  return begin == std::string_view::npos ? std::string_view() : jinja.substr(begin, at - begin);
}

// The literals before and after an item, as they are.
std::string literals(const JinjaOutput& output, const JinjaItem* item, bool before) {
  std::string text;
  for (const JinjaItem& i : output.items) {
    const bool is_before = &i < item;
    if (i.kind == Kind::kLiteral && &i != item && is_before == before) text += i.text;
  }
  return text;
}

Result<ChatStyle> detect_mistral(std::string_view jinja, const JinjaScan& scan) {
  if (has(jinja, "[SYSTEM_PROMPT]")) return no_fit("is Mistral's with [SYSTEM_PROMPT], which Ullage does not know");
  ChatStyle style = mistral();
  style.has_system = false;
  bool has_user = false;
  bool has_assistant = false;
  for (const JinjaOutput& output : scan.outputs) {
    const JinjaItem* const content = output.find(Kind::kContent);
    if (!content) continue;
    const std::string before = literals(output, content, true);
    if (has(before, "[INST]")) {
      if (const JinjaItem* const system = output.find(Kind::kSystem)) {
        style.has_system = true;
        style.system_in_last_user = has(statement_before(jinja, output.begin), "loop.last");
        style.user_open = literals(output, system, true);
      } else {
        style.user_open = before;
      }
      style.user_close = literals(output, content, false);
      has_user = true;
    } else if (output.find(Kind::kEos) && !has(jinja.substr(output.begin, 40), "tool")) {
      style.assistant_open = before;
      style.assistant_close = literals(output, content, false);
      style.trims_assistant = content->is_trimmed;
      has_assistant = true;
    }
  }
  if (!has_user || !has_assistant) return no_fit("has [INST], but not where Ullage knows it");
  return style;
}

Result<ChatStyle> detect_style(std::string_view jinja) {
  if (jinja.size() > kMaxTemplateBytes) return no_fit(fmt::format("has {} bytes", jinja.size()));
  const JinjaScan scan = scan_jinja(jinja);
  if (has(jinja, "<|im_start|>")) return detect_chat_ml(jinja, scan);
  if (has(jinja, "<|start_header_id|>")) return detect_llama3(jinja, scan);
  if (has(jinja, "<start_of_turn>")) {
    ChatStyle style = gemma();
    style.has_system = has(jinja, "first_user_prefix");
    style.always_prompts = !has(jinja, "add_generation_prompt");
    if (!has(jinja, "bos_token")) style.bos.clear();
    return style;
  }
  if (has(jinja, "[INST]") && has(jinja, "<<SYS>>")) return llama2();
  if (has(jinja, "[INST]")) return detect_mistral(jinja, scan);
  return no_fit("is of a kind that Ullage does not know");
}

}  // namespace

Result<ChatTemplate> ChatTemplate::detect(std::string_view jinja) {
  ChatTemplate chat;
  ULLAGE_TRY(chat.style_, detect_style(jinja));
  return chat;
}

Result<ChatTemplate> ChatTemplate::named(std::string_view name) {
  ChatTemplate chat;
  if (name == "chatml")
    chat.style_ = chat_ml();
  else if (name == "llama2")
    chat.style_ = llama2();
  else if (name == "llama3")
    chat.style_ = llama3();
  else if (name == "mistral")
    chat.style_ = mistral();
  else if (name == "gemma")
    chat.style_ = gemma();
  else
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("found \"{}\"; expected chatml, llama2, llama3, mistral or gemma", name),
                 "--chat-template"};
  return chat;
}

void ChatTemplate::use_tokens_of(const Tokenizer& tokenizer) {
  if (!style_.bos.empty()) {
    style_.bos = tokenizer.bos_token() < 0 ? std::string() : tokenizer.token_name(tokenizer.bos_token());
  }
  if (tokenizer.find_token(style_.eos) < 0 && !tokenizer.eos_tokens().empty()) {
    style_.eos = tokenizer.token_name(tokenizer.eos_tokens().front());
  }
}

const char* ChatTemplate::name() const {
  switch (style_.format) {
    case ChatFormat::kChatMl:
      return "chatml";
    case ChatFormat::kLlama2:
      return "llama2";
    case ChatFormat::kLlama3:
      return "llama3";
    case ChatFormat::kMistral:
      return "mistral";
    case ChatFormat::kGemma:
      return "gemma";
  }
  return "";
}

}  // namespace ullage::text
