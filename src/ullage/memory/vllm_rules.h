// How vLLM's versions lay a cache out. Read in each release's own source, and found in its logs.
#pragma once

#include <cstdint>
#include <string_view>

#include "ullage/memory/kv_layout.h"

namespace ullage::memory {

struct VllmLayoutRules {
  int64_t from = 0;                  // the first version with these rules, as version_number
  int64_t group_size_percent = 150;  // KvLayoutOptions; 0 = no exception
  bool is_hybrid_disabled = false;   // windows are kept like full attention
  bool pads_unlike_pages = true;
  int64_t latent_state_alignment = 0;  // state_block_alignment of models of latent attention; 0 = the newest rule
  int64_t latent_padding = 1;          // latent vectors are padded to a multiple of so many numbers
  int64_t max_concurrent_batches = 2;  // of asynchronous scheduling, that windows keep room for
  bool caches_hybrid_prefixes = true;  // prefix caching is on by default for models with states, too
  bool prints_derived_tokens = true;   // else tokens are num_blocks // groups * the smallest block
};

// "0.20.2", "v0.19.2rc1.dev134+gfe9c3d6c5", "0.7": 1,000,000 * major + 1,000 * minor + patch; a release candidate or
// development version counts as its release. -1 for what is no version, and for
// "0.1.dev1", a build without a tag.
int64_t version_number(std::string_view version);

// The rules of a version; those of the newest for one that is no version.
const VllmLayoutRules& vllm_layout_rules(std::string_view version);

// `options` with what the rules say. `has_latent`: the model's attention is latent.
void apply(const VllmLayoutRules& rules, bool has_latent, KvLayoutOptions& options);

}  // namespace ullage::memory
