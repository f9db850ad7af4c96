// What is done to a text before it is cut: Unicode normal forms, and the rewriting of spaces in SentencePiece's way.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ullage::text {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// REQUIRES: valid UTF-8. O(n log n) in the worst case, runs of combining marks of any length included.
std::string to_normal_form(std::string_view text, NormalForm form);

struct NormalizerStep {
  enum class Kind { kNormalForm, kPrepend, kReplace };
  Kind kind = Kind::kNormalForm;
  NormalForm form = NormalForm::kNfc;
  std::string from;  // kReplace; not empty
  std::string to;    // kReplace: what comes instead; kPrepend: what comes before a text that is not empty
};

// The steps in order. REQUIRES: valid UTF-8.
std::string normalize(std::string text, const std::vector<NormalizerStep>& steps);

void replace_all(std::string& text, std::string_view from, std::string_view to);

}  // namespace ullage::text
