// Start-up records of public logs: from the KV memory that they print to their tokens or blocks, within the rounding of
// the printed GiB and 0.6 %; and what the reader of logs finds in their raw lines.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/observe/log_text.h"
#include "ullage/observe/reference_logged.h"
#include "ullage/observe/reference_rows.h"
#include "ullage/observe/reference_tables.h"

namespace ullage::observe {
namespace {

constexpr double kTolerance = 0.006;

std::string text_of(const Json& row, const char* key) {
  const auto at = row.find(key);
  return at != row.end() && at->is_string() ? at->get<std::string>() : std::string();
}

std::optional<double> number_of(const Json& row, const char* key) {
  const auto at = row.find(key);
  return at != row.end() && at->is_number() ? std::optional<double>(at->get<double>()) : std::nullopt;
}

int64_t count_of(const Json& row, const char* key) {
  const auto number = number_of(row, key);
  return number && *number >= 0 && *number < 1e15 ? static_cast<int64_t>(*number) : 0;
}

std::optional<bool> flag_of(const Json& row, const char* key) {
  const auto at = row.find(key);
  return at != row.end() && at->is_boolean() ? std::optional<bool>(at->get<bool>()) : std::nullopt;
}

// "SpeculativeConfig(method='mtp', num_spec_tokens=3)", "eagle (1 draft layer)".
void read_speculative(const std::string& text, LoggedStart& start) {
  if (text.empty()) return;
  for (const char* key : {"num_spec_tokens", "num_speculative_tokens"}) {
    const auto tokens = count_after(text, key);
    if (tokens && *tokens > 0 && *tokens < 1024) start.num_speculative_tokens = *tokens;
  }
  start.has_draft_layers = contains(text, "mtp") || contains(text, "MTP");
  if (contains(text, "eagle") || contains(text, "EAGLE")) start.eagle_layers = 1;
}

// A build without a version of its own.
std::string_view version_by_wording(const Json& row) {
  bool shares_line = false;
  const auto raw = row.find("raw");
  if (raw != row.end() && raw->is_array()) {
    for (const Json& line : *raw) {
      if (!line.is_string()) continue;
      const std::string& text = line.get_ref<const std::string&>();
      shares_line = shares_line || (contains(text, "GPU KV cache size") && contains(text, "Maximum concurrency"));
    }
  }
  return vllm_version_by_wording(std::max<int64_t>(count_of(row, "kv_tokens"), 1), shares_line);
}

Result<LoggedStart> start_of(const Json& row, const MappedModel& mapped, const model::ModelShape& shape,
                             std::string_view where) {
  LoggedStart start;
  start.is_sglang = text_of(row, "engine") == "sglang";
  start.version = text_of(row, "engine_version");
  start.is_v0 = count_of(row, "num_gpu_blocks") > 0;  // only V0 prints them
  if (!start.is_sglang && !start.is_v0 && memory::version_number(start.version) < 0) {
    start.version = version_by_wording(row);
  }
  start.tensor_parallel = std::max<int64_t>(count_of(row, "tensor_parallel"), 1);
  start.pipeline_parallel = std::max<int64_t>(count_of(row, "pipeline_parallel"), 1);
  start.block_size = count_of(row, "block_size");
  start.max_model_len = count_of(row, "max_model_len");
  if (count_of(row, "concurrency_len") > 0) start.max_model_len = count_of(row, "concurrency_len");
  start.max_num_batched_tokens = count_of(row, "max_num_batched_tokens");
  start.has_large_memory = number_of(row, "gpu_total_gib").value_or(80) >= 70 && !contains(text_of(row, "gpu"), "A100");
  start.has_prefix_caching = flag_of(row, "enable_prefix_caching");
  read_speculative(text_of(row, "speculative"), start);
  const std::string checkpoint = mapped.relation == "same" ? shape.quantization.kv_cache_dtype : std::string();
  ULLAGE_TRY(start.kv_dtype,
             logged_kv_dtype(text_of(row, "kv_cache_dtype"), text_of(row, "weight_dtype"), checkpoint, where));
  return start;
}

// The relative error of tokens (or blocks) predicted from the printed memory.
Result<double> error_of(const Json& row, const model::ModelShape& shape, const LoggedStart& start,
                        std::string_view where) {
  const auto gib = number_of(row, "available_kv_gib");
  const int64_t tokens = count_of(row, "kv_tokens");
  const int64_t logged_blocks = count_of(row, "num_gpu_blocks");
  if (!gib || *gib <= 0 || (tokens < 1 && logged_blocks < 1)) {
    return Error{ErrorCode::kCorrupt, "a complete row has its KV memory and tokens or blocks", std::string(where)};
  }
  ULLAGE_TRY(const LoggedLayout logged, layout_of(shape, start));
  const auto blocks =
      static_cast<int64_t>(std::floor(*gib * static_cast<double>(kGiB) / static_cast<double>(logged.bytes_per_block)));
  if (tokens < 1) return static_cast<double>(blocks) / static_cast<double>(logged_blocks) - 1;
  return static_cast<double>(printed_tokens(logged, blocks, start.max_model_len)) / static_cast<double>(tokens) - 1;
}

// Tokens (or blocks) from scratch, for rows that name their device; none when the weights do not fit by our count.
void add_scratch(const Json& row, const model::ModelShape& shape, const MappedModel& mapped, const LoggedStart& start,
                 std::string_view where, SetWriter& set, std::vector<double>& errors) {
  ScratchStart scratch;
  scratch.start = start;
  scratch.device = text_of(row, "gpu");
  if (scratch.device.empty()) return;
  scratch.utilization = number_of(row, "gpu_memory_utilization").value_or(0);
  scratch.max_num_seqs = count_of(row, "max_num_seqs");
  scratch.is_eager = flag_of(row, "enforce_eager").value_or(false);
  const Result<model::ModelShape> loaded =
      shape_as_loaded(shape, mapped, text_of(row, "quantization"), text_of(row, "weight_dtype"));
  const Result<memory::StartupPrediction> found =
      loaded ? predict_start(*loaded, scratch) : Result<memory::StartupPrediction>(loaded.error());
  if (!found) {
    set.note(fmt::format("{}: from scratch: {}", where, found.error().to_string()));
    return;
  }
  const int64_t tokens = count_of(row, "kv_tokens");
  const int64_t blocks = count_of(row, "num_gpu_blocks");
  if (tokens < 1) {
    errors.push_back(std::abs(static_cast<double>(found->num_blocks) / static_cast<double>(blocks) - 1));
    return;
  }
  const Result<LoggedLayout> logged = layout_of(*loaded, start);
  if (!logged) return;
  const int64_t ours = printed_tokens(*logged, found->num_blocks, start.max_model_len);
  errors.push_back(std::abs(static_cast<double>(ours) / static_cast<double>(tokens) - 1));
}

void check_row(const Json& row, ReferenceModels& models, SetWriter& set, std::vector<double>& errors,
               std::vector<double>& scratch_errors) {
  if (!flag_of(row, "complete_for_tokens").value_or(false)) return;
  const std::string model = text_of(row, "model");
  const std::string where = fmt::format("bootlogs {} {}", text_of(row, "id"), model);
  const MappedModel* mapped = models.find(model);
  if (mapped == nullptr) {
    set.note(fmt::format("{}: no config is known", where));
    return;
  }
  const Result<const model::ModelShape*> shape = models.shape(*mapped);
  if (!shape) {
    set.miss(fmt::format("{}: {}", where, shape.error().to_string()));
    return;
  }
  const Result<LoggedStart> start = start_of(row, *mapped, **shape, where);
  const Result<double> error = start ? error_of(row, **shape, *start, where) : Result<double>(start.error());
  if (!error) {
    set.miss(fmt::format("{}: {}", where, error.error().to_string()));
    return;
  }
  add_scratch(row, **shape, *mapped, *start, where, set, scratch_errors);
  errors.push_back(std::abs(*error));
  if (std::abs(*error) <= kTolerance) {
    set.pass();
  } else {
    set.miss(fmt::format("{}: {:+.2f} % off", where, 100 * *error));
  }
}

}  // namespace

SetResult check_bootlogs(const ReferenceFiles& files, ReferenceModels& models, int64_t max_misses) {
  SetWriter set("bootlogs", max_misses);
  std::vector<double> errors;
  std::vector<double> scratch_errors;
  for (const std::string& name : files.list("bootlogs")) {
    if (!name.ends_with(".jsonl")) continue;
    const std::string path = "bootlogs/" + name;
    const Result<std::string> text = files.read(path);
    const Result<std::vector<Json>> rows =
        text ? parse_json_lines(*text, path) : Result<std::vector<Json>>(text.error());
    if (!rows) {
      set.miss(rows.error().to_string());
      continue;
    }
    for (const Json& row : *rows) check_row(row, models, set, errors, scratch_errors);
  }
  set.result.is_missing = set.result.total == 0;
  if (!errors.empty())
    set.result.table.push_back(error_row("tokens from logged KV memory", "exact", std::move(errors)));
  if (!scratch_errors.empty()) {
    set.result.table.push_back(error_row("tokens from scratch", "calibrated", std::move(scratch_errors)));
  }
  return set.result;
}

}  // namespace ullage::observe
