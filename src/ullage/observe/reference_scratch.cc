// Start-ups from nothing but model, flags and device.
#include <fmt/format.h>

#include "ullage/hardware/device.h"
#include "ullage/memory/engine_profile.h"
#include "ullage/model/quantization.h"
#include "ullage/observe/reference_tables.h"

namespace ullage::observe {

Result<model::ModelShape> shape_as_loaded(const model::ModelShape& shape, const MappedModel& mapped,
                                          std::string_view quantization, std::string_view dtype) {
  model::ModelShape loaded = shape;
  // Names of models.csv that quantize_as has others for.
  struct Name {
    std::string_view listed;
    std::string_view known;
  };
  constexpr Name kNames[] = {{"fp8", "fp8-channel"}, {"w8a8", "int8"}, {"w4a16", "int4"}, {"autoround-int4", "int4"}};
  std::string_view wanted;
  if (mapped.relation != "same") wanted = mapped.weight_format;
  if (wanted.starts_with("gguf-")) wanted.remove_prefix(5);
  for (const Name& name : kNames) {
    if (wanted == name.listed) wanted = name.known;
  }
  if (mapped.weight_format == "bf16" && quantization == "fp8") wanted = "fp8";  // at load
  if (wanted == "bf16") {
    loaded.quantization = {};
  } else if (!wanted.empty()) {
    ULLAGE_TRY(loaded.quantization, model::quantize_as(wanted, "weight_format"));
  }
  // Both engines of the rows halve what is stored in 32 bits unless they are told not to.
  ULLAGE_TRY(const memory::EngineProfile* vllm, memory::find_engine_profile("vllm"));
  loaded.weight_dtype =
      dtype.ends_with("float32") ? model::DType::kF32 : memory::default_dtype(*vllm, loaded.weight_dtype);
  return loaded;
}

Result<memory::StartupPrediction> predict_start(const model::ModelShape& shape, const ScratchStart& scratch) {
  ULLAGE_TRY(const LoggedLayout logged, layout_of(shape, scratch.start));
  ULLAGE_TRY(const hardware::Device device, hardware::find_device(scratch.device));
  const std::string& version = scratch.start.version;
  std::string policy = memory::version_number(version) < 0 ? "vllm" : fmt::format("vllm {}", version);
  if (scratch.start.is_sglang) policy = "sglang";
  ULLAGE_TRY(const memory::EngineProfile* profile, memory::find_engine_profile(policy));
  memory::BudgetInput input;
  input.shape = &shape;
  input.device = &device;
  input.profile = profile;
  input.parallelism.tensor = scratch.start.tensor_parallel;
  input.parallelism.pipeline = scratch.start.pipeline_parallel;
  input.gpu_memory_utilization = scratch.utilization;
  input.max_model_len = scratch.start.max_model_len > 0 ? scratch.start.max_model_len : shape.max_position_embeddings;
  input.max_num_seqs = scratch.max_num_seqs;
  input.max_num_batched_tokens = scratch.start.max_num_batched_tokens;
  input.has_graphs = !scratch.is_eager;
  input.with_draft = scratch.start.has_draft_layers;
  ULLAGE_TRY_VOID(model::check_parallelism(shape, input.parallelism));
  if (input.max_model_len < 1) {
    return Error{ErrorCode::kInvalidArgument, "neither the row nor the model says how long a request may be",
                 "max_model_len"};
  }
  return memory::predict_startup(input, logged.layout.options);
}

}  // namespace ullage::observe
