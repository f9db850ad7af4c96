#include "ullage/engine/recording.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "ullage/engine/recording_json.h"

namespace ullage::engine {
namespace {

Result<Hash128> parse_hash(const std::string& hex, std::string_view where) {
  Hash128 hash;
  if (hex.size() != 32) return Error{ErrorCode::kCorrupt, "a hash is 32 hex digits", std::string(where)};
  for (size_t i = 0; i < 32; ++i) {
    const char c = hex[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return Error{ErrorCode::kCorrupt, "a hash is 32 hex digits", std::string(where)};
    uint64_t& half = i < 16 ? hash.high : hash.low;
    half = half * 16 + static_cast<uint64_t>(digit);
  }
  return hash;
}

Result<void> read_step(const Json& line, Recording& recording, std::string_view where) {
  ULLAGE_TRY(const int64_t step, get_int(line, "step", -1, where));
  if (step != recording.num_steps) {
    return Error{ErrorCode::kCorrupt, fmt::format("found step {} where step {} comes next", step, recording.num_steps),
                 std::string(where)};
  }
  ++recording.num_steps;
  if (const auto sampled = line.find("sampled"); sampled != line.end()) {
    for (const Json& pair : *sampled) {
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_integer() || !pair[1].is_number_integer()) {
        return Error{ErrorCode::kInvalidArgument, "expected pairs of request id and token id",
                     fmt::format("{}/sampled", where)};
      }
      recording.tokens[RequestId(pair[0].get<int64_t>())].push_back(pair[1].get<TokenId>());
    }
  }
  return {};
}

Result<void> read_line(const Json& line, Recording& recording, bool& has_header, std::string_view where) {
  ULLAGE_TRY(const std::string type, get_string(line, "type", "", where));
  if (type == "header") {
    ULLAGE_TRY(recording.options, options_from_json(line, where));
    has_header = true;
    return {};
  }
  if (!has_header) return Error{ErrorCode::kCorrupt, "a decision log begins with a header line", std::string(where)};
  if (type == "step" || type == "refuse") {
    ULLAGE_TRY(const std::string hex, get_string(line, "hash", "", where));
    ULLAGE_TRY(recording.hash, parse_hash(hex, where));
    if (type == "refuse") return {};
    return read_step(line, recording, where);
  }
  ArrivalRecord record;
  ULLAGE_TRY(record.step_index, get_int(line, "step", -1, where));
  ULLAGE_TRY(record.id.value, get_int(line, "id", 0, where));
  if (record.step_index != recording.num_steps) {
    return Error{
        ErrorCode::kCorrupt,
        fmt::format("found a record before step {} where step {} comes next", record.step_index, recording.num_steps),
        std::string(where)};
  }
  if (type == "request") {
    ULLAGE_TRY(record.params, params_from_json(line, where));
  } else if (type == "cancel") {
    record.kind = ArrivalRecord::Kind::kCancel;
  } else if (type == "finish") {
    record.kind = ArrivalRecord::Kind::kFinish;
    ULLAGE_TRY(const std::string name, get_string(line, "reason", "", where));
    ULLAGE_TRY(record.reason, parse_reason(name, where));
  } else {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("expected a line of type header, request, cancel, finish, refuse or step, found \"{}\"", type),
        std::string(where)};
  }
  recording.arrivals.push_back(std::move(record));
  return {};
}

}  // namespace

Result<Recording> read_recording(std::string_view lines, std::string_view where) {
  Recording recording;
  bool has_header = false;
  int64_t line_number = 0;
  while (!lines.empty()) {
    ++line_number;
    const size_t end = lines.find('\n');
    const std::string_view text = lines.substr(0, end);
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    if (text.empty()) continue;
    const std::string at = fmt::format("{}:{}", where, line_number);
    ULLAGE_TRY(const Json line, parse_json(text, at));
    if (!line.is_object()) return Error{ErrorCode::kCorrupt, "expected a JSON object", at};
    ULLAGE_TRY_VOID(read_line(line, recording, has_header, at));
  }
  if (!has_header) return Error{ErrorCode::kCorrupt, "the decision log is empty", std::string(where)};
  return recording;
}

}  // namespace ullage::engine
