#include "ullage/text/normalizer.h"

#include <algorithm>
#include <cstdint>

#include <utf8proc.h>

#include "ullage/text/utf8.h"

namespace ullage::text {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

int combining_class(int32_t c) { return static_cast<int>(utf8proc_get_property(c)->combining_class); }

}  // namespace

std::string to_normal_form(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);
  const bool is_compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const bool is_composed = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (is_compatible ? UTF8PROC_COMPAT : 0));
  std::vector<int32_t> points;
  points.reserve(text.size() + 8);
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (c < 0xC0) {  // nothing below decomposes canonically; compatibility forms begin at U+00A0
      if (c < 0xA0 || !is_compatible) {
        points.push_back(static_cast<int32_t>(c));
        continue;
      }
    }
    int32_t parts[64];  // the longest decomposition has 18
    int last_class = 0;
    const auto n = utf8proc_decompose_char(static_cast<int32_t>(c), parts, 64, options, &last_class);
    if (n < 0 || n > 64)
      points.push_back(static_cast<int32_t>(c));
    else
      points.insert(points.end(), parts, parts + n);
  }
  // Canonical order, by a sort for each run of combining marks: utf8proc's own takes quadratic time for a long run.
  for (size_t i = 0; i < points.size();) {
    if (points[i] < 0x300 || combining_class(points[i]) == 0) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < points.size() && points[end] >= 0x300 && combining_class(points[end]) != 0) ++end;
    std::stable_sort(points.begin() + static_cast<ptrdiff_t>(i), points.begin() + static_cast<ptrdiff_t>(end),
                     [](int32_t a, int32_t b) { return combining_class(a) < combining_class(b); });
    i = end;
  }
  if (is_composed) {
    const auto n = utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()),
                                            static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (n >= 0) points.resize(static_cast<size_t>(n));
  }
  std::string out;
  out.reserve(text.size());
  for (const int32_t c : points) append_utf8(static_cast<char32_t>(c), out);
  return out;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  if (at == std::string::npos) return;
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  size_t done = 0;
  while (at != std::string::npos) {
    out.append(text, done, at - done);
    out.append(to);
    done = at + from.size();
    at = text.find(from, done);
  }
  out.append(text, done);
  text = std::move(out);
}

std::string normalize(std::string text, const std::vector<NormalizerStep>& steps) {
  for (const NormalizerStep& step : steps) {
    switch (step.kind) {
      case NormalizerStep::Kind::kNormalForm:
        text = to_normal_form(text, step.form);
        break;
      case NormalizerStep::Kind::kPrepend:
        if (!text.empty()) text.insert(0, step.to);
        break;
      case NormalizerStep::Kind::kReplace:
        replace_all(text, step.from, step.to);
        break;
    }
  }
  return text;
}

}  // namespace ullage::text
