// Every answer by name, a JSON document in and one out: what the page's WebAssembly module exports, and what a server
// or a script may call. The same question gives the same bytes on every platform.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ullage::api {

struct DocumentFunction {
  std::string_view name;  // "plan"
  std::string_view help;  // the question's keys and what comes back; docs/plan-json.md has it in full
  std::string (*answer)(std::string_view json);
};

std::span<const DocumentFunction> document_functions();

// The answer; an error document for a name that is not known or a question that cannot be answered.
std::string answer_document(std::string_view function, std::string_view json);

}  // namespace ullage::api
