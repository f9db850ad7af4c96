// A whole scenario as the fragment of a URL, for links that people share:
//
//   #v1;model=Qwen/Qwen3-8B;device=h100;prompt=4k;force_mha
//
// Keys are those of plan documents, values their texts, percent-encoded where a URL or the form itself needs it; a key
// alone is true. What is not said is the default. "model" and "device" that are objects are JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ullage/api/plan_input.h"
#include "ullage/base/json_fwd.h"
#include "ullage/base/result.h"

namespace ullage::api {

// Of a plan document (an object). Keys keep their order; "schema_version" and "explain" are left out.
Result<std::string> print_link(const Json& document, std::string_view where);

struct ParsedLink {
  std::string document;              // a plan document
  std::vector<std::string> unknown;  // keys that this version does not know: left out, to be told
};
// From "#v1;..." on, with or without what stands before the '#'. kUnsupported for another version, kInvalidArgument for
// what is not a link.
Result<ParsedLink> parse_link(std::string_view text, std::string_view where);
bool is_link(std::string_view text);

// What was asked, as a plan document: the model by name or by its config.json, the device in full where it was given
// so. kUnsupported for a model that is neither in the catalogue nor has a config.json.
Result<Json> plan_document_of(const PlanInput& input);

// {"scenario": document} -> {"link"}; {"link": text} -> {"scenario", "unknown"}.
std::string link_document(std::string_view json);

}  // namespace ullage::api
