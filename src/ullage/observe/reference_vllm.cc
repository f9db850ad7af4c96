// The exact sets that need no log: recorded layouts of vLLM's planner, and configs.
#include <algorithm>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/memory/kv_layout.h"
#include "ullage/model/config.h"
#include "ullage/observe/reference_rows.h"

namespace ullage::observe {
namespace {

using memory::BlockGroup;
using memory::KvLayers;
using memory::KvLayout;

Result<std::vector<KvLayers>> layers_of(const Json& given, std::string_view where) {
  const auto at = given.find("layers");
  if (at == given.end() || !at->is_array()) {
    return Error{ErrorCode::kCorrupt, "a list of layers was expected", fmt::format("{}/given/layers", where)};
  }
  std::vector<KvLayers> layers;
  layers.reserve(at->size());
  for (const Json& layer : *at) {
    if (!layer.is_object()) return Error{ErrorCode::kCorrupt, "a layer is no object", std::string(where)};
    ULLAGE_TRY(const std::string type, get_string(layer, "type", "", where));
    ULLAGE_TRY(const int64_t count, get_int(layer, "count", 1, where));
    ULLAGE_TRY(const int64_t heads, get_int(layer, "kv_heads", 1, where));
    ULLAGE_TRY(const int64_t dim, get_int(layer, "head_dim", 1, where));
    ULLAGE_TRY(const int64_t window, get_int(layer, "window", 0, where));
    ULLAGE_TRY(const int64_t chunk, get_int(layer, "chunk", 0, where));
    const model::FullAttentionKv kv{heads, dim, dim};
    KvLayers alike{kv, count};
    if (type == "mla") {
      alike.spec = model::LatentKv{dim, 0};
    } else if (type == "swa") {
      alike.spec = model::SlidingWindowKv{kv, window};
    } else if (type == "local") {
      alike.spec = model::ChunkedLocalKv{kv, chunk};
    } else if (type != "full") {
      return Error{ErrorCode::kUnsupported, fmt::format("a layer of type \"{}\"", type.substr(0, 32)),
                   std::string(where)};
    }
    layers.push_back(alike);
  }
  return layers;
}

const char* vllm_kind(const BlockGroup& group) {
  if (group.has_unlike_pages) return "UniformTypeKVCacheSpecs";
  if (std::holds_alternative<model::LatentKv>(group.spec)) return "MLAAttentionSpec";
  if (std::holds_alternative<model::SlidingWindowKv>(group.spec)) return "SlidingWindowSpec";
  if (std::holds_alternative<model::ChunkedLocalKv>(group.spec)) return "ChunkedLocalAttentionSpec";
  return "FullAttentionSpec";
}

// "" when `ours` is what the row expects, else the first difference.
std::string difference(const KvLayout& layout, int64_t first_layer_bytes, const Json& expect, int64_t blocks,
                       const memory::KvCapacity& capacity) {
  const auto differs = [&](const char* what, const auto& ours) -> std::string {
    const auto at = expect.find(what);
    if (at != expect.end() && *at == ours) return "";
    return fmt::format("{} is {}, expected {}", what, ours, at == expect.end() ? "nothing" : dump_json(*at));
  };
  for (std::string found : {differs("num_blocks", blocks), differs("GPU KV cache size tokens", capacity.size_tokens),
                            differs("max_concurrency", capacity.max_concurrency)}) {
    if (!found.empty()) return found;
  }
  const auto groups = expect.find("groups");
  if (groups == expect.end() || !groups->is_array() || groups->size() != layout.groups.size()) {
    return fmt::format("{} groups, expected {}", layout.groups.size(),
                       groups == expect.end() ? size_t{0} : groups->size());
  }
  int64_t tensors = 0;
  for (size_t i = 0; i < layout.groups.size(); ++i) {
    const BlockGroup& group = layout.groups[i];
    tensors = std::max(tensors, group.num_layers);
    Json ours = Json::object();
    ours["n_layers"] = group.num_layers;
    ours["kind"] = vllm_kind(group);
    ours["block_size"] = group.block_size;
    ours["page"] = group.page_size_bytes;
    if (ours != (*groups)[i]) {
      return fmt::format("group {} is {}, expected {}", i, dump_json(ours), dump_json((*groups)[i]));
    }
  }
  std::string tensors_differ = differs("tensors", tensors);
  if (!tensors_differ.empty()) return tensors_differ;
  const int64_t page =
      layout.groups[0].has_unlike_pages ? first_layer_bytes * layout.block_size : layout.groups[0].page_size_bytes;
  return differs("tensor_size", page * blocks);
}

// "" when the row passes.
Result<std::string> check_row(const Json& row, std::string_view where) {
  const auto given = row.find("given");
  const auto expect = row.find("expect");
  if (given == row.end() || expect == row.end() || !given->is_object() || !expect->is_object()) {
    return Error{ErrorCode::kCorrupt, "a row has \"given\" and \"expect\"", std::string(where)};
  }
  ULLAGE_TRY(const std::vector<KvLayers> layers, layers_of(*given, where));
  memory::KvLayoutOptions options;
  ULLAGE_TRY(options.block_size, get_int(*given, "block_size", 16, where));
  memory::InFlight in_flight;
  ULLAGE_TRY(in_flight.max_num_batched_tokens, get_int(*given, "max_num_batched_tokens", 8192, where));
  ULLAGE_TRY(in_flight.max_concurrent_batches, get_int(*given, "max_concurrent_batches", 1, where));
  ULLAGE_TRY(const int64_t max_model_len, get_int(*given, "max_model_len", 0, where));
  ULLAGE_TRY(const int64_t available, get_int(*given, "available_bytes", 0, where));
  ULLAGE_TRY(const std::string error, get_string(*expect, "error", "", where));
  if (max_model_len < 1) return Error{ErrorCode::kCorrupt, "max_model_len is at least 1", std::string(where)};

  const Result<KvLayout> layout = memory::make_kv_layout(layers, options);
  if (!layout) {
    // vLLM's NotImplementedError: pages that cannot be made equal.
    if (error == "NotImplementedError" && layout.error().code == ErrorCode::kUnsupported) return std::string();
    return layout.error().to_string();
  }
  const Result<void> fits = memory::check_request_fits(*layout, Bytes(available), max_model_len, in_flight);
  if (!fits) {
    // Its ValueError: one request is larger than the pool, or there is none.
    if (error == "ValueError" && fits.error().code == ErrorCode::kTooLarge) return std::string();
    return fits.error().to_string();
  }
  if (!error.empty()) return fmt::format("fits, expected {}", error);
  const int64_t blocks = memory::num_blocks(*layout, Bytes(available));
  ULLAGE_TRY(const int64_t first, memory::layer_bytes(layers[0].spec, options));
  return difference(*layout, first, *expect, blocks, memory::kv_capacity(*layout, blocks, max_model_len, in_flight));
}

}  // namespace

SetResult check_vllm_plan(std::string_view text, std::string_view path, int64_t max_misses) {
  SetWriter set("vllm/plan", max_misses);
  const Result<std::vector<Json>> rows = parse_json_lines(text, path);
  if (!rows) {
    set.miss(rows.error().to_string());
    return set.result;
  }
  for (size_t i = 0; i < rows->size(); ++i) {
    const std::string where = fmt::format("{}: row {}", path, i + 1);
    const Result<std::string> found = check_row((*rows)[i], where);
    if (found && found->empty()) {
      set.pass();
    } else {
      set.miss(found ? fmt::format("{}: {}", where, *found) : found.error().to_string());
    }
  }
  return set.result;
}

SetResult check_configs(const ReferenceFiles& files, int64_t max_misses) {
  SetWriter set("configs", max_misses);
  for (const char* folder : {"configs"}) {
    for (const std::string& name : files.list(folder)) {
      const std::string path = fmt::format("{}/{}", folder, name);
      if (!name.ends_with(".json") || name.ends_with(".hf_quant_config.json")) continue;
      const Result<model::ModelShape> shape = read_shape(files, path);
      if (!shape) {
        // A refusal counts when it names what is not modelled; a file that lacks fields (configs_partial has only what
        // documents state) is told apart.
        if (shape.error().code == ErrorCode::kUnsupported) {
          set.pass();
          set.note(shape.error().to_string());
        } else {
          set.miss(shape.error().to_string());
        }
        continue;
      }
      const Result<KvLayout> layout = memory::make_kv_layout(*shape, {});
      if (!layout) {
        set.miss(fmt::format("{}: {}", path, layout.error().to_string()));
      } else if (model::count_parameters(*shape).total() < 1) {
        set.miss(fmt::format("{}: no parameters", path));
      } else {
        set.pass();
      }
    }
  }
  set.result.is_missing = set.result.total == 0;
  return set.result;
}

}  // namespace ullage::observe
