#include "ullage/api/logged_facts.h"

#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/units.h"

namespace ullage::api {
namespace {

using observe::StartupLog;

const char* engine_name(memory::Engine engine) {
  if (engine == memory::Engine::kSglang) return "SGLang";
  return engine == memory::Engine::kLlamaCpp ? "llama.cpp" : "vLLM";
}

struct ByteField {
  const char* name;
  const char* key;
  std::optional<observe::LoggedBytes> StartupLog::* field;
};
constexpr ByteField kBytes[] = {
    {"device memory", "device_memory_bytes", &StartupLog::device_memory},
    {"requested", "requested_bytes", &StartupLog::requested},
    {"weights", "weights_bytes", &StartupLog::weights},
    {"activation peak", "activations_bytes", &StartupLog::activations},
    {"runtime", "runtime_bytes", &StartupLog::non_torch},
    {"graphs, estimated", "graphs_estimated_bytes", &StartupLog::graphs_estimated},
    {"graphs", "graphs_bytes", &StartupLog::graphs},
    {"KV memory", "kv_memory_bytes", &StartupLog::kv_memory},
};

struct CountField {
  const char* name;
  const char* key;
  std::optional<observe::Logged<int64_t>> StartupLog::* field;
};
constexpr CountField kCounts[] = {
    {"blocks", "num_blocks", &StartupLog::num_blocks},
    {"tokens", "kv_tokens", &StartupLog::kv_tokens},
    {"tokens of windows", "swa_tokens", &StartupLog::swa_tokens},
    {"slots", "num_slots", &StartupLog::num_slots},
    {"max_model_len", "max_model_len", &StartupLog::max_model_len},
    {"max_num_seqs", "max_num_seqs", &StartupLog::max_num_seqs},
    {"tensor parallel", "tensor_parallel", &StartupLog::tensor_parallel},
    {"pipeline parallel", "pipeline_parallel", &StartupLog::pipeline_parallel},
};

struct WordField {
  const char* name;
  const char* key;
  std::optional<observe::Logged<std::string>> StartupLog::* field;
};
constexpr WordField kWords[] = {
    {"model", "model", &StartupLog::model},
    {"quantization", "quantization", &StartupLog::quantization},
    {"dtype", "dtype", &StartupLog::dtype},
    {"KV dtype", "kv_cache_dtype", &StartupLog::kv_dtype},
};

// What a token takes, as far as the two roundings let it be known.
std::string note_of_tokens(const StartupLog& log) {
  if (!log.kv_memory || !log.kv_tokens || log.kv_tokens->value < 1) return "";
  const double bytes = static_cast<double>(log.kv_memory->bytes.value) / static_cast<double>(log.kv_tokens->value);
  return fmt::format("about {} bytes a token", format_thousands(std::llround(bytes)));
}

std::string note_of_concurrency(const StartupLog& log) {
  if (!log.concurrency_len) return "";
  return fmt::format("requests of {} tokens at once", format_thousands(log.concurrency_len->value));
}

}  // namespace

std::vector<LoggedFact> logged_facts(const StartupLog& log) {
  std::vector<LoggedFact> facts;
  facts.push_back({"engine", fmt::format("{}{}", engine_name(log.engine), log.version ? " " + log.version->value : ""),
                   log.version ? "" : "the version is not printed"});
  for (const WordField& word : kWords) {
    if (const auto& value = log.*word.field) facts.push_back({word.name, value->value, ""});
  }
  for (const ByteField& bytes : kBytes) {
    if (const auto& value = log.*bytes.field) facts.push_back({bytes.name, format_bytes(value->bytes), ""});
  }
  for (const CountField& count : kCounts) {
    const auto& value = log.*count.field;
    if (!value) continue;
    const bool is_tokens = count.field == &StartupLog::kv_tokens;
    facts.push_back({count.name, format_thousands(value->value), is_tokens ? note_of_tokens(log) : std::string()});
  }
  if (log.max_concurrency) {
    facts.push_back({"concurrency", fmt::format("{:.2f}x", log.max_concurrency->value), note_of_concurrency(log)});
  }
  if (log.refused_longest) {
    facts.push_back({"refused to start", format_thousands(log.refused_longest->value),
                     "tokens are the longest max_model_len that would fit"});
  }
  return facts;
}

Json logged_facts_json(const StartupLog& log) {
  Json json = {{"engine", engine_name(log.engine)}};
  if (log.version) json["version"] = log.version->value;
  for (const WordField& word : kWords) {
    if (const auto& value = log.*word.field) json[word.key] = value->value;
  }
  for (const ByteField& bytes : kBytes) {
    if (const auto& value = log.*bytes.field) json[bytes.key] = value->bytes.value;
  }
  for (const CountField& count : kCounts) {
    if (const auto& value = log.*count.field) json[count.key] = value->value;
  }
  if (log.max_concurrency) json["max_concurrency"] = log.max_concurrency->value;
  if (log.concurrency_len) json["concurrency_len"] = log.concurrency_len->value;
  if (log.refused_longest) json["refused_longest"] = log.refused_longest->value;
  return json;
}

}  // namespace ullage::api
