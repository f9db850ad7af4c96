#include "ullage/cli/engine_setup.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/log.h"
#include "ullage/cli/recomputing_executor.h"
#include "ullage/cpu/cpu_executor.h"
#include "ullage/engine/statistics.h"
#include "ullage/hardware/device.h"
#include "ullage/memory/footprint.h"
#include "ullage/memory/kv_layout.h"
#include "ullage/memory/model_memory.h"
#include "ullage/memory/pool_size.h"
#include "ullage/sim/modelled_executor.h"

namespace ullage::cli {
namespace {

// What the flags ask for, as numbers; 0 = not given.
struct Wanted {
  engine::EngineOptions options;
  model::DType kv_dtype = model::DType::kBF16;
  int64_t kv_cache_memory = 0;
  int64_t num_blocks_override = 0;
  bool is_auto_max_model_len = false;
};

Result<int64_t> count_in(const std::string& text, int64_t low, int64_t high, const char* flag) {
  ULLAGE_TRY(const int64_t n, parse_count(text, flag));
  if (n < low || n > high) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("is {}; give {} to {}", n, low, high), flag};
  }
  return n;
}

Result<int64_t> max_model_len(const EngineArgs& args, const model::ModelShape& shape) {
  if (args.max_model_len == "auto" || args.max_model_len == "-1") return shape.max_position_embeddings;
  ULLAGE_TRY(const int64_t length, count_in(args.max_model_len, 2, int64_t{1} << 30, "--max-model-len"));
  if (length > shape.max_position_embeddings) {
    return Error{ErrorCode::kTooLarge,
                 fmt::format("is {}, but the model was made for at most {} positions; give that or less", length,
                             shape.max_position_embeddings),
                 "--max-model-len"};
  }
  return length;
}

Result<Wanted> read_flags(const EngineArgs& args, const model::ModelShape& shape) {
  const bool is_cpu = args.executor == "cpu";
  Wanted wanted;
  engine::EngineOptions& options = wanted.options;
  wanted.is_auto_max_model_len = args.max_model_len == "auto" || args.max_model_len == "-1";
  ULLAGE_TRY(options.max_model_len, max_model_len(args, shape));
  ULLAGE_TRY(options.block_size, count_in(args.block_size, 1, 1024, "--block-size"));
  options.max_num_seqs = is_cpu ? 128 : 1024;
  if (!args.max_num_seqs.empty()) {
    ULLAGE_TRY(options.max_num_seqs, count_in(args.max_num_seqs, 1, 65536, "--max-num-seqs"));
  }
  options.max_num_batched_tokens = is_cpu ? 512 : 8192;
  if (!args.max_num_batched_tokens.empty()) {
    ULLAGE_TRY(options.max_num_batched_tokens,
               count_in(args.max_num_batched_tokens, 1, int64_t{1} << 20, "--max-num-batched-tokens"));
  } else if (!args.has_chunked_prefill) {
    options.max_num_batched_tokens = std::max(options.max_num_batched_tokens, options.max_model_len);
  }
  ULLAGE_TRY(options.max_queue_len, count_in(args.max_queue_len, 1, int64_t{1} << 30, "--max-queue-len"));
  options.enable_prefix_caching = args.has_prefix_caching;
  options.enable_chunked_prefill = args.has_chunked_prefill;
  options.enable_partial_prefix_hits = args.has_prefix_caching && args.prefix_match == "token";
  options.is_priority_policy = args.scheduling_policy == "priority";
  options.is_paranoid = args.is_paranoid;
  if (args.kv_cache_dtype != "auto") {
    ULLAGE_TRY(wanted.kv_dtype, model::parse_dtype(args.kv_cache_dtype, "--kv-cache-dtype"));
    if (wanted.kv_dtype != model::DType::kBF16 && wanted.kv_dtype != model::DType::kF16 &&
        wanted.kv_dtype != model::DType::kF32) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("the KV cache can hold BF16, F16 or F32, not {}", model::info(wanted.kv_dtype).name),
                   "--kv-cache-dtype"};
    }
  }
  if (!args.value_cache_dtype.empty() && args.value_cache_dtype != args.kv_cache_dtype) {
    return Error{ErrorCode::kUnsupported, "keys and values are stored alike; give --kv-cache-dtype once",
                 "--cache-type-v"};
  }
  if (!args.kv_cache_memory.empty()) {
    ULLAGE_TRY(const Bytes bytes, parse_bytes(args.kv_cache_memory, "--kv-cache-memory"));
    wanted.kv_cache_memory = std::max<int64_t>(bytes.value, 1);
  }
  if (!args.num_blocks_override.empty()) {
    ULLAGE_TRY(wanted.num_blocks_override,
               count_in(args.num_blocks_override, 2, INT32_MAX, "--num-gpu-blocks-override"));
  }
  return wanted;
}

// Sizes the pool by the function that `ullage plan --policy ullage` asks, too.
Result<void> size_pool(Wanted& wanted, const memory::KvLayout& layout, Bytes share, Bytes limit) {
  engine::EngineOptions& options = wanted.options;
  memory::PoolRequest request;
  request.share = share;
  request.limit = limit;
  if (wanted.kv_cache_memory > 0) request.kv_memory = Bytes(wanted.kv_cache_memory);
  request.num_blocks = wanted.num_blocks_override;
  request.max_num_seqs = options.max_num_seqs;
  request.max_model_len = options.max_model_len;
  request.may_shorten = wanted.is_auto_max_model_len;
  ULLAGE_TRY(const memory::PoolSize pool, memory::size_pool(layout, request));
  if (pool.is_capped) {
    log(LogLevel::kWarning, fmt::format("--kv-cache-memory {} is over the share of memory for the pool; using {}",
                                        format_bytes(Bytes(wanted.kv_cache_memory)), format_bytes(share)));
  }
  if (pool.max_model_len < options.max_model_len) {
    log(LogLevel::kWarning, fmt::format("max_model_len is {} rather than the model's {}: that is what the pool holds",
                                        pool.max_model_len, options.max_model_len));
  }
  options.num_blocks = pool.num_blocks;
  options.max_model_len = pool.max_model_len;
  return {};
}

Result<void> make_cpu(const EngineArgs& args, const LoadedModel& model, Wanted& wanted, const memory::KvLayout& layout,
                      EngineSetup& setup) {
  const double utilization = args.memory_utilization > 0 ? args.memory_utilization : 0.5;
  const Bytes available = cpu::available_memory();
  const auto share = static_cast<int64_t>(static_cast<double>(available.value) * utilization);
  ULLAGE_TRY_VOID(size_pool(wanted, layout, Bytes(share), available));
  cpu::CpuOptions options;
  options.num_threads = args.threads;
  options.kv_dtype = wanted.kv_dtype;
  options.block_size = wanted.options.block_size;
  options.num_blocks = wanted.options.num_blocks;
  options.max_num_seqs = wanted.options.max_num_seqs;
  options.max_model_len = wanted.options.max_model_len;
  options.max_num_batched_tokens =
      args.recomputes_past ? wanted.options.max_model_len : wanted.options.max_num_batched_tokens;
  ULLAGE_TRY(std::unique_ptr<cpu::CpuExecutor> executor, cpu::CpuExecutor::create(*model.checkpoint, options));
  const cpu::CpuMemory& used = executor->memory();
  setup.footprint.weights = Bytes(used.weights_bytes);
  setup.footprint.repacked_weights = Bytes(used.repacked_bytes);
  setup.footprint.kv_pool = Bytes(used.kv_pool_bytes);
  setup.footprint.workspace = Bytes(used.workspace_bytes);
  if (args.recomputes_past) {
    setup.executor = std::make_unique<RecomputingExecutor>(std::move(executor));
  } else {
    setup.executor = std::move(executor);
  }
  return {};
}

int64_t weight_bytes(const LoadedModel& model) {
  // As the config says that they are stored, quantised ones too: what a plan counts.
  if (!model.checkpoint) return memory::rank_weights(model.shape, {}).total.value;
  int64_t bytes = 0;
  for (const model::TensorView& tensor : model.checkpoint->tensors()) bytes += static_cast<int64_t>(tensor.data.size());
  return bytes;
}

// What the modelled device's requests say: some honest sentences, over and over.
constexpr const char* kFiller =
    "This text was written by no model. The times are those of the device that is modelled, the words are filler. ";

Result<void> make_modelled(const EngineArgs& args, const LoadedModel& model, Wanted& wanted,
                           const memory::KvLayout& layout, EngineSetup& setup) {
  ULLAGE_TRY(const hardware::Device device, hardware::find_device(args.device));
  const double utilization = args.memory_utilization > 0 ? args.memory_utilization : 0.92;  // as the profile "ullage"
  setup.footprint.weights = Bytes(weight_bytes(model));
  const auto requested = static_cast<int64_t>(static_cast<double>(device.usable_memory.value) * utilization);
  if (requested <= setup.footprint.weights.value) {
    return Error{ErrorCode::kTooLarge,
                 fmt::format("the weights take {}, more than {:.0f} % of the {}'s {}; choose a larger device",
                             format_bytes(setup.footprint.weights), utilization * 100, device.name,
                             format_bytes(device.usable_memory)),
                 "--device"};
  }
  ULLAGE_TRY_VOID(size_pool(wanted, layout, Bytes(requested) - setup.footprint.weights,
                            device.usable_memory - setup.footprint.weights));
  setup.footprint.kv_pool = Bytes(layout.bytes_per_block) * wanted.options.num_blocks;
  text::EncodeOptions plain;
  plain.add_special_tokens = false;
  plain.parse_special_everywhere = false;
  std::vector<TokenId> filler = model.tokenizer->encode(kFiller, plain);
  if (filler.empty()) {
    return Error{ErrorCode::kUnsupported, "the tokenizer cannot write the filler text; give another", "--tokenizer"};
  }
  setup.filler = std::make_unique<sim::FillerText>(std::move(filler));
  sim::ModelledOptions options;
  options.cost.kv_dtype = model::to_kv_dtype(wanted.kv_dtype);
  ULLAGE_TRY(setup.executor, sim::ModelledExecutor::create(model.shape, device, options, *setup.filler, *setup.clock));
  return {};
}

// Opens the file before anything runs, so that a path that cannot be written is told at once.
Result<void> open_decision_log(const std::string& path, EngineSetup& setup) {
  if (path.empty()) return {};
  setup.decision_log_file = std::make_unique<std::ofstream>(path, std::ios::trunc);
  if (!*setup.decision_log_file) return Error{ErrorCode::kIo, "cannot be written", "--decision-log " + path};
  std::ofstream& file = *setup.decision_log_file;
  setup.decision_log = std::make_unique<engine::DecisionLog>([&file](std::string_view line) { file << line << '\n'; });
  setup.engine->set_decision_log(setup.decision_log.get());
  return {};
}

const char* dtype_flag(model::DType dtype) {
  switch (dtype) {
    case model::DType::kF32:
      return "f32";
    case model::DType::kF16:
      return "f16";
    default:
      return "bf16";
  }
}

// Layers that look back over a window only get room for every token all the same: the answer is the model's, the memory
// that a window could save is not saved yet.
void tell_of_windows(const model::ModelShape& shape) {
  int64_t window = 0;
  for (const model::LayerShape& layer : shape.layers) {
    if (const auto* attention = std::get_if<model::Attention>(&layer.mixer)) {
      window = std::max(window, attention->sliding_window);
    }
  }
  if (window > 0 && window < shape.max_position_embeddings) {
    log(LogLevel::kInfo,
        fmt::format("the model attends to the last {} tokens; the KV pool keeps all of a request's", window));
  }
}

// The engine and its executors keep one pool of blocks for one group of layers that keep every token.
Result<void> check_servable(const memory::KvLayout& layout) {
  for (const memory::BlockGroup& group : layout.groups) {
    if (layout.groups.size() == 1 && !group.has_unlike_pages &&
        std::holds_alternative<model::FullAttentionKv>(group.spec)) {
      return {};
    }
    if (std::holds_alternative<model::FullAttentionKv>(group.spec) && !group.has_unlike_pages) continue;
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("layers keep {} ({}); only models whose layers all keep alike keys and values of heads can "
                    "be served. `ullage plan` takes this model",
                    memory::kv_kind_name(group.spec),
                    group.has_unlike_pages ? "of unlike sizes" : "not full attention"),
        "model"};
  }
  return Error{ErrorCode::kUnsupported,
               "layers keep keys and values of unlike heads; only models whose layers are alike can be served. `ullage "
               "plan` takes this model",
               "model"};
}

}  // namespace

Result<std::unique_ptr<EngineSetup>> make_engine(const EngineArgs& args, const LoadedModel& model) {
  ULLAGE_TRY(Wanted wanted, read_flags(args, model.shape));
  ULLAGE_TRY(const memory::KvLayout layout,
             memory::make_kv_layout(model.shape, {.block_size = wanted.options.block_size,
                                                  .kv_dtype = model::to_kv_dtype(wanted.kv_dtype),
                                                  .is_hybrid_disabled = true}));
  ULLAGE_TRY_VOID(check_servable(layout));
  tell_of_windows(model.shape);
  auto setup = std::make_unique<EngineSetup>();
  setup->clock = std::make_unique<RealClock>();
  if (args.executor == "modelled") {
    ULLAGE_TRY_VOID(make_modelled(args, model, wanted, layout, *setup));
  } else {
    ULLAGE_TRY_VOID(make_cpu(args, model, wanted, layout, *setup));
  }
  ULLAGE_TRY_VOID(engine::validate(wanted.options));
  setup->options = wanted.options;
  setup->kv_cache_dtype = dtype_flag(wanted.kv_dtype);
  setup->block = Bytes(layout.bytes_per_block);
  setup->capacity = memory::kv_capacity(layout, wanted.options.num_blocks, wanted.options.max_model_len);
  setup->engine = std::make_unique<engine::Engine>(setup->options, *setup->executor, *setup->clock);
  ULLAGE_TRY_VOID(open_decision_log(args.decision_log, *setup));
  return setup;
}

Result<void> check_decision_log(EngineSetup& setup) {
  if (setup.decision_log_file == nullptr || setup.decision_log_file->flush()) return {};
  return Error{ErrorCode::kIo, "could not be written whole; is the disk full?", "--decision-log"};
}

std::vector<std::string> boot_lines(const EngineSetup& setup) {
  std::vector<std::string> lines;
  for (const memory::FootprintRole& role : memory::roles(setup.footprint)) lines.push_back(memory::format_role(role));
  lines.push_back(engine::format_blocks_line(setup.options.num_blocks, setup.options.block_size, setup.block));
  lines.push_back(
      engine::format_capacity_line(setup.capacity, setup.options.max_model_len, setup.executor->device_kind()));
  return lines;
}

}  // namespace ullage::cli
