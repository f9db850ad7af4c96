// Start-ups of a CSV of runs (vLLM 0.19 on H100): from the logged KV memory to the blocks, and from those to tokens and
// concurrency.
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "ullage/observe/reference_logged.h"
#include "ullage/observe/reference_rows.h"
#include "ullage/observe/reference_tables.h"

namespace ullage::observe {
namespace {

constexpr double kHalfStep = 0.005;  // memory is printed to 0.01 GiB

int64_t blocks_in(double gib, int64_t bytes_per_block) {
  return static_cast<int64_t>(std::floor(gib * static_cast<double>(kGiB) / static_cast<double>(bytes_per_block)));
}

// "h100-vllm-0.19.csv": "0.19".
std::string version_of(std::string_view file) {
  const size_t at = file.find("vllm-");
  if (at == std::string_view::npos) return "";
  std::string_view rest = file.substr(at + 5);
  if (rest.ends_with(".csv")) rest.remove_suffix(4);
  return std::string(rest);
}

Result<LoggedStart> start_of(const CsvRow& row, const std::string& version, const MappedModel& mapped,
                             const model::ModelShape& shape, std::string_view where) {
  LoggedStart start;
  start.version = version;
  start.tensor_parallel = row.count("tp").value_or(1);
  start.pipeline_parallel = row.count("pp").value_or(1);
  start.max_model_len = row.count("max_model_len").value_or(0);
  start.max_num_batched_tokens = row.count("max_num_batched_tokens").value_or(0);
  start.has_large_memory =
      row.number("init_total_memory_gib").value_or(80) >= 70 && row.text("gpu").find("A100") == std::string_view::npos;
  const std::string_view checkpoint =
      mapped.relation == "same" ? std::string_view(shape.quantization.kv_cache_dtype) : std::string_view();
  ULLAGE_TRY(start.kv_dtype, logged_kv_dtype(row.text("kv_cache_dtype"), row.text("dtype"), checkpoint, where));
  return start;
}

// "" when the row passes.
Result<std::string> check_row(const CsvRow& row, const model::ModelShape& shape, const LoggedStart& start,
                              std::string_view where, SetWriter& set) {
  ULLAGE_TRY(const LoggedLayout logged, layout_of(shape, start));
  const auto gib = row.number("kv_cache_memory_gib");
  const auto blocks = row.count("kv_cache_blocks");
  const auto tokens = row.count("kv_cache_tokens");
  const auto concurrency = row.number("max_concurrency");
  if (!gib || !blocks || !tokens || !concurrency || start.max_model_len < 1) {
    return Error{ErrorCode::kCorrupt, "a row has KV memory, blocks, tokens, concurrency and max_model_len",
                 std::string(where)};
  }
  const int64_t least = blocks_in(*gib - kHalfStep, logged.bytes_per_block);
  const int64_t most = blocks_in(*gib + kHalfStep, logged.bytes_per_block);
  if (start.pipeline_parallel > 1) {
    // One stage's memory is printed, and the stage with the least sets the count.
    set.note(fmt::format("{}: {} stages; {} blocks are {:.2f} % fewer than the printed stage's memory holds", where,
                         start.pipeline_parallel, *blocks,
                         100.0 * static_cast<double>(most - *blocks) / static_cast<double>(most)));
    if (*blocks > most) return fmt::format("{} blocks, more than the {} that {:.2f} GiB hold", *blocks, most, *gib);
  } else if (*blocks < least || *blocks > most) {
    return fmt::format("{} blocks, {} to {} were expected of {:.2f} GiB in blocks of {} bytes", *blocks, least, most,
                       *gib, logged.bytes_per_block);
  }
  const int64_t ours = printed_tokens(logged, *blocks, start.max_model_len);
  if (ours != *tokens) return fmt::format("{} tokens of {} blocks, {} were logged", ours, *blocks, *tokens);
  const memory::KvCapacity capacity =
      memory::kv_capacity(logged.layout, *blocks, start.max_model_len, logged.in_flight);
  if (fmt::format("{:.2f}", capacity.max_concurrency) != fmt::format("{:.2f}", *concurrency)) {
    return fmt::format("{:.2f} requests at once of {} blocks, {} were logged", capacity.max_concurrency, *blocks,
                       *concurrency);
  }
  return std::string();
}

// Relative errors from scratch: of weights, and of KV memory in shares of the requested memory.
struct ScratchErrors {
  std::vector<double> weights;
  std::vector<double> kv_memory;
};

// Of the stages' sizes, the nearest to a printed one: a record mixes lines of several ranks and does not say of which.
template <class Size>
double nearest_gib(const memory::StartupPrediction& prediction, double printed, Size size) {
  double nearest = 0;
  double least = -1;
  for (const memory::MemoryBudget& stage : prediction.stages) {
    const double gib = static_cast<double>(size(stage).value) / static_cast<double>(kGiB);
    if (least >= 0 && std::abs(gib - printed) >= least) continue;
    nearest = gib;
    least = std::abs(gib - printed);
  }
  return nearest;
}

void add_scratch(const CsvRow& row, const model::ModelShape& shape, const MappedModel& mapped, const LoggedStart& start,
                 std::string_view where, SetWriter& set, ScratchErrors& errors) {
  ScratchStart scratch;
  scratch.start = start;
  scratch.device = std::string(row.text("gpu"));
  scratch.utilization = row.number("gpu_memory_utilization").value_or(0);
  const Result<model::ModelShape> loaded = shape_as_loaded(shape, mapped, row.text("quantization"), row.text("dtype"));
  const Result<memory::StartupPrediction> found =
      loaded ? predict_start(*loaded, scratch) : Result<memory::StartupPrediction>(loaded.error());
  if (!found) {
    set.note(fmt::format("{}: {}", where, found.error().to_string()));
    return;
  }
  const auto weights = row.number("weights_memory_gib");
  const auto requested = row.number("requested_memory_gib");
  const auto kv = row.number("kv_cache_memory_gib");
  if (weights && *weights > 0) {
    const double ours = nearest_gib(*found, *weights, [](const memory::MemoryBudget& b) { return b.weights.bytes; });
    errors.weights.push_back(std::abs(ours / *weights - 1));
    if (errors.weights.back() > 0.01) {
      set.note(fmt::format("{}: weights {:.2f} GiB, {:.2f} were logged", where, ours, *weights));
    }
  }
  if (requested && kv && *requested > 0) {
    const double ours = nearest_gib(*found, *kv, [](const memory::MemoryBudget& b) { return b.kv_pool.bytes; });
    errors.kv_memory.push_back(std::abs(ours - *kv) / *requested);
  }
  if (found->stages.size() > 1) {
    set.note(
        fmt::format("{}: from scratch: each printed size is compared with the nearest of {} stages; the smallest "
                    "pool is stage {}'s, of {} blocks, {} were logged",
                    where, found->stages.size(), found->least_stage + 1, found->num_blocks,
                    row.count("kv_cache_blocks").value_or(0)));
  }
}

void check_table(const CsvTable& table, const std::string& path, ReferenceModels& models, SetWriter& set,
                 ScratchErrors& errors) {
  const std::string version = version_of(path);
  for (size_t i = 0; i < table.size(); ++i) {
    const CsvRow row = table.row(i);
    const std::string where = fmt::format("{}:{} {}", path, row.line(), row.text("model"));
    if (row.text("status") != "ok") continue;
    const MappedModel* mapped = models.find(row.text("model"));
    if (mapped == nullptr) {
      set.note(fmt::format("{}: no config is known", where));
      continue;
    }
    const Result<const model::ModelShape*> shape = models.shape(*mapped);
    if (!shape) {
      set.miss(fmt::format("{}: {}", where, shape.error().to_string()));
      continue;
    }
    const Result<LoggedStart> start = start_of(row, version, *mapped, **shape, where);
    if (start) add_scratch(row, **shape, *mapped, *start, where, set, errors);
    const Result<std::string> found =
        start ? check_row(row, **shape, *start, where, set) : Result<std::string>(start.error());
    if (found && found->empty()) {
      set.pass();
    } else {
      set.miss(fmt::format("{}: {}", where, found ? *found : found.error().to_string()));
    }
  }
}

}  // namespace

SetResult check_startups(const ReferenceFiles& files, ReferenceModels& models, int64_t max_misses) {
  SetWriter set("startups", max_misses);
  ScratchErrors errors;
  for (const std::string& name : files.list("startups")) {
    if (!name.ends_with(".csv")) continue;
    const std::string path = "startups/" + name;
    const Result<std::string> text = files.read(path);
    const Result<CsvTable> table = text ? CsvTable::parse(*text, path) : Result<CsvTable>(text.error());
    if (!table) {
      set.miss(table.error().to_string());
      continue;
    }
    check_table(*table, path, models, set, errors);
  }
  set.result.is_missing = set.result.total == 0;
  if (!errors.weights.empty()) {
    set.result.table.push_back(error_row("weights from scratch", "calibrated", std::move(errors.weights)));
  }
  if (!errors.kv_memory.empty()) {
    set.result.table.push_back(
        error_row("KV memory from scratch / requested", "calibrated", std::move(errors.kv_memory)));
  }
  return set.result;
}

}  // namespace ullage::observe
