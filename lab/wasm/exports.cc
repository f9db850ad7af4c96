// What the page calls: a function's name and a document in, a document out. One call at a time.
//
//   memory:  p = ullage_alloc(n), fill it, ullage_answer(p, name_size, question_size), read ullage_answer_data() and
//            ullage_answer_size(), ullage_free(p). The answer stays until the next call.
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ullage/api/documents.h"

namespace {

std::string& last_answer() {
  static std::string text;
  return text;
}

}  // namespace

extern "C" {

[[clang::export_name("ullage_alloc")]] void* ullage_alloc(size_t size) { return std::malloc(size > 0 ? size : 1); }
[[clang::export_name("ullage_free")]] void ullage_free(void* data) { std::free(data); }

// `data`: the function's name, and behind it the question.
[[clang::export_name("ullage_answer")]] void ullage_answer(const char* data, size_t name_size, size_t question_size) {
  last_answer() = ullage::api::answer_document(std::string_view(data, name_size),
                                               std::string_view(data + name_size, question_size));
}
[[clang::export_name("ullage_answer_data")]] const char* ullage_answer_data() { return last_answer().data(); }
[[clang::export_name("ullage_answer_size")]] size_t ullage_answer_size() { return last_answer().size(); }

}  // extern "C"
