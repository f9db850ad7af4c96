#include "ullage/plan/stages.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "ullage/plan/lesson.h"
#include "ullage/plan/overrides.h"

namespace ullage::plan {
namespace {

bool is_ideal(const Scenario& scenario) { return scenario.profile->engine == memory::Engine::kLesson; }

bool same_efficiency(const std::optional<cost::Efficiency>& a, const std::optional<cost::Efficiency>& b) {
  if (a.has_value() != b.has_value()) return false;
  if (!a) return true;
  return a->bandwidth == b->bandwidth && a->matmul == b->matmul && a->attention == b->attention && a->link == b->link &&
         a->link_latency == b->link_latency && a->step_overhead == b->step_overhead;
}

ModelPart::Key model_key(const Scenario& scenario, const Settings& settings) {
  ModelPart::Key key;
  key.shape = scenario.shape;
  key.profile = scenario.profile;
  key.parallelism = scenario.parallelism;
  key.kv_dtype = settings.kv_dtype;
  key.weights = scenario.weights;
  key.weight_format = scenario.weight_format;
  key.force_mha = scenario.force_mha;
  key.has_prefix_caching = scenario.has_prefix_caching && scenario.profile->has_prefix_caching;
  // This engine keeps every token of layers that look back over a window only (docs/serve.md).
  key.is_hybrid_disabled = scenario.is_hybrid_disabled || scenario.profile->engine == memory::Engine::kUllage;
  key.num_kv_heads = scenario.num_kv_heads;
  key.num_speculative_tokens = scenario.num_speculative_tokens;
  key.block_size = settings.block_size;
  key.adapters = scenario.adapters;
  return key;
}

memory::KvLayoutOptions layout_options(const ModelPart::Key& key) {
  memory::KvLayoutOptions options;
  options.block_size = key.block_size;
  options.kv_dtype = key.kv_dtype;
  options.tensor_parallel = key.parallelism.tensor;
  options.num_speculative_tokens = key.num_speculative_tokens;
  options.has_prefix_caching = key.has_prefix_caching;
  options.has_group_size_exception = key.profile->has_group_size_exception;
  options.is_hybrid_disabled = key.is_hybrid_disabled;
  return options;
}

// Bytes of a block, and of a request, in the pipeline stage that keeps the most. Draft layers are on the last stage.
Result<void> measure_stages(ModelPart& part, const memory::KvLayoutOptions& options) {
  part.bytes_per_block = part.layout.bytes_per_block;
  part.fullest_stage = part.request;
  const int64_t num_stages = part.key.parallelism.pipeline;
  if (num_stages <= 1) return {};
  part.bytes_per_block = 0;
  const std::span<const model::LayerShape> all(part.shape.layers);
  for (int64_t stage = 0; stage < num_stages; ++stage) {
    const model::LayerRange range = model::stage_layers(static_cast<int64_t>(all.size()), num_stages, stage);
    std::vector<memory::KvLayers> layers =
        collapse_layers(all.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.end - range.begin)));
    if (stage == num_stages - 1 && options.num_speculative_tokens > 0) add_layers(layers, part.shape.draft_layers);
    if (layers.empty()) continue;
    ULLAGE_TRY(const memory::KvLayout layout, memory::make_kv_layout(layers, options));
    if (layout.bytes_per_block <= part.bytes_per_block) continue;
    part.bytes_per_block = layout.bytes_per_block;
    part.fullest_stage = request_shape(layers, options);
  }
  return {};
}

// Ranks of tensor parallelism that keep different parts of a token: latents and heads beyond the model's are copies.
int64_t distinct_ranks(std::span<const memory::KvLayers> layers, int64_t tensor) {
  int64_t most = 1;
  for (const memory::KvLayers& kind : layers) {
    int64_t heads = 1;
    if (const auto* full = std::get_if<model::FullAttentionKv>(&kind.spec)) heads = full->num_kv_heads;
    if (const auto* window = std::get_if<model::SlidingWindowKv>(&kind.spec)) heads = window->kv.num_kv_heads;
    if (const auto* local = std::get_if<model::ChunkedLocalKv>(&kind.spec)) heads = local->kv.num_kv_heads;
    if (const auto* state = std::get_if<model::RecurrentState>(&kind.spec)) heads = state->num_heads;
    most = std::max(most, std::min(heads, tensor));
  }
  return most;
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

Result<const ModelPart*> Stages::model_part(const Scenario& scenario, const Settings& settings) {
  const ModelPart::Key key = model_key(scenario, settings);
  if (const ModelPart* known = models_.find([&](const ModelPart::Key& other) { return other == key; })) return known;
  ModelPart part;
  part.key = key;
  ULLAGE_TRY(part.shape, with_overrides(scenario));
  ULLAGE_TRY_VOID(model::check_parallelism(part.shape, key.parallelism));
  const memory::KvLayoutOptions options = layout_options(key);
  part.kv_layers = collapse_layers(part.shape.layers);
  const bool has_draft = key.num_speculative_tokens > 0;
  if (has_draft) add_layers(part.kv_layers, part.shape.draft_layers);
  if (part.kv_layers.empty()) {
    return Error{ErrorCode::kUnsupported, "no layer of the model keeps anything; there is no cache to plan", "MODEL"};
  }
  ULLAGE_TRY(part.layout, memory::make_kv_layout(part.kv_layers, options));
  part.request = request_shape(part.kv_layers, options);
  ULLAGE_TRY_VOID(measure_stages(part, options));
  part.max_ranks_per_token = distinct_ranks(part.kv_layers, key.parallelism.tensor);
  part.adapters = adapter_bytes(part.shape, key.parallelism, key.adapters);
  if (has_draft && !part.shape.draft_layers.empty()) {
    const memory::RankWeights with = memory::rank_weights(part.shape, key.parallelism, true);
    const memory::RankWeights without = memory::rank_weights(part.shape, key.parallelism, false);
    part.draft_weight_bytes = static_cast<double>((with.total - without.total).value);
  }
  part.expert_pick_share = expert_pick_share(part.shape);
  part.id = next_id_++;
  return models_.add(std::move(part));
}

Result<const CostPart*> Stages::cost_part(const Scenario& scenario, const ModelPart& model) {
  const CostPart* known = costs_.find([&](const CostPart::Key& key) {
    return key.model_id == model.id && key.device == scenario.device &&
           same_efficiency(key.efficiency, scenario.efficiency);
  });
  if (known != nullptr) return known;
  CostPart part;
  part.key = {.model_id = model.id, .device = scenario.device, .efficiency = scenario.efficiency};
  const EfficiencyChoice choice = choose_efficiency(scenario);
  part.efficiency = choice.efficiency;
  part.tier = choice.tier;
  part.error = choice.error;
  if (is_ideal(scenario)) {
    part.model = lesson_cost_model(model.shape, scenario, model.kv_layers, model.layout.options, choice.efficiency);
  } else {
    cost::StepCostOptions options;
    options.kv_dtype = model.key.kv_dtype;
    options.parallelism = model.key.parallelism;
    options.efficiency = choice.efficiency;
    ULLAGE_TRY(part.model, cost::make_step_cost_model(model.shape, *scenario.device, options));
  }
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
  if (is_ideal(scenario)) {
    part.budget = lesson_budget(model.shape, scenario, settings);
    return budgets_.add(std::move(part));
  }
  memory::BudgetInput input;
  input.shape = &model.shape;
  input.device = scenario.device;
  input.profile = scenario.profile;
  input.parallelism = scenario.parallelism;
  input.gpu_memory_utilization = settings.gpu_memory_utilization;
  input.max_model_len = settings.max_model_len;
  input.max_num_seqs = settings.max_num_seqs;
  input.max_num_batched_tokens = settings.max_num_batched_tokens;
  input.has_graphs = scenario.has_graphs;
  input.with_draft = scenario.num_speculative_tokens > 0;
  input.kv_memory = scenario.kv_memory;
  input.activation_reserve = scenario.activation_reserve;
  ULLAGE_TRY(part.budget, memory::make_budget(input));
  return budgets_.add(std::move(part));
}

Result<Stages::Found> Stages::find(const Scenario& scenario, const Settings& settings) {
  Found found;
  ULLAGE_TRY(found.model, model_part(scenario, settings));
  ULLAGE_TRY(found.cost, cost_part(scenario, *found.model));
  ULLAGE_TRY(found.budget, budget_part(scenario, settings, *found.model));
  return found;
}

EfficiencyChoice choose_efficiency(const Scenario& scenario) {
  if (scenario.efficiency) return {.efficiency = *scenario.efficiency, .tier = Tier::kGiven, .error = 0};
  EfficiencyChoice out;
  if (is_ideal(scenario)) {
    out.efficiency.bandwidth = kLessonBandwidthEfficiency;
    out.efficiency.matmul = kLessonMatmulEfficiency;
    return out;
  }
  out.efficiency.bandwidth = 0.75;
  out.efficiency.matmul = 0.55;
  out.efficiency.link = 0.7;
  out.efficiency.link_latency = 10e-6;
  out.efficiency.step_overhead = 1e-3;
  return out;
}

}  // namespace ullage::plan
