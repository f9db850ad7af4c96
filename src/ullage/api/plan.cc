#include "ullage/api/plan.h"

#include <utility>
#include <variant>

#include <fmt/format.h>

#include "ullage/base/units.h"

namespace ullage::api {
namespace {

struct SpecName {
  const char* operator()(const model::FullAttentionKv&) const { return "full attention"; }
  const char* operator()(const model::LatentKv&) const { return "latent"; }
  const char* operator()(const model::SlidingWindowKv&) const { return "sliding window"; }
  const char* operator()(const model::ChunkedLocalKv&) const { return "chunked local"; }
  const char* operator()(const model::RecurrentState&) const { return "recurrent state"; }
  const char* operator()(const model::IndexerKv&) const { return "sparse indexer"; }
  const char* operator()(const model::CrossAttentionKv&) const { return "cross-attention"; }
  const char* operator()(const model::SharedKv&) const { return "shared"; }
  const char* operator()(const model::NoKv&) const { return "none"; }
};

int64_t window_of(const model::KvSpec& spec) {
  if (const auto* window = std::get_if<model::SlidingWindowKv>(&spec)) return window->window;
  if (const auto* local = std::get_if<model::ChunkedLocalKv>(&spec)) return local->chunk;
  return 0;
}

}  // namespace

const char* fit_name(plan::Fit fit) {
  switch (fit) {
    case plan::Fit::kFits:
      return "fits";
    case plan::Fit::kWeightsTooLarge:
      return "weights_too_large";
    case plan::Fit::kRequestTooLarge:
      return "request_too_large";
  }
  return "fits";
}

std::vector<KvGroupAnswer> describe_kv_groups(const memory::KvLayout& layout) {
  std::vector<KvGroupAnswer> answers;
  for (const memory::BlockGroup& group : layout.groups) {
    KvGroupAnswer answer;
    answer.kind = std::visit(SpecName{}, group.spec);
    answer.num_layers = group.num_layers;
    answer.block_size = group.block_size;
    answer.window = window_of(group.spec);
    const int64_t page_bytes = group.page_size_bytes * group.num_layers;
    if (std::holds_alternative<model::RecurrentState>(group.spec)) {
      answer.fixed_bytes = page_bytes;
    } else if (group.block_size > 0) {
      answer.bytes_per_token = page_bytes / group.block_size;
    }
    // Engines cut alike layers into groups of one size; for people they are one line.
    KvGroupAnswer* last = answers.empty() ? nullptr : &answers.back();
    if (last != nullptr && last->kind == answer.kind && last->window == answer.window &&
        last->block_size == answer.block_size) {
      last->num_layers += answer.num_layers;
      last->bytes_per_token += answer.bytes_per_token;
      last->fixed_bytes += answer.fixed_bytes;
    } else {
      answers.push_back(std::move(answer));
    }
  }
  return answers;
}

namespace {

// The rules in words. Those of an idealised engine have none: its terms are inputs.
void explain_terms(const plan::Scenario& scenario, const plan::Settings& settings, const model::ModelShape& shape,
                   memory::MemoryBudget& budget) {
  if (scenario.profile->engine == memory::Engine::kLesson) return;
  memory::BudgetInput input;
  input.shape = &shape;
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
  memory::explain_budget(input, budget);
}

}  // namespace

Result<PlanAnswer> plan(const PlanInput& input, const PlanOptions& options) {
  PlanAnswer answer;
  DeviceShelf shelf;
  ULLAGE_TRY(answer.asked, make_scenario(input, shelf));
  const plan::Scenario& scenario = answer.asked.scenario;
  plan::Planner planner;
  ULLAGE_TRY(answer.evaluation, planner.evaluate(scenario));
  answer.verdict = plan::verdict(scenario, answer.evaluation);
  answer.warnings = plan::warnings(scenario, answer.evaluation);
  answer.num_parameters = model::count_parameters(answer.asked.model->shape).total();
  ULLAGE_TRY(answer.crossovers, planner.crossovers(scenario));
  if (answer.asked.has_goal) {
    ULLAGE_TRY(answer.inverse, plan::answer_goal(planner, scenario, answer.asked.goal));
  }
  ULLAGE_TRY(const plan::Planner::Parts parts, planner.parts(scenario));
  answer.budget = *parts.budget;
  explain_terms(scenario, answer.evaluation.settings, *parts.shape, answer.budget);
  answer.kv_groups = describe_kv_groups(*parts.layout);
  answer.log_lines = engine_log_lines(answer, *parts.layout);
  if (options.has_derivation) answer.derivation = derive(answer, parts);
  return answer;
}

}  // namespace ullage::api
