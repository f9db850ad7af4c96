#include "ullage/memory/vllm_rules.h"

#include <iterator>

namespace ullage::memory {
namespace {

constexpr VllmLayoutRules kRules[] = {
    // V0: one pool, no groups; latent vectors of 576 took 640 (two logs of 0.7).
    {.from = 0,
     .group_size_percent = 0,
     .is_hybrid_disabled = true,
     .pads_unlike_pages = false,
     .latent_state_alignment = 64,
     .latent_padding = 128,
     .max_concurrent_batches = 1,
     .caches_hybrid_prefixes = false,
     .prints_derived_tokens = false},
    // V1 without the hybrid manager.
    {.from = 8'000,
     .group_size_percent = 0,
     .is_hybrid_disabled = true,
     .pads_unlike_pages = false,
     .latent_state_alignment = 64,
     .max_concurrent_batches = 1,
     .caches_hybrid_prefixes = false,
     .prints_derived_tokens = false},
    // Groups as large as the smallest kind (kv_cache_utils.py of 0.9.1 to 0.11.2).
    {.from = 9'001,
     .group_size_percent = 0,
     .pads_unlike_pages = false,
     .latent_state_alignment = 64,
     .max_concurrent_batches = 1,
     .caches_hybrid_prefixes = false,
     .prints_derived_tokens = false},
    // The exception for drafters' layers: below 1.25 times the smallest (0.12), then 1.5 times (0.18).
    {.from = 12'000,
     .group_size_percent = 125,
     .pads_unlike_pages = false,
     .latent_state_alignment = 64,
     .max_concurrent_batches = 1,
     .caches_hybrid_prefixes = false,
     .prints_derived_tokens = false},
    {.from = 18'000,
     .pads_unlike_pages = false,
     .latent_state_alignment = 64,
     .max_concurrent_batches = 1,
     .caches_hybrid_prefixes = false,
     .prints_derived_tokens = false},
    // Tokens derived from concurrency.
    {.from = 20'002,
     .pads_unlike_pages = false,
     .latent_state_alignment = 64,
     .max_concurrent_batches = 1,
     .caches_hybrid_prefixes = false},
    // Pages that do not divide are padded.
    {.from = 24'000, .latent_state_alignment = 64, .max_concurrent_batches = 1, .caches_hybrid_prefixes = false},
    // Windows keep room for every batch in flight; prefixes are cached in models with states.
    {.from = 26'000, .latent_state_alignment = 64},
    {.from = 27'000},
};

}  // namespace

int64_t version_number(std::string_view version) {
  if (!version.empty() && (version[0] == 'v' || version[0] == 'V')) version.remove_prefix(1);
  int64_t parts[3] = {0, 0, 0};
  size_t at = 0;
  for (int64_t& part : parts) {
    if (at >= version.size() || version[at] < '0' || version[at] > '9') break;
    while (at < version.size() && version[at] >= '0' && version[at] <= '9') {
      part = part * 10 + (version[at++] - '0');
      if (part > 999'999) return -1;
    }
    if (at >= version.size() || version[at] != '.') break;
    ++at;
  }
  if (at == 0) return -1;
  // "0.1.dev1+g...": a build from a tree without tags. Which version it is of cannot be told.
  if (parts[0] == 0 && parts[1] < 2 && version.substr(at).starts_with("dev")) return -1;
  return parts[0] * 1'000'000 + parts[1] * 1'000 + parts[2];
}

const VllmLayoutRules& vllm_layout_rules(std::string_view version) {
  const int64_t number = version_number(version);
  const VllmLayoutRules* found = &kRules[std::size(kRules) - 1];
  if (number < 0) return *found;
  for (const VllmLayoutRules& rules : kRules) {
    if (rules.from <= number) found = &rules;
  }
  return *found;
}

void apply(const VllmLayoutRules& rules, bool has_latent, KvLayoutOptions& options) {
  options.has_group_size_exception = rules.group_size_percent > 0;
  if (rules.group_size_percent > 0) options.group_size_percent = rules.group_size_percent;
  options.is_hybrid_disabled = options.is_hybrid_disabled || rules.is_hybrid_disabled;
  options.pads_unlike_pages = rules.pads_unlike_pages;
  options.latent_padding = rules.latent_padding;
  if (has_latent) options.state_block_alignment = rules.latent_state_alignment;
}

}  // namespace ullage::memory
