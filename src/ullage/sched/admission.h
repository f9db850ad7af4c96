// What can be said of options and requests by arithmetic alone.
#pragma once

#include <cstdint>

#include "ullage/base/result.h"
#include "ullage/sched/request.h"
#include "ullage/sched/scheduler.h"

namespace ullage::sched {

// The most tokens whose keys and values a request can come to need at once: all of its longest outcome but the last
// token, which is sampled and never computed.
int64_t max_cached_tokens(int64_t num_prompt_tokens, int64_t max_tokens, int64_t max_model_len);

// Whether the request can be served by an empty engine; the Error says why never.
Result<void> check_request(const RequestParams& params, const SchedulerOptions& options);

}  // namespace ullage::sched
