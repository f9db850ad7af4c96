#include "ullage/sched/admission.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "ullage/base/units.h"

namespace ullage::sched {
namespace {

Error invalid(std::string message, const char* where) {
  return {ErrorCode::kInvalidArgument, std::move(message), where};
}

Result<void> check_range(int64_t value, int64_t low, int64_t high, const char* name) {
  if (value >= low && value <= high) return {};
  return invalid(fmt::format("{} is {}; it must lie in [{}, {}]", name, value, low, high), name);
}

}  // namespace

Result<void> validate(const SchedulerOptions& o) {
  constexpr int64_t kMax32 = std::numeric_limits<int32_t>::max();
  constexpr int64_t kMax = int64_t{1} << 40;
  ULLAGE_TRY_VOID(check_range(o.num_blocks, 2, kMax32, "num_blocks"));
  ULLAGE_TRY_VOID(check_range(o.block_size, 1, 1 << 20, "block_size"));
  ULLAGE_TRY_VOID(check_range(o.max_model_len, 2, kMax, "max_model_len"));
  ULLAGE_TRY_VOID(check_range(o.max_num_seqs, 1, kMax32, "max_num_seqs"));
  ULLAGE_TRY_VOID(check_range(o.max_num_batched_tokens, 1, kMax, "max_num_batched_tokens"));
  ULLAGE_TRY_VOID(check_range(o.max_queue_len, 1, kMax32, "max_queue_len"));
  ULLAGE_TRY_VOID(check_range(o.long_prefill_token_threshold, 0, kMax, "long_prefill_token_threshold"));
  if (!(o.watermark >= 0.0 && o.watermark < 1.0))
    return invalid(fmt::format("watermark is {}; it must lie in [0, 1)", o.watermark), "watermark");
  if (!o.enable_chunked_prefill && o.long_prefill_token_threshold > 0)
    return invalid(
        "long_prefill_token_threshold cuts prompts into chunks, and chunked prefill is off; "
        "leave one of the two at its default",
        "long_prefill_token_threshold");
  return {};
}

int64_t max_cached_tokens(int64_t num_prompt_tokens, int64_t max_tokens, int64_t max_model_len) {
  // max_tokens may be as large as int64 holds ("no limit"): compare before adding.
  return num_prompt_tokens + std::min(max_tokens, max_model_len - num_prompt_tokens) - 1;
}

Result<void> check_request(const RequestParams& params, const SchedulerOptions& options) {
  const auto num_prompt = static_cast<int64_t>(params.prompt.size());
  const StopParams& stop = params.stop;
  if (num_prompt == 0) return invalid("the prompt has no tokens; it needs at least one", "prompt");
  if (stop.max_tokens < 1)
    return invalid(fmt::format("max_tokens is {}; it must be at least 1", stop.max_tokens), "max_tokens");
  if (stop.min_tokens < 0 || stop.min_tokens > stop.max_tokens)
    return invalid(
        fmt::format("min_tokens is {}; it must lie in [0, max_tokens = {}]", stop.min_tokens, stop.max_tokens),
        "min_tokens");
  if (num_prompt >= options.max_model_len)
    return Error{ErrorCode::kTooLarge,
                 fmt::format("the prompt has {} tokens, and prompt and output together may have {} (max_model_len); "
                             "shorten the prompt to {} tokens or fewer",
                             num_prompt, options.max_model_len, options.max_model_len - 1),
                 "prompt"};
  const int64_t num_cached = max_cached_tokens(num_prompt, stop.max_tokens, options.max_model_len);
  const int64_t num_blocks = ceil_div(num_cached, options.block_size);
  const int64_t num_usable = options.num_blocks - 1;
  if (num_blocks > num_usable)
    return Error{ErrorCode::kTooLarge,
                 fmt::format("a prompt of {} tokens with up to {} more needs {} KV-cache blocks of {} tokens, and the "
                             "pool has {}; shorten the prompt, lower max_tokens, or give the KV cache more memory",
                             num_prompt, num_cached + 1 - num_prompt, num_blocks, options.block_size, num_usable),
                 "prompt"};
  if (!options.enable_chunked_prefill && num_prompt > options.max_num_batched_tokens)
    return Error{ErrorCode::kTooLarge,
                 fmt::format("the prompt has {} tokens, and without chunked prefill one step computes at most {} "
                             "(max_num_batched_tokens); shorten it, raise the limit, or enable chunked prefill",
                             num_prompt, options.max_num_batched_tokens),
                 "prompt"};
  return {};
}

}  // namespace ullage::sched
