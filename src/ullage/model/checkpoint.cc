#include "ullage/model/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/mapped_file.h"
#include "ullage/base/quote.h"
#include "ullage/model/config.h"
#include "ullage/model/generation.h"
#include "ullage/model/gguf.h"
#include "ullage/model/gguf_shape.h"
#include "ullage/model/model_path.h"
#include "ullage/model/safetensors.h"
#include "ullage/model/servable.h"
#include "ullage/model/tensor_names.h"

namespace ullage::model {

namespace {

// What a Checkpoint holds; the tensors are views into the files.
struct Loaded {
  std::string path;
  std::vector<MappedFile> files;
  std::optional<GgufFile> gguf;
  ModelShape shape;
  GenerationDefaults generation;
  std::string chat_template;
  std::vector<TensorView> tensors;
  std::map<std::string, std::string> unread;  // tensors of dtypes that are not read, and the dtype's name
  std::vector<int32_t>
      indices;  // [num_layers, kNumTensorRoles] into tensors; -1 = none. Layer 0 holds the once-a-model roles
};

constexpr int64_t kMaxConfigBytes = int64_t{16} << 20;

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// Tensors by name; an Error when two files hold the same one.
Result<std::map<std::string_view, int32_t>> index_by_name(const std::vector<TensorView>& tensors,
                                                          const std::string& path) {
  std::map<std::string_view, int32_t> by_name;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!by_name.emplace(tensors[i].name, static_cast<int32_t>(i)).second) {
      return Error{ErrorCode::kCorrupt, fmt::format("tensor {} is in two files", quote(tensors[i].name)), path};
    }
  }
  return by_name;
}

Result<void> check_tensor(const TensorView& tensor, const TensorSpec& spec, const std::string& path) {
  const auto error = [&](ErrorCode code, std::string message) {
    return Error{code, std::move(message), fmt::format("{}: tensor {}", path, tensor.name)};
  };
  if (tensor.shape != spec.shape) {
    return error(ErrorCode::kCorrupt,
                 fmt::format("has shape {}, but the model's configuration asks for {}; the files do not "
                             "belong together",
                             shape_text(tensor.shape), shape_text(spec.shape)));
  }
  if (spec.shape.size() == 1 && info(tensor.dtype).block_elements != 1) {
    return error(
        ErrorCode::kUnsupported,
        fmt::format("is a vector stored as {}; F32, F16 and BF16 are read for vectors", info(tensor.dtype).name));
  }
  return {};
}

// "model.layers.12.mlp.up_proj.weight" -> 12; -1 for tensors of no layer.
int64_t layer_of(std::string_view name, TensorNaming naming) {
  const std::string_view prefix = naming == TensorNaming::kGguf ? "blk." : "model.layers.";
  if (!name.starts_with(prefix)) return -1;
  int64_t layer = 0;
  const char* const begin = name.data() + prefix.size();
  const auto [end, status] = std::from_chars(begin, name.data() + name.size(), layer);
  return status == std::errc() && end != begin ? layer : -1;
}

// A model with some of its layers left out would run, and talk nonsense.
Result<void> check_no_more_layers(const Loaded& loaded, TensorNaming naming) {
  const auto num_layers = static_cast<int64_t>(loaded.shape.layers.size());
  for (const TensorView& tensor : loaded.tensors) {
    if (layer_of(tensor.name, naming) < num_layers) continue;
    return Error{
        ErrorCode::kCorrupt,
        fmt::format("has tensor {}, but the model's configuration says that it has {} layers; the files do not "
                    "belong together",
                    quote(tensor.name), num_layers),
        loaded.path};
  }
  return {};
}

// Gives every needed tensor its place.
Result<std::vector<int32_t>> assign_roles(const Loaded& loaded, TensorNaming naming) {
  const std::vector<TensorView>& tensors = loaded.tensors;
  const ModelShape& shape = loaded.shape;
  const std::string& path = loaded.path;
  ULLAGE_TRY_VOID(check_no_more_layers(loaded, naming));
  ULLAGE_TRY(const auto by_name, index_by_name(tensors, path));
  std::vector<int32_t> indices(shape.layers.size() * kNumTensorRoles, -1);
  for (const TensorSpec& spec : tensor_specs(shape, naming)) {
    const auto it = by_name.find(spec.name);
    if (it == by_name.end()) {
      if (const auto unread = loaded.unread.find(spec.name); unread != loaded.unread.end()) {
        return Error{ErrorCode::kUnsupported,
                     fmt::format("is stored as {}; from Hugging Face directories F32, F16 and BF16 are read. Take the "
                                 "unquantised model, or a GGUF",
                                 unread->second),
                     fmt::format("{}: tensor {}", path, spec.name)};
      }
      if (spec.is_optional) continue;
      return Error{
          ErrorCode::kCorrupt,
          fmt::format("has no tensor {} of shape {}, which the model needs; the file or directory is incomplete, "
                      "or of another architecture",
                      spec.name, shape_text(spec.shape)),
          path};
    }
    ULLAGE_TRY_VOID(check_tensor(tensors[static_cast<size_t>(it->second)], spec, path));
    indices[static_cast<size_t>(spec.layer) * kNumTensorRoles + static_cast<size_t>(spec.role)] = it->second;
  }
  return indices;
}

// The dtype with the most bytes among the matrices.
DType most_common_dtype(const std::vector<TensorView>& tensors, DType fallback) {
  size_t bytes[16] = {};
  for (const TensorView& tensor : tensors) {
    if (tensor.shape.size() == 2) bytes[static_cast<int>(tensor.dtype)] += tensor.data.size();
  }
  const auto most = std::max_element(std::begin(bytes), std::end(bytes));
  return *most == 0 ? fallback : static_cast<DType>(most - std::begin(bytes));
}

// A shard's tensors. Those of dtypes that the model code does not read stay out: some model files carry tensors that
// nobody needs.
Result<void> add_shard(const Shard& shard, const MappedFile& file, Loaded& state) {
  ULLAGE_TRY(const SafetensorsFile parsed, SafetensorsFile::parse(file.bytes(), shard.path));
  std::vector<std::string_view> names;
  for (const SafetensorsTensor& tensor : parsed.tensors()) {
    names.push_back(tensor.name);
    if (tensor.dtype) {
      state.tensors.push_back({tensor.name, *tensor.dtype, tensor.shape, tensor.data});
    } else {
      state.unread.emplace(tensor.name, tensor.dtype_name);
    }
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : shard.tensors) {
    if (!std::binary_search(names.begin(), names.end(), name)) {
      return Error{ErrorCode::kCorrupt,
                   fmt::format("lacks tensor {}, which model.safetensors.index.json says is there", quote(name)),
                   shard.path};
    }
  }
  return {};
}

// Quantised checkpoints store other tensors under other names: say so, rather than that a tensor is missing.
Result<void> refuse_quantised(std::string_view text, const std::string& path) {
  ULLAGE_TRY(const Json config, parse_json(text, path));
  const auto it = config.find("quantization_config");
  if (it == config.end() || it->is_null()) return {};
  std::string method = "unnamed";
  if (it->is_object()) {
    ULLAGE_TRY(method, get_string(*it, "quant_method", method, path + "/quantization_config"));
  }
  return Error{
      ErrorCode::kUnsupported,
      fmt::format("the weights are quantised ({}); from Hugging Face directories F32, F16 and BF16 are read. Take "
                  "the unquantised model, or a GGUF",
                  quote(method)),
      path + "/quantization_config"};
}

Result<void> load_gguf(Loaded& state) {
  ULLAGE_TRY(MappedFile file, MappedFile::open(state.path));
  const auto bytes = file.bytes();
  if (bytes.size() < 4 || std::memcmp(bytes.data(), "GGUF", 4) != 0) {
    return Error{ErrorCode::kUnsupported,
                 "is not a GGUF file; give a .gguf file, or the directory that holds config.json and *.safetensors",
                 state.path};
  }
  state.files.push_back(std::move(file));
  ULLAGE_TRY(state.gguf, GgufFile::parse(bytes, state.path));
  ULLAGE_TRY(const int64_t num_parts, state.gguf->get_int("split.count", 1));
  if (num_parts > 1) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("is one of {} parts of a model; join them into one file (llama-gguf-split --merge)", num_parts),
        state.path};
  }
  ULLAGE_TRY(state.shape, shape_from_gguf(*state.gguf));
  ULLAGE_TRY_VOID(check_servable(state.shape, state.path));
  for (const GgufTensor& tensor : state.gguf->tensors()) {
    std::vector<int64_t> shape(tensor.dims.rbegin(), tensor.dims.rend());
    state.tensors.push_back({std::string(tensor.name), tensor.dtype, std::move(shape), tensor.data});
  }
  ULLAGE_TRY(state.generation, generation_from_gguf(*state.gguf, state.shape.vocab_size));
  ULLAGE_TRY(const std::string_view chat_template, state.gguf->get_string("tokenizer.chat_template", ""));
  state.chat_template = chat_template;
  return {};
}

Result<void> load_directory(Loaded& state, const std::string& name) {
  const std::string config_path = state.path + "/config.json";
  ULLAGE_TRY(const std::string text, read_text_file(config_path, kMaxConfigBytes));
  ULLAGE_TRY(state.shape, parse_servable_config(text, config_path));
  ULLAGE_TRY_VOID(refuse_quantised(text, config_path));
  if (!name.empty()) state.shape.name = name;
  ULLAGE_TRY(const std::vector<Shard> shards, find_shards(state.path));
  for (const Shard& shard : shards) {
    ULLAGE_TRY(MappedFile file, MappedFile::open(shard.path));
    state.files.push_back(std::move(file));
    ULLAGE_TRY_VOID(add_shard(shard, state.files.back(), state));
  }
  state.shape.weight_dtype = most_common_dtype(state.tensors, state.shape.weight_dtype);
  ULLAGE_TRY(state.generation, generation_from_directory(state.path, state.shape.vocab_size));
  ULLAGE_TRY(state.chat_template, chat_template_from_directory(state.path));
  return {};
}

}  // namespace

struct Checkpoint::State : Loaded {};

Result<Checkpoint> Checkpoint::open(const std::string& path, const std::string& hf_cache_dir) {
  ULLAGE_TRY(const ModelFiles files, find_model(path, hf_cache_dir));
  auto state = std::make_unique<State>();
  state->path = files.path;
  if (files.is_gguf) {
    ULLAGE_TRY_VOID(load_gguf(*state));
  } else {
    ULLAGE_TRY_VOID(load_directory(*state, files.name));
  }
  const TensorNaming naming = files.is_gguf ? TensorNaming::kGguf : TensorNaming::kHuggingFace;
  ULLAGE_TRY(state->indices, assign_roles(*state, naming));
  return Checkpoint(std::move(state));
}

Checkpoint::Checkpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const ModelShape& Checkpoint::shape() const { return state_->shape; }
const GenerationDefaults& Checkpoint::generation() const { return state_->generation; }

const TensorView* Checkpoint::tensor(TensorRole role, int64_t layer) const {
  const size_t row = role <= TensorRole::kRopeFactors ? 0 : static_cast<size_t>(layer);
  if (row >= state_->shape.layers.size()) return nullptr;
  const int32_t index = state_->indices[row * kNumTensorRoles + static_cast<size_t>(role)];
  return index < 0 ? nullptr : &state_->tensors[static_cast<size_t>(index)];
}

std::span<const TensorView> Checkpoint::tensors() const { return state_->tensors; }
const std::string& Checkpoint::path() const { return state_->path; }
const GgufFile* Checkpoint::gguf() const { return state_->gguf ? &*state_->gguf : nullptr; }
const std::string& Checkpoint::chat_template() const { return state_->chat_template; }

}  // namespace ullage::model
