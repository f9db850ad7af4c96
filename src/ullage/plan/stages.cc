#include "ullage/plan/stages.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include "ullage/cost/efficiency.h"
#include "ullage/memory/vllm_rules.h"
#include "ullage/plan/lesson.h"
#include "ullage/plan/overrides.h"

namespace ullage::plan {
namespace {

bool is_ideal(const Scenario& scenario) { return scenario.profile->engine == memory::Engine::kLesson; }

ModelPart::Key model_key(const Scenario& scenario, const Settings& settings) {
  ModelPart::Key key;
  key.loaded.shape = scenario.shape;
  key.loaded.dtype = resolve_dtype(scenario);
  key.loaded.has_dtype = scenario.dtype.has_value();
  key.loaded.weights = scenario.weights;
  key.loaded.weight_format = scenario.weight_format;
  key.loaded.force_mha = scenario.force_mha;
  key.loaded.num_kv_heads = scenario.num_kv_heads;
  key.profile = scenario.profile;
  key.parallelism = scenario.parallelism;
  key.kv_dtype = settings.kv_dtype;
  key.has_prefix_caching = scenario.has_prefix_caching && scenario.profile->has_prefix_caching;
  // This engine keeps every token of layers that look back over a window only (docs/serve.md).
  key.is_hybrid_disabled = scenario.is_hybrid_disabled || scenario.profile->engine == memory::Engine::kUllage;
  key.num_speculative_tokens = scenario.num_speculative_tokens;
  key.block_size = settings.block_size;
  key.adapters = scenario.adapters;
  return key;
}

bool has_latent(const model::ModelShape& shape) {
  for (const model::LayerShape& layer : shape.layers) {
    if (std::holds_alternative<model::LatentAttention>(layer.mixer)) return true;
  }
  return false;
}

memory::KvLayoutOptions layout_options(const ModelPart::Key& key, const model::ModelShape& shape) {
  memory::KvLayoutOptions options;
  options.block_size = key.block_size;
  options.kv_dtype = key.kv_dtype;
  options.tensor_parallel = key.parallelism.tensor;
  options.decode_context = key.parallelism.decode_context;
  options.num_speculative_tokens = key.num_speculative_tokens;
  options.has_prefix_caching = key.has_prefix_caching;
  options.has_group_size_exception = key.profile->has_group_size_exception;
  options.with_draft = key.num_speculative_tokens > 0;
  if (key.profile->engine == memory::Engine::kVllm) {
    constexpr std::string_view kPrefix = "vllm-";
    std::string_view version = key.profile->name;
    if (version.starts_with(kPrefix)) version.remove_prefix(kPrefix.size());
    memory::apply(memory::vllm_layout_rules(version), has_latent(shape), options);
  }
  options.is_hybrid_disabled = options.is_hybrid_disabled || key.is_hybrid_disabled;
  return options;
}

// Bytes of a block in the pipeline stage that keeps the most.
void measure_stages(ModelPart& part) {
  part.bytes_per_block = part.layout.bytes_per_block;
  const int64_t num_stages = part.key.parallelism.pipeline;
  if (num_stages <= 1) return;
  const std::vector<int64_t> stages = memory::stage_bytes_per_block(part.layout, part.loaded->shape, num_stages);
  part.bytes_per_block = *std::max_element(stages.begin(), stages.end());
  if (part.layout.bytes_per_block > 0) {
    part.stage_share = static_cast<double>(part.bytes_per_block) / static_cast<double>(part.layout.bytes_per_block);
  }
}

double expert_pick_share(const model::ModelShape& shape) {
  for (const model::LayerShape& layer : shape.layers) {
    const auto* moe = std::get_if<model::MoeFfn>(&layer.ffn);
    if (moe == nullptr || moe->num_experts < 1) continue;
    return static_cast<double>(moe->num_experts_per_token) / static_cast<double>(moe->num_experts);
  }
  return 0;
}

}  // namespace

Result<std::shared_ptr<const ShapePart>> Stages::shape_part(const ShapePart::Key& key, const Scenario& scenario) {
  for (const auto& known : shapes_) {
    if (known->key == key) return known;
  }
  auto part = std::make_shared<ShapePart>();
  part->key = key;
  ULLAGE_TRY(part->shape, with_overrides(scenario));
  part->memory = memory::make_model_memory(part->shape);
  part->costs = cost::make_model_costs(part->shape);
  part->expert_pick_share = expert_pick_share(part->shape);
  if (shapes_.size() >= kMaxParts) shapes_.erase(shapes_.begin());
  shapes_.push_back(part);
  return std::shared_ptr<const ShapePart>(std::move(part));
}

Result<const ModelPart*> Stages::model_part(const Scenario& scenario, const Settings& settings) {
  const ModelPart::Key key = model_key(scenario, settings);
  if (const ModelPart* known = models_.find([&](const ModelPart::Key& other) { return other == key; })) return known;
  ModelPart part;
  part.key = key;
  ULLAGE_TRY(part.loaded, shape_part(key.loaded, scenario));
  const model::ModelShape& shape = part.loaded->shape;
  ULLAGE_TRY_VOID(model::check_parallelism(shape, key.parallelism));
  const memory::KvLayoutOptions options = layout_options(key, shape);
  const bool has_draft = key.num_speculative_tokens > 0;
  part.kv_layers = memory::distinct_kv_layers(shape, has_draft);
  if (part.kv_layers.empty()) {
    return Error{ErrorCode::kUnsupported, "no layer of the model keeps anything; there is no cache to plan", "MODEL"};
  }
  ULLAGE_TRY(part.layout, memory::make_kv_layout(shape, options));
  ULLAGE_TRY(part.request, request_shape(part.kv_layers, options));
  measure_stages(part);
  part.adapters = adapter_bytes(shape, key.parallelism, key.adapters);
  if (has_draft && !shape.draft_layers.empty()) {
    const memory::RankWeights with = memory::rank_weights(part.loaded->memory, key.parallelism, true);
    const memory::RankWeights without = memory::rank_weights(part.loaded->memory, key.parallelism, false);
    part.draft_weight_bytes = static_cast<double>((with.total - without.total).value);
  }
  part.id = next_id_++;
  return models_.add(std::move(part));
}

Result<const CostPart*> Stages::cost_part(const Scenario& scenario, const ModelPart& model) {
  const CostPart* known = costs_.find([&](const CostPart::Key& key) {
    return key.model_id == model.id && key.device == scenario.device && key.efficiency == scenario.efficiency;
  });
  if (known != nullptr) return known;
  CostPart part;
  part.key = {.model_id = model.id, .device = scenario.device, .efficiency = scenario.efficiency};
  part.choice = choose_efficiency(scenario);
  if (!model.loaded->costs) {
    part.model = model.loaded->costs.error();
    return costs_.add(std::move(part));
  }
  cost::StepCostOptions options;
  options.kv_dtype = model.key.kv_dtype;
  options.parallelism = model.key.parallelism;
  options.efficiency = part.choice.efficiency;
  options.counts_all_parameters = is_ideal(scenario);
  part.model = cost::make_step_cost_model(*model.loaded->costs, *scenario.device, options);
  if (part.model && is_ideal(scenario)) idealise(lesson_weight_bytes(model.loaded->shape, scenario), *part.model);
  return costs_.add(std::move(part));
}

Result<const BudgetPart*> Stages::budget_part(const Scenario& scenario, const Settings& settings,
                                              const ModelPart& model) {
  BudgetPart part;
  part.key = {.model_id = model.id,
              .device = scenario.device,
              .gpu_memory_utilization = settings.gpu_memory_utilization,
              .max_model_len = settings.max_model_len,
              .max_num_seqs = settings.max_num_seqs,
              .max_num_batched_tokens = settings.max_num_batched_tokens,
              .has_graphs = scenario.has_graphs,
              .kv_memory = scenario.kv_memory,
              .activation_reserve = scenario.activation_reserve};
  const BudgetPart* known = budgets_.find([&](const BudgetPart::Key& key) { return key == part.key; });
  if (known != nullptr) return known;
  memory::BudgetInput input;
  input.shape = &model.loaded->shape;
  input.model = &model.loaded->memory;
  input.device = scenario.device;
  input.profile = scenario.profile;
  input.parallelism = scenario.parallelism;
  input.gpu_memory_utilization = settings.gpu_memory_utilization;
  input.max_model_len = settings.max_model_len;
  input.max_num_seqs = settings.max_num_seqs;
  // The idealised engine's steps have no bound; its reserve is that of a usual one.
  input.max_num_batched_tokens = is_ideal(scenario) ? 0 : settings.max_num_batched_tokens;
  input.has_graphs = scenario.has_graphs;
  input.with_draft = scenario.num_speculative_tokens > 0;
  input.kv_memory = scenario.kv_memory;
  input.activation_reserve = scenario.activation_reserve;
  // `ullage serve` takes the memory it is given for the cache only as far as it has it (memory/pool_size.h).
  const bool is_capped = scenario.profile->engine == memory::Engine::kUllage && scenario.kv_memory.has_value();
  if (is_capped) input.kv_memory.reset();
  ULLAGE_TRY(part.budget, memory::make_budget(input));
  memory::BudgetTerm& pool = part.budget.kv_pool;
  if (is_capped && *scenario.kv_memory < pool.bytes) {
    pool.bytes = *scenario.kv_memory;
    pool.tier = Tier::kGiven;
    pool.error = Bytes(0);
  }
  if (is_ideal(scenario)) {
    // Every parameter has the same number of bytes, embeddings too.
    const Bytes weights(static_cast<int64_t>(lesson_weight_bytes(model.loaded->shape, scenario)));
    if (!scenario.kv_memory)
      part.budget.kv_pool.bytes = part.budget.kv_pool.bytes + part.budget.weights.bytes - weights;
    part.budget.weights.bytes = weights;
  }
  part.input = input;
  return budgets_.add(std::move(part));
}

Result<Stages::Found> Stages::find(const Scenario& scenario, const Settings& settings) {
  Found found;
  ULLAGE_TRY(found.model, model_part(scenario, settings));
  ULLAGE_TRY(found.cost, cost_part(scenario, *found.model));
  ULLAGE_TRY(found.budget, budget_part(scenario, settings, *found.model));
  return found;
}

memory::MemoryBudget& Stages::explained(const BudgetPart& part) {
  explained_ = part.budget;
  memory::explain_budget(part.input, explained_);
  return explained_;
}

EfficiencyChoice choose_efficiency(const Scenario& scenario) {
  EfficiencyChoice out;
  if (scenario.efficiency) {
    out.efficiency = *scenario.efficiency;
    out.tier = Tier::kModelled;
    return out;
  }
  if (is_ideal(scenario)) {
    out.efficiency.bandwidth = kLessonBandwidthEfficiency;
    out.efficiency.matmul = kLessonMatmulEfficiency;
    return out;
  }
  std::string_view engine;
  if (scenario.profile->engine == memory::Engine::kVllm) engine = "vllm";
  if (scenario.profile->engine == memory::Engine::kSglang) engine = "sglang";
  const cost::Calibration& calibration = cost::find_calibration(engine, scenario.device->id);
  out.efficiency = calibration.efficiency;
  // Constants of other engines are no calibration of this one.
  if (engine.empty()) return out;
  out.tier = Tier::kCalibrated;
  out.error = calibration.tpot_error;
  out.ttft_error = calibration.ttft_error;
  out.ttft_overhead = calibration.ttft_overhead;
  out.ttft_wave = calibration.ttft_wave;
  return out;
}

}  // namespace ullage::plan
