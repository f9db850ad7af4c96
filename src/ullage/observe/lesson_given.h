// What a lesson's case gives, as scenarios of the planner. Internal to observe/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/json_fwd.h"
#include "ullage/base/result.h"
#include "ullage/hardware/device.h"
#include "ullage/memory/engine_profile.h"
#include "ullage/model/model_shape.h"
#include "ullage/observe/lesson_cases.h"
#include "ullage/plan/scenario.h"

namespace ullage::observe {

// One variant of a case: every key that it gives, one value each. 0, or "", = not given.
struct Given {
  std::string model;
  std::string device;
  std::string kv;       // "bf16", "fp16", "fp8", "int4"
  std::string weights;  // "bf16", "fp8", "awq4"
  std::string engine;
  std::string version;
  bool force_mha = false;
  bool has_flash_attention = false;
  bool ignores_slice_attention = false;
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, latent = 0, window = 0;
  double prompt = -1, output = -1;  // -1 = not given
  double context = -1, tokens = -1;
  int64_t concurrent = 0, max_num_seqs = 0, max_model_len = 0, requests = 0, sequences = 0, batch = 0;
  int64_t tensor_parallel = 1;
  int64_t answer_tokens = 0, step = 0;
  double peak_times = 1;
  double gpu_memory_utilization = 0, bandwidth_efficiency = 0, matmul_efficiency = 0, bandwidth_tb_s = 0;
  double capacity_gib = 0, weights_gib = 0, base_weights_gib = 0, awq_weights_gib = 0, pool_gib = 0;
  std::optional<double> activation_gib;
  double kv_bytes_per_token = 0, kv_tokens = 0, p95_tokens = 0;
  double qps = 0, mean_duration_s = 0, ceiling = 0;
  double usd_per_million_input = 0, usd_per_million_output = 0;
};

// Reads one variant; a key that is not known is an Error that names it.
Result<Given> read_given(const Json& variant, std::string_view where);

// What the file's `lesson_assumptions` say.
struct LessonWorld {
  std::vector<hardware::Device> devices;
  std::vector<model::ModelShape> models;
  double gpu_memory_utilization = 0.9;
  double bandwidth_efficiency = 0.8;
  double matmul_efficiency = 0.55;
  double output_tokens = 256;
  int64_t concurrent = 32;
  ModelFinder find_model;
};
Result<LessonWorld> read_world(const Json& assumptions, std::string_view where, const ModelFinder& find_model);

// A scenario owns what it points to.
struct LessonScenario {
  model::ModelShape shape;
  hardware::Device device;
  plan::Scenario scenario;
};
Result<model::ModelShape> lesson_shape(const LessonWorld& world, const Given& given);
Result<model::ModelShape> named_shape(const LessonWorld& world, std::string_view name);
Result<void> make_scenario(const LessonWorld& world, const Given& given, LessonScenario& out);
// Bits of a number in the cache: "bf16" 16, "fp8" 8, "int4" 4; 0 = not known.
int64_t kv_bits(std::string_view name);

}  // namespace ullage::observe
