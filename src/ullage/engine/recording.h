// A run as its decision log recorded it: what came from outside, before which step, and which tokens were sampled.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "ullage/base/hash.h"
#include "ullage/base/ids.h"
#include "ullage/base/result.h"
#include "ullage/engine/engine.h"
#include "ullage/sched/request.h"

namespace ullage::engine {

// Something that came from outside, before step `step_index` was planned.
struct ArrivalRecord {
  enum class Kind : uint8_t { kRequest, kCancel, kFinish };

  int64_t step_index = 0;
  Kind kind = Kind::kRequest;
  RequestId id;
  sched::RequestParams params;                              // of kRequest
  sched::FinishReason reason = sched::FinishReason::kStop;  // of kFinish
};

struct Recording {
  EngineOptions options;
  std::vector<ArrivalRecord> arrivals;               // in order
  std::map<RequestId, std::vector<TokenId>> tokens;  // sampled, in order of output index
  int64_t num_steps = 0;
  Hash128 hash;  // the log's last
};

// Reads a decision log's lines. An Error names the line.
Result<Recording> read_recording(std::string_view lines, std::string_view where);

}  // namespace ullage::engine
