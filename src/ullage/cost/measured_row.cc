#include "ullage/cost/measured_row.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace ullage::cost {
namespace {

int64_t at_least_one(int64_t value) { return std::max<int64_t>(1, value); }

bool has_experts(const model::ModelShape& shape) {
  return std::any_of(shape.layers.begin(), shape.layers.end(),
                     [](const model::LayerShape& layer) { return std::holds_alternative<model::MoeFfn>(layer.ffn); });
}

// Of what the checkpoint quantises; 16 when nothing.
int32_t narrowest_bits(const model::Quantization& quantization) {
  if (quantization.method.empty()) return 16;
  int32_t bits = quantization.is_listed_only ? 16 : quantization.format.element_bits;
  if (quantization.has_expert_format) bits = std::min(bits, quantization.expert_format.element_bits);
  for (const model::QuantizedModules& group : quantization.groups) {
    if (!group.is_plain) bits = std::min(bits, group.format.element_bits);
  }
  return bits;
}

Result<RowPrediction> predict(const ModelCosts& costs, const hardware::Device& device, const RowSetting& setting,
                              const MeasuredRow& row, const Efficiency& efficiency, double max_running,
                              double ttft_overhead, double ttft_wave) {
  StepCostOptions options;
  options.kv_dtype = setting.kv_dtype;
  options.parallelism = setting.parallelism;
  options.efficiency = efficiency;
  ULLAGE_TRY(const StepCostModel model, make_step_cost_model(costs, device, options));
  ServingPoint point;
  point.concurrency = setting.concurrency;
  point.prompt_tokens = row.prompt_tokens;
  point.output_tokens = row.output_tokens;
  point.max_running = max_running;
  point.max_num_batched_tokens = 16384;
  const ServingTimes times = serving_times(model, point, ttft_overhead, ttft_wave);
  return RowPrediction{times.tpot_seconds, times.ttft_seconds};
}

}  // namespace

Result<RowSetting> row_setting(const MeasuredRow& row) {
  if (row.prompt_tokens < 1 || row.output_tokens < 1 || row.batch_size < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("found isl {}, osl {}, batch_size {}; expected each to be at least 1", row.prompt_tokens,
                             row.output_tokens, row.batch_size),
                 "row"};
  }
  const int64_t tensor = at_least_one(row.tp_size);
  const int64_t experts_tensor = at_least_one(row.moe_tp_size);
  const int64_t experts = at_least_one(row.moe_ep_size);
  int64_t replicas = at_least_one(row.attention_dp_size);
  int64_t devices = tensor * replicas;
  if (experts_tensor == experts && experts > 1 && std::max(tensor, replicas) == experts * experts) {
    devices = experts;
    if (replicas > 1) replicas = experts;
  } else if (tensor == replicas && replicas > 1) {
    devices = tensor;
  }
  RowSetting out;
  out.parallelism.tensor = at_least_one(devices / replicas);
  out.parallelism.data = replicas;
  out.parallelism.pipeline = at_least_one(row.pp_size);
  out.parallelism.has_expert_parallel = experts > 1;
  const bool is_wide = row.precision.empty() || row.precision == "bf16";
  out.kv_dtype = is_wide ? model::KvDType::kBF16 : model::KvDType::kFP8E4M3;
  // Recorded concurrency is each attention replica's.
  out.concurrency = static_cast<double>(row.batch_size);
  const size_t end = row.system.find("_sxm");
  out.device = row.system.substr(0, end);
  return out;
}

Result<model::ModelShape> shape_in_precision(const model::ModelShape& shape, std::string_view precision) {
  model::ModelShape out = shape;
  if (precision.empty()) return out;
  if (precision == "bf16" || precision == "fp16") {
    out.quantization = model::Quantization{};
    return out;
  }
  if (precision != "fp8" && precision != "fp4") {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("found precision \"{}\"; expected bf16, fp16, fp8 or fp4", std::string(precision)),
                 "precision"};
  }
  const int32_t bits = narrowest_bits(shape.quantization);
  if (bits == 4 || (precision == "fp8" && bits == 8)) return out;
  ULLAGE_TRY(out.quantization, model::quantize_as(precision == "fp8" ? "fp8" : "nvfp4", "precision"));
  if (precision == "fp4" && has_experts(shape)) {
    for (const char* pattern : {"*self_attn*", "*linear_attn*", "*shared_expert.*"}) {
      ULLAGE_TRY(model::ModulePattern parsed, model::parse_module_pattern(pattern, "precision"));
      out.quantization.ignored.push_back(std::move(parsed));
    }
  }
  return out;
}

Result<RowPredictions> predict_row(const ModelCosts& costs, const hardware::Device& device, const MeasuredRow& row,
                                   double max_running) {
  ULLAGE_TRY(const RowSetting setting, row_setting(row));
  RowPredictions out;
  out.calibration = &find_calibration(row.backend, device.id);
  ULLAGE_TRY(out.modelled, predict(costs, device, setting, row, Efficiency{}, max_running, 0, 0));
  ULLAGE_TRY(out.calibrated, predict(costs, device, setting, row, out.calibration->efficiency, max_running,
                                     out.calibration->ttft_overhead, out.calibration->ttft_wave));
  return out;
}

Result<RowPredictions> predict_row(const model::ModelShape& shape, const hardware::Device& device,
                                   const MeasuredRow& row, double max_running) {
  ULLAGE_TRY(const RowSetting setting, row_setting(row));
  ULLAGE_TRY_VOID(model::check_parallelism(shape, setting.parallelism));
  ULLAGE_TRY(const ModelCosts costs, make_model_costs(shape));
  return predict_row(costs, device, row, max_running);
}

Result<model::ModelShape> splitwise_shape(std::string_view name) {
  const bool is_llama = name == "llama2-70b";
  if (!is_llama && name != "bloom-176b") {
    return Error{ErrorCode::kNotFound,
                 fmt::format("found model \"{}\"; expected llama2-70b or bloom-176b", std::string(name)), "model"};
  }
  // config.json of meta-llama/Llama-2-70b-hf and of bigscience/bloom.
  model::ModelShape shape;
  shape.architecture = is_llama ? "llama" : "bloom";
  shape.name = std::string(name);
  shape.vocab_size = is_llama ? 32000 : 250880;
  shape.hidden_size = is_llama ? 8192 : 14336;
  shape.max_position_embeddings = is_llama ? 4096 : 2048;
  shape.has_tied_embeddings = !is_llama;
  model::Attention attention;
  attention.num_heads = is_llama ? 64 : 112;
  attention.num_kv_heads = is_llama ? 8 : 112;
  attention.head_dim = 128;
  attention.has_qkv_bias = attention.has_output_bias = !is_llama;
  model::DenseFfn ffn;
  ffn.intermediate_size = is_llama ? 28672 : 57344;
  ffn.has_bias = !is_llama;
  ffn.is_gated = is_llama;
  shape.layers.assign(is_llama ? 80 : 70, model::LayerShape{attention, ffn});
  return shape;
}

Result<BatchPrediction> predict_batch(const model::ModelShape& shape, const hardware::Device& device,
                                      const Efficiency& efficiency, int64_t tensor_parallel, int64_t batch,
                                      int64_t prompt_tokens, int64_t output_tokens) {
  if (tensor_parallel < 1 || batch < 1 || prompt_tokens < 1 || output_tokens < 1) {
    return Error{ErrorCode::kInvalidArgument, "expected tensor parallelism, batch and lengths of at least 1", "row"};
  }
  StepCostOptions options;
  options.parallelism.tensor = tensor_parallel;
  options.efficiency = efficiency;
  ULLAGE_TRY(const StepCostModel model, make_step_cost_model(shape, device, options));
  const std::array<WorkItem, 1> prompt = {WorkItem{0, prompt_tokens, true, batch}};
  const std::array<WorkItem, 1> token = {WorkItem{prompt_tokens + output_tokens / 2, 1, true, batch}};
  return BatchPrediction{step_cost(model, prompt).latency_seconds, step_cost(model, token).latency_seconds};
}

}  // namespace ullage::cost
