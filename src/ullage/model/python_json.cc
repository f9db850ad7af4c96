#include "ullage/model/python_json.h"

namespace ullage::model {

std::string without_python_numbers(std::string_view text) {
  std::string out(text);
  const auto replace = [&](size_t at, std::string_view word, std::string_view by) {
    if (text.substr(at, word.size()) != word) return false;
    for (size_t i = 0; i < word.size(); ++i) out[at + i] = i < by.size() ? by[i] : ' ';
    return true;
  };
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && c == 'I' && replace(i, "Infinity", "1e308")) {
      i += 7;
    } else if (!in_string && c == 'N' && replace(i, "NaN", "0")) {
      i += 2;
    }
  }
  return out;
}

}  // namespace ullage::model
