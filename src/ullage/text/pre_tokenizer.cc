#include "ullage/text/pre_tokenizer.h"

#include "ullage/text/normalizer.h"

namespace ullage::text {
namespace {

// Joins or drops spans as the behaviour says; offsets stay whole.
void apply_behavior(SplitBehavior behavior, std::vector<SplitSpan>& spans) {
  if (behavior == SplitBehavior::kIsolated) return;
  std::vector<SplitSpan> out;
  bool last_was_match = false;
  for (size_t i = 0; i < spans.size(); ++i) {
    const SplitSpan& span = spans[i];
    switch (behavior) {
      case SplitBehavior::kRemoved:
        if (!span.is_match) out.push_back(span);
        break;
      case SplitBehavior::kMergedWithPrevious:
        if (span.is_match && !last_was_match && !out.empty())
          out.back().end = span.end;
        else
          out.push_back(span);
        last_was_match = span.is_match;
        break;
      case SplitBehavior::kMergedWithNext:
        if (!span.is_match && last_was_match && !out.empty())
          out.back().end = span.end;
        else
          out.push_back(span);
        last_was_match = span.is_match;
        break;
      case SplitBehavior::kContiguous:
        if (!out.empty() && out.back().is_match == span.is_match)
          out.back().end = span.end;
        else
          out.push_back(span);
        break;
      case SplitBehavior::kIsolated:
        break;
    }
  }
  spans = std::move(out);
}

void split_pieces(const PreTokenizerStep& step, RegexScratch& scratch, std::vector<Piece>& pieces) {
  std::vector<Piece> out;
  out.reserve(pieces.size());
  std::vector<SplitSpan> spans;
  for (const Piece& piece : pieces) {
    step.regex.front().split(piece.text, scratch, spans);
    if (step.invert) {
      for (SplitSpan& span : spans) span.is_match = !span.is_match;
    }
    apply_behavior(step.behavior, spans);
    for (const SplitSpan& span : spans) {
      out.push_back({piece.text.substr(span.begin, span.end - span.begin), piece.is_first && span.begin == 0});
    }
  }
  pieces = std::move(out);
}

void apply_metaspace(const PreTokenizerStep& step, PieceArena& arena, std::vector<Piece>& pieces) {
  const std::string& mark = step.replacement;
  std::vector<Piece> out;
  for (const Piece& piece : pieces) {
    std::string text(piece.text);
    replace_all(text, " ", mark);
    const bool may_prepend =
        step.prepend == PrependScheme::kAlways || (step.prepend == PrependScheme::kFirst && piece.is_first);
    if (may_prepend && !text.starts_with(mark)) text.insert(0, mark);
    arena.push_back(std::move(text));
    const std::string_view whole = arena.back();
    if (!step.split) {
      out.push_back({whole, piece.is_first});
      continue;
    }
    // Each mark begins a piece.
    size_t begin = 0;
    while (begin < whole.size()) {
      const size_t from = whole.substr(begin).starts_with(mark) ? begin + mark.size() : begin;
      const size_t end = std::min(whole.find(mark, from), whole.size());
      out.push_back({whole.substr(begin, end - begin), piece.is_first && begin == 0});
      begin = end;
    }
  }
  pieces = std::move(out);
}

}  // namespace

void pre_tokenize(const std::vector<PreTokenizerStep>& steps, RegexScratch& scratch, PieceArena& arena,
                  std::vector<Piece>& pieces) {
  for (const PreTokenizerStep& step : steps) {
    switch (step.kind) {
      case PreTokenizerStep::Kind::kSplit:
        split_pieces(step, scratch, pieces);
        break;
      case PreTokenizerStep::Kind::kPrefixSpace:
        for (Piece& piece : pieces) {
          if (piece.text.starts_with(' ')) continue;
          arena.push_back(" " + std::string(piece.text));
          piece.text = arena.back();
        }
        break;
      case PreTokenizerStep::Kind::kMetaspace:
        apply_metaspace(step, arena, pieces);
        break;
    }
  }
}

}  // namespace ullage::text
