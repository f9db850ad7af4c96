#include "ullage/model/module_names.h"

#include <array>

#include <fmt/format.h>

#include "ullage/model/model_shape.h"

namespace ullage::model {
namespace {

// Longest first: the first that fits is taken off.
constexpr std::string_view kBeginnings[] = {"model.language_model.", "language_model.model.", "language_model.",
                                            "backbone.", "model."};

constexpr std::array<std::array<std::string_view, 2>, 6> kSameParts = {{{"block_sparse_moe", "mlp"},
                                                                        {"feed_forward", "mlp"},
                                                                        {"ffn", "mlp"},
                                                                        {"attn", "self_attn"},
                                                                        {"shared_expert", "shared_experts"},
                                                                        {"shared_mlp", "shared_experts"}}};

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view same_part(std::string_view part) {
  // "mlp*" keeps its star.
  for (const auto& [from, to] : kSameParts) {
    if (part == from) return to;
  }
  return part;
}

// The first part of a name within its layer, replaced.
std::string with_first_part(std::string_view name, std::string_view first) {
  const size_t dot = name.find('.');
  return dot == std::string_view::npos ? std::string(name) : fmt::format("{}{}", first, name.substr(dot));
}

}  // namespace

std::string canonical_module(std::string_view pattern) {
  for (const std::string_view beginning : kBeginnings) {
    if (pattern.starts_with(beginning)) {
      pattern.remove_prefix(beginning.size());
      break;
    }
  }
  std::string canonical;
  std::string_view before;
  while (true) {
    const size_t dot = pattern.find('.');
    std::string_view part = pattern.substr(0, dot);
    const bool has_star = part.size() > 1 && part.ends_with('*');
    const std::string_view same = same_part(has_star ? part.substr(0, part.size() - 1) : part);
    // "experts.17.up_proj" is one of many alike.
    if (!(before == "experts" && is_number(part))) {
      if (!canonical.empty()) canonical += '.';
      canonical += same;
      if (has_star) canonical += '*';
    }
    before = part;
    if (dot == std::string_view::npos) return canonical;
    pattern.remove_prefix(dot + 1);
  }
}

LayerModule split_layer(std::string_view module) {
  constexpr std::string_view kKey = "layers.";
  const size_t at = module.find(kKey);
  if (at == std::string_view::npos || (at > 0 && module[at - 1] != '.')) return {-1, module};
  const std::string_view rest = module.substr(at + kKey.size());
  const size_t dot = rest.find('.');
  if (dot > 9 ||  // npos, too
      !is_number(rest.substr(0, dot)))
    return {-1, module};
  int64_t layer = 0;
  for (const char digit : rest.substr(0, dot)) layer = layer * 10 + (digit - '0');
  return {layer, rest.substr(dot + 1)};
}

CandidateNames candidate_names(const ModelShape& shape, std::string_view name, WeightRole role, int64_t layer) {
  CandidateNames names;
  names.is_draft = role == WeightRole::kDraft;
  std::vector<std::string> spellings = {std::string(name), canonical_module(name), with_first_part(name, "mixer")};
  std::string_view rest = name;
  // Where experts lie beside the feed-forward, not in it (Gemma 4).
  if (shape.architecture.starts_with("gemma4") && rest.starts_with("mlp.experts")) {
    rest.remove_prefix(4);
    spellings = {std::string(rest)};
  }
  if (layer < 0) {
    if (role == WeightRole::kOutputHead) spellings.emplace_back("head");  // DeepSeek's own name
    names.bare = spellings;
    names.spelled_out = spellings;
    names.spelled_out.push_back(fmt::format("model.{}", name));
    names.spelled_out.push_back(fmt::format("language_model.{}", name));
    return names;
  }
  const auto num_layers = static_cast<int64_t>(shape.layers.size());
  names.bare.reserve(3 * spellings.size());
  names.spelled_out.reserve(6 * spellings.size());
  for (const std::string& spelling : spellings) {
    if (names.is_draft) {
      names.bare.push_back(fmt::format("layers.{}.{}", num_layers + layer, spelling));
      names.bare.push_back(fmt::format("mtp.layers.{}.{}", layer, spelling));
      names.bare.push_back(fmt::format("mtp.{}.{}", layer, spelling));
    } else {
      names.bare.push_back(fmt::format("layers.{}.{}", layer, spelling));
    }
  }
  const size_t experts = name.find("experts.");
  const std::string numbered = experts == std::string_view::npos || role != WeightRole::kExperts
                                   ? std::string()
                                   : fmt::format("{}0.{}", name.substr(0, experts + 8), name.substr(experts + 8));
  for (const std::string& bare : names.bare) {
    names.spelled_out.push_back(bare);
    for (const std::string_view beginning : kBeginnings) {
      names.spelled_out.push_back(std::string(beginning) + bare);
      if (!numbered.empty() && !names.is_draft) {
        names.spelled_out.push_back(fmt::format("{}layers.{}.{}", beginning, layer, numbered));
      }
    }
  }
  return names;
}

}  // namespace ullage::model
