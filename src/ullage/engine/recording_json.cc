#include "ullage/engine/recording_json.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace ullage::engine {
namespace {

constexpr int64_t kSchemaVersion = 1;

Error wrong(std::string message, std::string where) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), std::move(where)};
}

Result<std::vector<TokenId>> get_tokens(const Json& object, const char* key, std::string_view where) {
  std::vector<TokenId> tokens;
  const auto it = object.find(key);
  if (it == object.end()) return tokens;
  if (!it->is_array()) return wrong("expected an array of token ids", fmt::format("{}/{}", where, key));
  tokens.reserve(it->size());
  for (const Json& token : *it) {
    if (!token.is_number_integer() || token.get<int64_t>() < INT32_MIN || token.get<int64_t>() > INT32_MAX) {
      return wrong("expected 32-bit token ids", fmt::format("{}/{}", where, key));
    }
    tokens.push_back(token.get<TokenId>());
  }
  return tokens;
}

Json sampling_to_json(const sched::SamplingParams& sampling) {
  Json bias = Json::array();
  for (const auto& [token, value] : sampling.logit_bias) bias.push_back(Json::array({token, value}));
  return Json{{"temperature", sampling.temperature},
              {"top_p", sampling.top_p},
              {"top_k", sampling.top_k},
              {"min_p", sampling.min_p},
              {"repetition_penalty", sampling.repetition_penalty},
              {"presence_penalty", sampling.presence_penalty},
              {"frequency_penalty", sampling.frequency_penalty},
              {"seed", sampling.seed},
              {"num_logprobs", sampling.num_logprobs},
              {"logit_bias", std::move(bias)}};
}

Result<sched::SamplingParams> sampling_from_json(const Json& json, const std::string& where) {
  sched::SamplingParams sampling;
  ULLAGE_TRY(sampling.temperature, get_double(json, "temperature", sampling.temperature, where));
  ULLAGE_TRY(sampling.top_p, get_double(json, "top_p", sampling.top_p, where));
  ULLAGE_TRY(sampling.top_k, get_int(json, "top_k", sampling.top_k, where));
  ULLAGE_TRY(sampling.min_p, get_double(json, "min_p", sampling.min_p, where));
  ULLAGE_TRY(sampling.repetition_penalty, get_double(json, "repetition_penalty", sampling.repetition_penalty, where));
  ULLAGE_TRY(sampling.presence_penalty, get_double(json, "presence_penalty", sampling.presence_penalty, where));
  ULLAGE_TRY(sampling.frequency_penalty, get_double(json, "frequency_penalty", sampling.frequency_penalty, where));
  ULLAGE_TRY(const int64_t num_logprobs, get_int(json, "num_logprobs", -1, where));
  if (num_logprobs < -1 || num_logprobs > 1000) return wrong("expected -1 to 1000", where + "/num_logprobs");
  sampling.num_logprobs = static_cast<int32_t>(num_logprobs);
  if (const auto seed = json.find("seed"); seed != json.end()) {
    if (!seed->is_number_unsigned()) return wrong("expected an integer from 0", where + "/seed");
    sampling.seed = seed->get<uint64_t>();
  }
  if (const auto bias = json.find("logit_bias"); bias != json.end()) {
    for (const Json& pair : *bias) {
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_integer() || !pair[1].is_number()) {
        return wrong("expected pairs of token id and bias", where + "/logit_bias");
      }
      sampling.logit_bias.emplace_back(pair[0].get<TokenId>(), pair[1].get<float>());
    }
  }
  return sampling;
}

Json stop_to_json(const sched::StopParams& stop) {
  return Json{{"max_tokens", stop.max_tokens},
              {"min_tokens", stop.min_tokens},
              {"ignore_eos", stop.ignore_eos},
              {"eos_token_ids", stop.eos_token_ids},
              {"stop_token_ids", stop.stop_token_ids}};
}

Result<sched::StopParams> stop_from_json(const Json& json, const std::string& where) {
  sched::StopParams stop;
  ULLAGE_TRY(stop.max_tokens, get_int(json, "max_tokens", stop.max_tokens, where));
  ULLAGE_TRY(stop.min_tokens, get_int(json, "min_tokens", stop.min_tokens, where));
  ULLAGE_TRY(stop.ignore_eos, get_bool(json, "ignore_eos", stop.ignore_eos, where));
  ULLAGE_TRY(stop.eos_token_ids, get_tokens(json, "eos_token_ids", where));
  ULLAGE_TRY(stop.stop_token_ids, get_tokens(json, "stop_token_ids", where));
  return stop;
}

const Json& child(const Json& json, const char* key) {
  static const Json kEmpty = Json::object();
  const auto it = json.find(key);
  return it == json.end() || !it->is_object() ? kEmpty : *it;
}

}  // namespace

const char* reason_name(sched::FinishReason reason) {
  switch (reason) {
    case sched::FinishReason::kStop:
      return "stop";
    case sched::FinishReason::kLength:
      return "length";
    case sched::FinishReason::kCancelled:
      return "cancelled";
  }
  return "stop";
}

Result<sched::FinishReason> parse_reason(std::string_view name, std::string_view where) {
  for (const auto reason :
       {sched::FinishReason::kStop, sched::FinishReason::kLength, sched::FinishReason::kCancelled}) {
    if (name == reason_name(reason)) return reason;
  }
  return wrong(fmt::format("expected stop, length or cancelled, found \"{}\"", name), std::string(where));
}

Json header_to_json(const EngineOptions& options) {
  return Json{{"type", "header"},
              {"schema_version", kSchemaVersion},
              {"options", Json{{"block_size", options.block_size},
                               {"num_blocks", options.num_blocks},
                               {"max_model_len", options.max_model_len},
                               {"max_num_seqs", options.max_num_seqs},
                               {"max_num_batched_tokens", options.max_num_batched_tokens},
                               {"max_queue_len", options.max_queue_len},
                               {"enable_prefix_caching", options.enable_prefix_caching},
                               {"enable_chunked_prefill", options.enable_chunked_prefill},
                               {"enable_partial_prefix_hits", options.enable_partial_prefix_hits},
                               {"is_priority_policy", options.is_priority_policy}}}};
}

Result<EngineOptions> options_from_json(const Json& header, std::string_view where) {
  ULLAGE_TRY(const int64_t version, get_int(header, "schema_version", 0, where));
  if (version != kSchemaVersion) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("the decision log has schema version {}; {} is read", version, kSchemaVersion),
                 std::string(where)};
  }
  const Json& json = child(header, "options");
  EngineOptions options;
  ULLAGE_TRY(options.block_size, get_int(json, "block_size", options.block_size, where));
  ULLAGE_TRY(options.num_blocks, get_int(json, "num_blocks", options.num_blocks, where));
  ULLAGE_TRY(options.max_model_len, get_int(json, "max_model_len", options.max_model_len, where));
  ULLAGE_TRY(options.max_num_seqs, get_int(json, "max_num_seqs", options.max_num_seqs, where));
  ULLAGE_TRY(options.max_num_batched_tokens,
             get_int(json, "max_num_batched_tokens", options.max_num_batched_tokens, where));
  ULLAGE_TRY(options.max_queue_len, get_int(json, "max_queue_len", options.max_queue_len, where));
  ULLAGE_TRY(options.enable_prefix_caching, get_bool(json, "enable_prefix_caching", true, where));
  ULLAGE_TRY(options.enable_chunked_prefill, get_bool(json, "enable_chunked_prefill", true, where));
  ULLAGE_TRY(options.enable_partial_prefix_hits, get_bool(json, "enable_partial_prefix_hits", false, where));
  ULLAGE_TRY(options.is_priority_policy, get_bool(json, "is_priority_policy", false, where));
  ULLAGE_TRY_VOID(validate(options));
  return options;
}

Json arrival_to_json(int64_t step_index, const sched::RequestParams& params) {
  return Json{{"type", "request"},
              {"step", step_index},
              {"id", params.id.value},
              {"prompt", params.prompt},
              {"sampling", sampling_to_json(params.sampling)},
              {"stop", stop_to_json(params.stop)},
              {"priority", params.priority},
              {"arrival_ns", params.arrival},
              {"cache_salt", params.cache_salt},
              {"adapter", params.adapter}};
}

Result<sched::RequestParams> params_from_json(const Json& line, std::string_view where) {
  sched::RequestParams params;
  const std::string at(where);
  ULLAGE_TRY(params.id.value, get_int(line, "id", 0, where));
  ULLAGE_TRY(params.prompt, get_tokens(line, "prompt", where));
  ULLAGE_TRY(params.sampling, sampling_from_json(child(line, "sampling"), at + "/sampling"));
  ULLAGE_TRY(params.stop, stop_from_json(child(line, "stop"), at + "/stop"));
  ULLAGE_TRY(params.priority, get_int(line, "priority", 0, where));
  ULLAGE_TRY(params.arrival, get_int(line, "arrival_ns", 0, where));
  ULLAGE_TRY(params.cache_salt, get_string(line, "cache_salt", "", where));
  ULLAGE_TRY(params.adapter, get_string(line, "adapter", "", where));
  return params;
}

}  // namespace ullage::engine
