#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "ullage/serve/request_body.h"
#include "ullage/serve/request_fields.h"

namespace ullage::serve {
namespace {

// The text of a content part; parts of a message are joined by line ends, as vLLM joins them for templates of strings.
Result<std::string> read_part(const Json& part, const std::string& where) {
  if (part.is_string()) return part.get<std::string>();
  if (!part.is_object()) {
    return bad_field(where, fmt::format("'{}' must be an object with a 'type', found {}", where, type_name(part)));
  }
  const Json* type = find_member(part, "type");
  if (type == nullptr || !type->is_string()) {
    return bad_field(where, fmt::format("'{}' must have a string 'type'", where));
  }
  const std::string& name = type->get_ref<const std::string&>();
  if (name != "text") {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("content of type '{}' is not supported by this server: send text parts only",
                             std::string_view(name).substr(0, 64)),
                 where};
  }
  const Json* text = find_member(part, "text");
  if (text == nullptr || !text->is_string()) {
    return bad_field(where, fmt::format("'{}' is of type text and must have a string 'text'", where));
  }
  return text->get<std::string>();
}

Result<std::string> read_content(const Json& message, std::string_view role, const std::string& where) {
  const Json* content = find_member(message, "content");
  const std::string path = where + "/content";
  if (content == nullptr) {
    if (role == "assistant") return std::string();
    return bad_field(path, fmt::format("'{}' is missing; send a string or an array of text parts", path));
  }
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    return bad_field(
        path, fmt::format("'{}' must be a string or an array of text parts, found {}", path, type_name(*content)));
  }
  std::string joined;
  for (size_t i = 0; i < content->size(); ++i) {
    ULLAGE_TRY(std::string text, read_part((*content)[i], fmt::format("{}/{}", path, i)));
    if (i > 0) joined += '\n';
    joined += text;
  }
  return joined;
}

Result<text::ChatMessage> read_message(const Json& message, const std::string& where) {
  if (!message.is_object()) {
    return bad_field(
        where, fmt::format("'{}' must be an object with 'role' and 'content', found {}", where, type_name(message)));
  }
  const Json* role = find_member(message, "role");
  if (role == nullptr || !role->is_string()) {
    return bad_field(where + "/role", fmt::format("'{}/role' must be a string", where));
  }
  text::ChatMessage result;
  result.role = role->get<std::string>();
  if (result.role == "tool" || result.role == "function") {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("messages of role '{}' are not supported by this server: tool calling is not offered yet",
                             result.role),
                 where + "/role"};
  }
  if (result.role != "system" && result.role != "developer" && result.role != "user" && result.role != "assistant") {
    return bad_field(where + "/role",
                     fmt::format("'{}/role' must be system, developer, user or assistant, found \"{}\"", where,
                                 std::string_view(result.role).substr(0, 32)));
  }
  for (const char* key : {"tool_calls", "function_call", "audio"}) {
    const Json* value = find_member(message, key);
    if (value != nullptr && !value->empty()) {
      return Error{ErrorCode::kUnsupported, fmt::format("'{}/{}' is not supported by this server", where, key),
                   fmt::format("{}/{}", where, key)};
    }
  }
  ULLAGE_TRY(result.content, read_content(message, result.role, where));
  return result;
}

}  // namespace

Result<std::vector<text::ChatMessage>> read_messages(const Json& body) {
  const Json* messages = find_member(body, "messages");
  if (messages == nullptr) return bad_field("messages", "'messages' is missing; send an array of messages");
  if (!messages->is_array()) {
    return bad_field("messages", fmt::format("'messages' must be an array, found {}", type_name(*messages)));
  }
  if (messages->empty()) return bad_field("messages", "'messages' must hold at least one message");
  std::vector<text::ChatMessage> result;
  result.reserve(messages->size());
  for (size_t i = 0; i < messages->size(); ++i) {
    ULLAGE_TRY(text::ChatMessage message, read_message((*messages)[i], fmt::format("messages/{}", i)));
    result.push_back(std::move(message));
  }
  return result;
}

}  // namespace ullage::serve
