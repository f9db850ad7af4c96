// JSON of the decision log's lines. Included by .cc files of engine/ only: it needs nlohmann.
#pragma once

#include <cstdint>
#include <string_view>

#include "ullage/base/json.h"
#include "ullage/engine/engine.h"
#include "ullage/sched/request.h"

namespace ullage::engine {

const char* reason_name(sched::FinishReason reason);
Result<sched::FinishReason> parse_reason(std::string_view name, std::string_view where);

Json header_to_json(const EngineOptions& options);
Result<EngineOptions> options_from_json(const Json& header, std::string_view where);

Json arrival_to_json(int64_t step_index, const sched::RequestParams& params);
Result<sched::RequestParams> params_from_json(const Json& line, std::string_view where);

}  // namespace ullage::engine
