#include "ullage/memory/engine_profile.h"

#include <fmt/format.h>

#include "ullage/base/quote.h"

namespace ullage::memory {
namespace {

constexpr EngineProfile kProfiles[] = {
    {.name = "vllm-0.29", .engine = Engine::kVllm, .evidence = "vLLM's source, August 2026", .error = ""},
};

}  // namespace

std::span<const EngineProfile> engine_profiles() { return kProfiles; }

Result<const EngineProfile*> find_engine_profile(std::string_view name, std::string_view where) {
  for (const EngineProfile& profile : kProfiles) {
    if (name == profile.name || name == "vllm") return &profile;
  }
  return Error{ErrorCode::kNotFound, fmt::format("no policy is called {}", quote(name)), std::string(where)};
}

int64_t default_max_num_seqs(const EngineProfile& /*profile*/, const hardware::Device& device) {
  return device.nominal_memory.value >= 70 * kGiB ? 1024 : 256;
}

int64_t default_max_num_batched_tokens(const EngineProfile& /*profile*/, const hardware::Device& device) {
  return device.nominal_memory.value >= 70 * kGiB ? 8192 : 2048;
}

}  // namespace ullage::memory
