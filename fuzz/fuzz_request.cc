// Bodies of requests: the first byte says for which route. An Error must say something, in text that JSON can carry.
#include <cstdlib>
#include <string_view>

#include "ullage/base/json.h"
#include "ullage/serve/openai_request.h"

using namespace ullage;

namespace {

template <class T>
void check(const Result<T>& result) {
  if (result) return;
  if (result.error().message.empty()) std::abort();
  (void)dump_json(Json(result.error().to_string()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'c':
      check(serve::parse_completion_request(body));
      break;
    case 'm':
      check(serve::parse_chat_request(body));
      break;
    case 't':
      check(serve::parse_tokenize_request(body));
      break;
    case 'd':
      check(serve::parse_detokenize_request(body));
      break;
    default:
      break;
  }
  return 0;
}
