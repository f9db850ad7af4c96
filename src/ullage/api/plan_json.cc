// A plan's answer as JSON. docs/plan-json.md documents every field.
#include <string>
#include <utility>

#include "ullage/api/plan.h"
#include "ullage/base/json.h"
#include "ullage/base/units.h"

namespace ullage::api {
namespace {

Json term_json(const plan::Term& term, const memory::BudgetTerm* rule) {
  Json json = {{"bytes", term.bytes.value}, {"tier", plan::tier_name(term.tier)}};
  if (term.error.value != 0) json["error_bytes"] = term.error.value;
  if (rule != nullptr && !rule->rule.empty()) json["rule"] = rule->rule;
  return json;
}

Json budget_json(const PlanAnswer& answer) {
  const plan::BudgetNumbers& budget = answer.evaluation.budget;
  Json json = {{"capacity_bytes", budget.capacity.value}, {"requested_bytes", budget.requested.value}};
  json["weights"] = term_json(budget.weights, &answer.budget.weights);
  if (budget.adapters.bytes.value != 0) json["adapters"] = term_json(budget.adapters, nullptr);
  json["activations"] = term_json(budget.activations, &answer.budget.activations);
  json["graphs"] = term_json(budget.graphs, &answer.budget.graphs);
  json["graphs"]["is_subtracted"] = budget.are_graphs_subtracted;
  json["runtime"] = term_json(budget.runtime, &answer.budget.runtime);
  json["kv_pool"] = term_json(budget.kv_pool, &answer.budget.kv_pool);
  json["total_kv_pool_bytes"] = budget.total_kv_pool.value;
  return json;
}

Json capacity_json(const PlanAnswer& answer) {
  const plan::Capacity& capacity = answer.evaluation.capacity;
  Json json = {{"tier", plan::tier_name(answer.evaluation.budget.kv_pool.tier)},
               {"num_blocks", capacity.num_blocks},
               {"block_size", capacity.block_size},
               {"bytes_per_block", capacity.bytes_per_block},
               {"num_groups", capacity.num_groups}};
  json["printed"] = {{"tokens", capacity.printed_tokens}, {"concurrency", capacity.printed_concurrency}};
  json["usable"] = {{"tokens", capacity.usable_tokens}, {"requests", capacity.usable_requests}};
  json["expected"] = {{"requests", capacity.expected_requests},
                      {"requests_p95", capacity.expected_requests_p95},
                      {"steady_requests", capacity.steady_requests},
                      {"total_requests", capacity.total_expected_requests}};
  json["contiguous"] = {{"requests", capacity.contiguous_requests},
                        {"requests_at_max_model_len", capacity.contiguous_max_len_requests}};
  json["request"] = {{"bytes_per_token", capacity.bytes_per_token},
                     {"fixed_bytes", capacity.fixed_bytes},
                     {"bytes", capacity.request_bytes},
                     {"block_bytes", capacity.request_block_bytes},
                     {"shared_prefix_blocks", capacity.shared_prefix_blocks}};
  json["largest_context"] = capacity.largest_context;
  json["largest_batch"] = capacity.largest_batch;
  Json groups = Json::array();
  for (const KvGroupAnswer& group : answer.kv_groups) {
    groups.push_back({{"kind", group.kind},
                      {"num_layers", group.num_layers},
                      {"block_size", group.block_size},
                      {"bytes_per_token", group.bytes_per_token},
                      {"fixed_bytes", group.fixed_bytes},
                      {"window", group.window}});
  }
  json["groups"] = std::move(groups);
  return json;
}

Json step_json(const plan::StepAnswer& step) {
  return {{"seconds", step.cost.seconds},
          {"bound", plan::bound_name(step.bound)},
          {"margin", step.margin},
          {"memory_seconds", step.cost.memory_seconds},
          {"compute_seconds", step.cost.compute_seconds},
          {"communication_seconds", step.cost.communication_seconds},
          {"overhead_seconds", step.cost.overhead_seconds},
          {"weight_bytes", step.cost.weight_bytes},
          {"kv_read_bytes", step.cost.kv_read_bytes},
          {"kv_write_bytes", step.cost.kv_write_bytes},
          {"flops", step.cost.linear_flops + step.cost.attention_flops},
          {"communication_bytes", step.cost.communication_bytes},
          {"flops_per_byte", step.flops_per_byte},
          {"weight_share", step.weight_share},
          {"kv_share", step.kv_share},
          {"communication_share", step.communication_share},
          {"tensor_duty", step.tensor_duty},
          {"dram_duty", step.dram_duty},
          {"bandwidth_use", step.bandwidth_use}};
}

Json timing_json(const plan::Timing& timing) {
  Json json = {{"tier", plan::tier_name(timing.tier)}};
  if (timing.error > 0) json["error"] = timing.error;
  if (timing.ttft_error > 0) json["ttft_error"] = timing.ttft_error;
  json["ttft_seconds"] = timing.ttft_seconds;
  json["ttft_uncached_seconds"] = timing.ttft_uncached_seconds;
  json["ttft_loaded_seconds"] = timing.ttft_loaded_seconds;
  json["itl_seconds"] = timing.itl_seconds;
  json["mixed_itl_seconds"] = timing.mixed_itl_seconds;
  json["step_seconds"] = timing.step_seconds;
  json["tokens_per_step"] = timing.tokens_per_step;
  json["decode_tokens_per_second"] = timing.decode_tokens_per_second;
  json["output_tokens_per_second"] = timing.output_tokens_per_second;
  json["input_tokens_per_second"] = timing.input_tokens_per_second;
  json["requests_per_second"] = timing.requests_per_second;
  json["request_seconds"] = timing.request_seconds;
  json["static_output_tokens_per_second"] = timing.static_output_tokens_per_second;
  json["prefill"] = step_json(timing.prefill);
  json["decode"] = step_json(timing.decode);
  return json;
}

Json asked_json(const PlanAnswer& answer) {
  const plan::Scenario& scenario = answer.asked.scenario;
  const plan::Settings& settings = answer.evaluation.settings;
  Json json;
  json["model"] = {{"name", answer.asked.model->name},
                   {"source", answer.asked.model->source},
                   {"architecture", answer.asked.model->shape.architecture},
                   {"parameters", answer.num_parameters},
                   {"num_layers", answer.asked.model->shape.layers.size()}};
  json["device"] = {{"id", scenario.device->id},
                    {"name", scenario.device->name},
                    {"memory_bytes", scenario.device->usable_memory.value},
                    {"bandwidth", scenario.device->bandwidth},
                    {"bf16_flops", scenario.device->flops.bf16}};
  json["num_devices"] = scenario.parallelism.num_devices();
  json["policy"] = std::string(scenario.profile->name);
  json["parallelism"] = {{"tensor", scenario.parallelism.tensor},
                         {"pipeline", scenario.parallelism.pipeline},
                         {"data", scenario.parallelism.data},
                         {"has_expert_parallel", scenario.parallelism.has_expert_parallel}};
  json["settings"] = {{"weights", scenario.weight_format.empty() ? plan::weight_precision_name(scenario.weights)
                                                                 : scenario.weight_format},
                      {"kv_cache_dtype", model::kv_dtype_name(settings.kv_dtype)},
                      {"gpu_memory_utilization", settings.gpu_memory_utilization},
                      {"block_size", settings.block_size},
                      {"max_model_len", settings.max_model_len},
                      {"max_num_seqs", settings.max_num_seqs},
                      {"max_num_batched_tokens", settings.max_num_batched_tokens},
                      {"speculative_tokens", scenario.num_speculative_tokens}};
  json["requests"] = {{"prompt_tokens", scenario.prompt_tokens},
                      {"output_tokens", scenario.output_tokens},
                      {"mean_tokens", settings.mean_tokens},
                      {"p95_tokens", settings.p95_tokens},
                      {"shared_prefix_tokens", scenario.shared_prefix_tokens},
                      {"concurrency", scenario.concurrency}};
  return json;
}

Json change_json(const plan::Change& change) {
  return {{"flags", change.flags},
          {"meets_goal", change.meets_goal},
          {"shortfall", change.shortfall},
          {"users", change.users},
          {"largest_context", change.largest_context},
          {"ttft_seconds", change.ttft_seconds},
          {"itl_seconds", change.itl_seconds}};
}

Json targets_json(const plan::InverseAnswer& inverse) {
  Json json = {{"is_met", inverse.is_met}, {"sentence", inverse.sentence}};
  Json goals = Json::array();
  for (const plan::GoalState& goal : inverse.goals) {
    goals.push_back({{"goal", plan::goal_name(goal.kind)},
                     {"wanted", goal.wanted},
                     {"found", goal.found},
                     {"is_met", goal.is_met},
                     {"missing_bytes", goal.missing.value}});
  }
  json["goals"] = std::move(goals);
  Json smallest = Json::object();
  if (inverse.devices) {
    smallest["devices"] = {{"count", inverse.devices->num_devices()},
                           {"tensor", inverse.devices->tensor},
                           {"pipeline", inverse.devices->pipeline},
                           {"data", inverse.devices->data}};
  }
  if (inverse.gpu_memory_utilization) smallest["gpu_memory_utilization"] = *inverse.gpu_memory_utilization;
  if (inverse.kv_memory) smallest["kv_memory_bytes"] = inverse.kv_memory->value;
  if (inverse.kv_dtype) smallest["kv_cache_dtype"] = model::kv_dtype_name(*inverse.kv_dtype);
  if (inverse.weights) smallest["weights"] = plan::weight_precision_name(*inverse.weights);
  if (inverse.max_num_seqs) smallest["max_num_seqs"] = *inverse.max_num_seqs;
  json["smallest"] = std::move(smallest);
  Json singles = Json::array();
  for (const plan::Change& change : inverse.single_changes) singles.push_back(change_json(change));
  json["single_changes"] = std::move(singles);
  if (inverse.best_pair) json["best_pair"] = change_json(*inverse.best_pair);
  return json;
}

Json derivation_json(const std::vector<DerivationStep>& steps) {
  Json json = Json::array();
  for (const DerivationStep& step : steps) {
    json.push_back({{"symbol", step.symbol},
                    {"meaning", step.meaning},
                    {"formula", step.formula},
                    {"values", step.values},
                    {"result", step.result},
                    {"tier", plan::tier_name(step.tier)}});
  }
  return json;
}

}  // namespace

std::string plan_json(const PlanAnswer& answer, int indent) {
  const plan::Evaluation& evaluation = answer.evaluation;
  Json json = {{"schema_version", kPlanSchemaVersion}, {"kind", "plan"}, {"verdict", answer.verdict}};
  json["fit"] = fit_name(evaluation.fit);
  if (evaluation.short_by.value != 0) json["short_by_bytes"] = evaluation.short_by.value;
  json["asked"] = asked_json(answer);
  json["budget"] = budget_json(answer);
  json["capacity"] = capacity_json(answer);
  json["batch"] = {{"limit", plan::limit_name(evaluation.limit)},
                   {"running", evaluation.running},
                   {"waiting", evaluation.waiting},
                   {"experts_touched", evaluation.experts_touched}};
  if (evaluation.time_unknown.empty()) {
    json["timing"] = timing_json(evaluation.timing);
  } else {
    json["timing"] = {{"unknown", evaluation.time_unknown}};
  }
  json["crossovers"] = {{"ridge_flops_per_byte", answer.crossovers.ridge_flops_per_byte},
                        {"kv_outweighs_weights_tokens", answer.crossovers.kv_outweighs_weights_tokens},
                        {"compute_bound_batch", answer.crossovers.compute_bound_batch},
                        {"bandwidth_bound_prompt", answer.crossovers.bandwidth_bound_prompt},
                        {"free_prefill_tokens", answer.crossovers.free_prefill_tokens},
                        {"reload_break_even_tokens", answer.crossovers.reload_break_even_tokens},
                        {"reload_seconds", answer.crossovers.reload_seconds},
                        {"recompute_seconds", answer.crossovers.recompute_seconds}};
  if (evaluation.money) {
    json["money"] = {{"per_million_input", evaluation.money->per_million_input},
                     {"per_million_output", evaluation.money->per_million_output},
                     {"output_over_input", evaluation.money->output_over_input},
                     {"per_user_hour", evaluation.money->per_user_hour}};
  }
  if (evaluation.load) {
    json["load"] = {{"needed_slots", evaluation.load->needed_slots},
                    {"ceiling_slots", evaluation.load->ceiling_slots},
                    {"idle_slots", evaluation.load->idle_slots},
                    {"max_qps", evaluation.load->max_qps},
                    {"load", evaluation.load->load},
                    {"fits", evaluation.load->fits}};
  }
  if (answer.inverse) json["targets"] = targets_json(*answer.inverse);
  Json warnings = Json::array();
  for (const plan::Warning& warning : answer.warnings) {
    warnings.push_back({{"code", warning.code}, {"sentence", warning.sentence}});
  }
  json["warnings"] = std::move(warnings);
  json["notes"] = answer.asked.notes;
  json["log_lines"] = answer.log_lines;
  if (!answer.derivation.empty()) json["derivation"] = derivation_json(answer.derivation);
  return dump_json(json, indent);
}

std::string error_json(const Error& error) {
  return dump_json({{"schema_version", kPlanSchemaVersion},
                    {"kind", "error"},
                    {"error", {{"code", to_string(error.code)}, {"message", error.message}, {"where", error.where}}}});
}

}  // namespace ullage::api
