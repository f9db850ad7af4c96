// The fields that completions and chat share, and the chat's messages. Include from .cc files only (JSON is heavy).
#pragma once

#include <vector>

#include "ullage/base/json.h"
#include "ullage/base/result.h"
#include "ullage/serve/openai_request.h"

namespace ullage::serve {

// Reads everything but prompt, messages, logprobs and what is the one API's alone. Refuses by name what is known and
// not offered, and lists what is unknown in `ignored`.
Result<GenerationFields> read_generation_fields(const Json& body, const RequestLimits& limits);

// The "messages" of a chat: roles system, developer, user, assistant; content a string, null (assistant) or text parts.
Result<std::vector<text::ChatMessage>> read_messages(const Json& body);

}  // namespace ullage::serve
