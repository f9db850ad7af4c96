#include "ullage/observe/lesson_given.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/quote.h"

namespace ullage::observe {
namespace {

struct ShapeNumbers {
  std::string_view name;
  int64_t layers, hidden, intermediate, heads, kv_heads, head_dim, vocab;
  bool has_qkv_bias = false;
  bool has_qk_norm = false;
  bool has_tied_embeddings = false;
};
// Models that the lessons speak of and the file does not describe; figures of their config.json.
constexpr std::array<ShapeNumbers, 3> kSpokenOf{{
    {"Llama-3.1-8B", 32, 4096, 14336, 32, 8, 128, 128256},
    {"Llama-2-7B", 32, 4096, 11008, 32, 32, 128, 32000},
    {"Qwen2.5-7B-Instruct", 28, 3584, 18944, 28, 4, 128, 152064, true},
}};

// Of a size that a file states; what is beyond every device is cut there.
Bytes bytes_of_gib(double gib) { return Bytes(static_cast<int64_t>(std::min(gib, 1e6) * static_cast<double>(kGiB))); }

model::ModelShape dense_shape(const ShapeNumbers& numbers) {
  model::ModelShape shape;
  shape.architecture = "llama";
  shape.name = std::string(numbers.name);
  shape.vocab_size = numbers.vocab;
  shape.hidden_size = numbers.hidden;
  shape.has_tied_embeddings = numbers.has_tied_embeddings;
  model::Attention attention;
  attention.num_heads = numbers.heads;
  attention.num_kv_heads = numbers.kv_heads;
  attention.head_dim = numbers.head_dim;
  attention.has_qkv_bias = numbers.has_qkv_bias;
  attention.has_qk_norm = numbers.has_qk_norm;
  model::LayerShape layer;
  layer.mixer = attention;
  layer.ffn = model::DenseFfn{.intermediate_size = numbers.intermediate};
  shape.layers.assign(static_cast<size_t>(numbers.layers), layer);
  return shape;
}

// DeepSeek-V3's attention and 61 layers; its feed-forward is left to whoever needs it (a catalogue).
model::ModelShape latent_shape(int64_t layers, int64_t latent, int64_t rope) {
  model::ModelShape shape;
  shape.architecture = "deepseek_v3";
  shape.hidden_size = 7168;
  shape.vocab_size = 129280;
  model::LayerShape layer;
  layer.mixer = model::LatentAttention{.num_heads = 128,
                                       .q_lora_rank = 1536,
                                       .kv_lora_rank = latent - rope,
                                       .qk_nope_head_dim = 128,
                                       .qk_rope_head_dim = rope,
                                       .v_head_dim = 128,
                                       .indexer = std::nullopt};
  layer.ffn = model::DenseFfn{.intermediate_size = 18432};
  shape.layers.assign(static_cast<size_t>(layers), layer);
  return shape;
}

Result<ShapeNumbers> read_model(const Json& json, std::string_view where) {
  ShapeNumbers out{};
  ULLAGE_TRY(out.layers, get_int(json, "layers", 0, where));
  ULLAGE_TRY(out.hidden, get_int(json, "hidden", 0, where));
  ULLAGE_TRY(out.intermediate, get_int(json, "intermediate", 0, where));
  ULLAGE_TRY(out.heads, get_int(json, "heads", 0, where));
  ULLAGE_TRY(out.kv_heads, get_int(json, "kv_heads", out.heads, where));
  ULLAGE_TRY(out.head_dim, get_int(json, "head_dim", out.heads > 0 ? out.hidden / out.heads : 0, where));
  ULLAGE_TRY(out.vocab, get_int(json, "vocab", 0, where));
  ULLAGE_TRY(out.has_tied_embeddings, get_bool(json, "tied_embeddings", false, where));
  ULLAGE_TRY(out.has_qk_norm, get_bool(json, "qk_norm", false, where));
  ULLAGE_TRY(out.has_qkv_bias, get_bool(json, "qkv_bias", false, where));
  if (out.layers < 1 || out.layers > 10000 || out.hidden < 1 || out.heads < 1 || out.kv_heads < 1 || out.head_dim < 1 ||
      out.intermediate < 1 || out.vocab < 1) {
    return Error{ErrorCode::kCorrupt,
                 "a model has layers (up to 10,000), hidden, intermediate, heads and vocab, each at least 1",
                 std::string(where)};
  }
  return out;
}

Result<hardware::Device> read_device(std::string_view name, const Json& json, std::string_view where) {
  hardware::Device out;
  out.id = std::string(name);
  out.name = out.id;
  ULLAGE_TRY(const double capacity, get_double(json, "capacity_gib", 0, where));
  ULLAGE_TRY(const double bandwidth, get_double(json, "bandwidth_tb_s", 0, where));
  ULLAGE_TRY(const double flops, get_double(json, "bf16_tflop_s", 0, where));
  ULLAGE_TRY(const double link, get_double(json, "link_gb_s", 0, where));
  if (!(capacity > 0 && capacity < 1e6) || !(bandwidth > 0) || !(flops > 0)) {
    return Error{ErrorCode::kCorrupt, "a device has capacity_gib, bandwidth_tb_s and bf16_tflop_s, each above 0",
                 std::string(where)};
  }
  out.nominal_memory = bytes_of_gib(capacity);
  out.usable_memory = out.nominal_memory;
  out.bandwidth = bandwidth * 1e12;
  out.flops.bf16 = flops * 1e12;
  if (link > 0) {
    out.link_bandwidth = link * 1e9;
  } else if (const auto known = hardware::find_device(name)) {
    out.link_bandwidth = known->link_bandwidth;
    out.host_bandwidth = known->host_bandwidth;
  }
  return out;
}

struct IntKey {
  const char* name;
  int64_t Given::* field;
};
constexpr std::array<IntKey, 16> kIntKeys{{
    {"layers", &Given::layers},
    {"hidden", &Given::hidden},
    {"heads", &Given::heads},
    {"kv_heads", &Given::kv_heads},
    {"head_dim", &Given::head_dim},
    {"latent", &Given::latent},
    {"window", &Given::window},
    {"concurrent", &Given::concurrent},
    {"max_num_seqs", &Given::max_num_seqs},
    {"max_model_len", &Given::max_model_len},
    {"requests", &Given::requests},
    {"sequences", &Given::sequences},
    {"batch", &Given::batch},
    {"tensor_parallel", &Given::tensor_parallel},
    {"answer_tokens", &Given::answer_tokens},
    {"step", &Given::step},
}};
struct DoubleKey {
  const char* name;
  double Given::* field;
};
constexpr std::array<DoubleKey, 20> kDoubleKeys{{
    {"prompt", &Given::prompt},
    {"output", &Given::output},
    {"context", &Given::context},
    {"tokens", &Given::tokens},
    {"peak_times", &Given::peak_times},
    {"gpu_memory_utilization", &Given::gpu_memory_utilization},
    {"bandwidth_efficiency", &Given::bandwidth_efficiency},
    {"matmul_efficiency", &Given::matmul_efficiency},
    {"bandwidth_tb_s", &Given::bandwidth_tb_s},
    {"capacity_gib", &Given::capacity_gib},
    {"weights_gib", &Given::weights_gib},
    {"base_weights_gib", &Given::base_weights_gib},
    {"awq_weights_gib", &Given::awq_weights_gib},
    {"pool_gib", &Given::pool_gib},
    {"kv_bytes_per_token", &Given::kv_bytes_per_token},
    {"kv_tokens", &Given::kv_tokens},
    {"p95_tokens", &Given::p95_tokens},
    {"qps", &Given::qps},
    {"mean_duration_s", &Given::mean_duration_s},
    {"ceiling", &Given::ceiling},
}};
struct StringKey {
  const char* name;
  std::string Given::* field;
};
constexpr std::array<StringKey, 6> kStringKeys{{
    {"model", &Given::model},
    {"device", &Given::device},
    {"kv", &Given::kv},
    {"weights", &Given::weights},
    {"engine", &Given::engine},
    {"version", &Given::version},
}};
struct BoolKey {
  const char* name;
  bool Given::* field;
};
constexpr std::array<BoolKey, 3> kBoolKeys{{
    {"force_mha", &Given::force_mha},
    {"flash_attention", &Given::has_flash_attention},
    {"ignore_slice_attention", &Given::ignores_slice_attention},
}};

// True when `key` was one of ours.
Result<bool> read_key(const Json& json, const std::string& key, std::string_view where, Given& out) {
  for (const IntKey& known : kIntKeys) {
    if (key != known.name) continue;
    ULLAGE_TRY(out.*known.field, get_int(json, known.name, 0, where));
    if (out.*known.field < 0 || out.*known.field > (int64_t{1} << 31)) {
      return Error{ErrorCode::kCorrupt, fmt::format("expected 0 to 2^31, found {}", out.*known.field),
                   fmt::format("{}/{}", where, key)};
    }
    return true;
  }
  for (const DoubleKey& known : kDoubleKeys) {
    if (key != known.name) continue;
    ULLAGE_TRY(out.*known.field, get_double(json, known.name, 0, where));
    if (!(out.*known.field >= 0 && out.*known.field < 1e15)) {
      return Error{ErrorCode::kCorrupt, "expected a number of 0 or more", fmt::format("{}/{}", where, key)};
    }
    return true;
  }
  for (const StringKey& known : kStringKeys) {
    if (key != known.name) continue;
    ULLAGE_TRY(out.*known.field, get_string(json, known.name, "", where));
    return true;
  }
  for (const BoolKey& known : kBoolKeys) {
    if (key != known.name) continue;
    ULLAGE_TRY(out.*known.field, get_bool(json, known.name, false, where));
    return true;
  }
  return false;
}

double if_given(double value, double fallback) { return value >= 0 ? value : fallback; }

Result<hardware::Device> lesson_device(const LessonWorld& world, const Given& given) {
  hardware::Device device;
  if (given.device.empty()) {
    // Questions of bytes alone name none.
    device = world.devices.empty() ? hardware::Device{} : world.devices.front();
    for (const hardware::Device& known : world.devices) {
      if (known.id == "H100-80GB") device = known;
    }
  } else {
    const auto known = std::find_if(world.devices.begin(), world.devices.end(),
                                    [&](const hardware::Device& d) { return d.id == given.device; });
    if (known != world.devices.end()) {
      device = *known;
    } else {
      ULLAGE_TRY(device, hardware::find_device(given.device));
    }
  }
  if (given.capacity_gib > 0) {
    device.nominal_memory = bytes_of_gib(given.capacity_gib);
  }
  if (given.bandwidth_tb_s > 0) device.bandwidth = given.bandwidth_tb_s * 1e12;
  device.flops.bf16 *= given.peak_times;
  return device;
}

}  // namespace

Result<Given> read_given(const Json& variant, std::string_view where) {
  Given out;
  for (const auto& item : variant.items()) {
    const std::string& key = item.key();
    if (key == "activation_gib") {
      ULLAGE_TRY(out.activation_gib, get_double(variant, "activation_gib", 0, where));
      continue;
    }
    if (key == "usd_per_million" && item.value().is_object()) {
      ULLAGE_TRY(out.usd_per_million_input, get_double(item.value(), "input", 0, where));
      ULLAGE_TRY(out.usd_per_million_output, get_double(item.value(), "output", 0, where));
      continue;
    }
    ULLAGE_TRY(const bool is_known, read_key(variant, key, where, out));
    if (!is_known) {
      return Error{ErrorCode::kUnsupported, fmt::format("gives {}, which is not known here", quote(key)),
                   std::string(where)};
    }
  }
  return out;
}

Result<LessonWorld> read_world(const Json& assumptions, std::string_view where, const ModelFinder& find_model) {
  LessonWorld out;
  out.find_model = find_model;
  ULLAGE_TRY(out.gpu_memory_utilization, get_double(assumptions, "gpu_memory_utilization_default", 0.9, where));
  ULLAGE_TRY(out.bandwidth_efficiency, get_double(assumptions, "bandwidth_efficiency", 0.8, where));
  ULLAGE_TRY(out.matmul_efficiency, get_double(assumptions, "matmul_efficiency", 0.55, where));
  ULLAGE_TRY(out.output_tokens, get_double(assumptions, "output_tokens_default", 256, where));
  ULLAGE_TRY(out.concurrent, get_int(assumptions, "concurrent_default", 32, where));
  if (const auto devices = assumptions.find("devices"); devices != assumptions.end() && devices->is_object()) {
    out.devices.reserve(devices->size());
    for (const auto& item : devices->items()) {
      ULLAGE_TRY(hardware::Device device, read_device(item.key(), item.value(), where));
      out.devices.push_back(std::move(device));
    }
  }
  if (const auto models = assumptions.find("models"); models != assumptions.end() && models->is_object()) {
    out.models.reserve(models->size());
    for (const auto& item : models->items()) {
      ULLAGE_TRY(ShapeNumbers numbers, read_model(item.value(), where));
      numbers.name = item.key();
      out.models.push_back(dense_shape(numbers));
    }
  }
  return out;
}

Result<model::ModelShape> named_shape(const LessonWorld& world, std::string_view name) {
  for (const model::ModelShape& shape : world.models) {
    if (shape.name == name) return shape;
  }
  for (const ShapeNumbers& numbers : kSpokenOf) {
    if (numbers.name == name) return dense_shape(numbers);
  }
  if (name == "DeepSeek-V3") return latent_shape(61, 576, 64);
  if (world.find_model) return world.find_model(name);
  return Error{ErrorCode::kNotFound, fmt::format("model {} is neither described nor known", quote(name)), "model"};
}

Result<model::ModelShape> lesson_shape(const LessonWorld& world, const Given& given) {
  if (!given.model.empty()) return named_shape(world, given.model);
  if (given.latent > 0) {
    const int64_t rope = std::min<int64_t>(64, given.latent / 2);
    return latent_shape(std::max<int64_t>(1, given.layers), given.latent, rope);
  }
  if (given.layers < 1 || given.layers > 10000) {
    return Error{ErrorCode::kInvalidArgument, "neither a model nor a number of layers up to 10,000 is given", "model"};
  }
  ShapeNumbers numbers{};
  numbers.layers = given.layers;
  numbers.heads = given.heads > 0 ? given.heads : std::max<int64_t>(1, given.kv_heads);
  numbers.kv_heads = given.kv_heads > 0 ? given.kv_heads : numbers.heads;
  numbers.hidden = given.hidden > 0 ? given.hidden : numbers.heads * std::max<int64_t>(1, given.head_dim);
  numbers.head_dim = given.head_dim > 0 ? given.head_dim : numbers.hidden / numbers.heads;
  numbers.intermediate = 4 * numbers.hidden;
  numbers.vocab = 32000;
  return dense_shape(numbers);
}

int64_t kv_bits(std::string_view name) {
  if (name == "fp32" || name == "f32") return 32;
  if (name.empty() || name == "bf16" || name == "fp16" || name == "f16") return 16;
  if (name.starts_with("fp8") || name == "int8") return 8;
  if (name == "int4" || name == "fp4") return 4;
  return 0;
}

Result<void> make_scenario(const LessonWorld& world, const Given& given, LessonScenario& out) {
  ULLAGE_TRY(out.shape, lesson_shape(world, given));
  ULLAGE_TRY(out.device, lesson_device(world, given));
  plan::Scenario& s = out.scenario;
  s = plan::Scenario{};
  s.shape = &out.shape;
  s.device = &out.device;
  ULLAGE_TRY(s.profile, memory::find_engine_profile("lesson"));
  switch (kv_bits(given.kv)) {
    case 32:
      s.kv_dtype = model::KvDType::kF32;
      break;
    case 16:
      s.kv_dtype = model::KvDType::kBF16;
      break;
    case 8:
      s.kv_dtype = model::KvDType::kFP8E4M3;
      break;
    default:
      return Error{ErrorCode::kUnsupported, fmt::format("no plan with KV in {}", quote(given.kv)), "kv"};
  }
  if (!given.weights.empty()) {
    ULLAGE_TRY(s.weights, plan::parse_weight_precision(given.weights, "weights"));
  }
  s.force_mha = given.force_mha;
  if (!given.model.empty() && !given.force_mha) s.num_kv_heads = given.kv_heads;
  s.parallelism.tensor = given.tensor_parallel;
  s.gpu_memory_utilization =
      given.gpu_memory_utilization > 0 ? given.gpu_memory_utilization : world.gpu_memory_utilization;
  if (given.pool_gib > 0) s.kv_memory = bytes_of_gib(given.pool_gib);
  if (given.activation_gib) {
    s.activation_reserve = bytes_of_gib(*given.activation_gib);
  }
  s.max_num_seqs = given.max_num_seqs;
  s.prompt_tokens = if_given(given.prompt, if_given(given.context, if_given(given.tokens, 4096)));
  // A context or a number of tokens is the whole of a request.
  s.output_tokens =
      if_given(given.output, given.prompt >= 0 || (given.context < 0 && given.tokens < 0) ? world.output_tokens : 0);
  if (s.prompt_tokens + s.output_tokens < 1) s.output_tokens = 1;
  s.concurrency = given.concurrent > 0  ? given.concurrent
                  : given.requests > 0  ? given.requests
                  : given.sequences > 0 ? given.sequences
                  : given.batch > 0     ? given.batch
                                        : world.concurrent;
  cost::Efficiency efficiency;
  efficiency.bandwidth = given.bandwidth_efficiency > 0 ? given.bandwidth_efficiency : world.bandwidth_efficiency;
  efficiency.matmul = given.matmul_efficiency > 0 ? given.matmul_efficiency : world.matmul_efficiency;
  s.efficiency = efficiency;
  return {};
}

}  // namespace ullage::observe
