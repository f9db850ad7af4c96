// The words of a budget: apart from its arithmetic, which must be fast.
#include <string>

#include <fmt/format.h>

#include "ullage/memory/activations.h"
#include "ullage/memory/budget.h"

namespace ullage::memory {
namespace {

std::string amount(double bytes) { return format_bytes(Bytes(static_cast<int64_t>(bytes))); }

std::string explain_weights(const BudgetInput& input, const ModelMemory& model, const MemoryBudget& budget) {
  const RankWeights w = stage_weights(model, input.parallelism, budget.stage, input.with_draft);
  std::string text = fmt::format("layers {}", format_bytes(w.layers));
  if (w.experts.value > 0) text += fmt::format(" + experts {}", format_bytes(w.experts));
  text += fmt::format(" + embedding and output head {}", format_bytes(w.embedding));
  if (w.other.value > 0) text += fmt::format(" + towers and draft {}", format_bytes(w.other));
  const int64_t tables = budget.weights.bytes.value - w.total.value;
  if (tables > 0) text += fmt::format(" + rotary tables {}", format_bytes(Bytes(tables)));
  if (!budget.are_weights_subtracted) text += "; mapped files, not taken from the pool's share";
  return text;
}

// "14 B x 1,024 requests x vocabulary 151,936 + ...": only what is in the sum.
std::string explain_activations(const BudgetInput& input, const ModelMemory& model, const MemoryBudget& budget) {
  if (input.activation_reserve) return "given";
  const BudgetSettings settings = budget_settings(input);
  const ActivationRule& rule = input.profile->activation;
  const bool is_micro = input.profile->engine == Engine::kLlamaCpp;
  const int64_t requests = is_micro ? settings.profiled_tokens : settings.max_num_seqs;
  const bool samples = budget.stage + 1 == input.parallelism.pipeline;
  const ActivationParts parts = activation_peak(rule, model,
                                                {.num_tokens = settings.profiled_tokens,
                                                 .max_num_seqs = requests,
                                                 .tensor_parallel = input.parallelism.tensor,
                                                 .samples = samples});
  const std::string tokens = format_thousands(settings.profiled_tokens);
  std::string text;
  const auto plus = [&](const std::string& part) { text += (text.empty() ? "" : " + ") + part; };
  if (!parts.is_sampler_larger) {
    plus(fmt::format("a feed-forward of {} tokens at width {} {}", tokens, format_thousands(model.intermediate_size),
                     amount(parts.feed_forward)));
  } else {
    if (parts.sampler > 0) {
      plus(fmt::format("logits {} B x {} {} x vocabulary {} {}", rule.logit_bytes, format_thousands(requests),
                       is_micro ? "tokens" : "requests", format_thousands(model.vocab_size), amount(parts.sampler)));
    }
    if (parts.hidden > 0) {
      plus(fmt::format("{} tokens x hidden {} {}", tokens, format_thousands(model.hidden_size), amount(parts.hidden)));
    }
  }
  if (parts.expert_workspace > 0) {
    plus(fmt::format("workspaces of {} experts a token {}", model.experts_per_token, amount(parts.expert_workspace)));
  }
  if (parts.tower_outputs > 0) plus(fmt::format("encoded images {}", amount(parts.tower_outputs)));
  if (parts.constant > 0) plus(fmt::format("libraries' workspaces {}", amount(parts.constant)));
  return text.empty() ? "none" : text;
}

std::string explain_runtime(const BudgetInput& input, const ModelMemory& model, const MemoryBudget& budget) {
  const RuntimeRule& rule = input.profile->runtime;
  if (budget.runtime.bytes.value == 0) return "none";
  const bool samples = budget.stage + 1 == input.parallelism.pipeline;
  std::string text = fmt::format("libraries and kernels {}", format_bytes(samples ? rule.alone : rule.before_sampler));
  if (input.parallelism.tensor > 1) {
    const bool has_link = input.device->link_bandwidth > 0;
    text += fmt::format(" + communication of {} ranks over {} from {}", input.parallelism.tensor,
                        has_link ? "links" : "PCIe", format_bytes(has_link ? rule.peers_by_link : rule.peers_by_pcie));
  }
  if (samples && model.vocab_size % 4 != 0 && rule.unaligned_logits.value > 0) {
    text += fmt::format(" + kernels for rows of {} logits, no multiple of 4, {}", format_thousands(model.vocab_size),
                        format_bytes(rule.unaligned_logits));
  }
  if (input.device->category == "integrated" && rule.on_shared_memory.value > 0) {
    text +=
        fmt::format(" + the context, which counts where memory is the host's, {}", format_bytes(rule.on_shared_memory));
  }
  return text;
}

std::string explain_graphs(const BudgetInput& input, const MemoryBudget& budget) {
  if (budget.graphs.bytes.value == 0) return "none";
  return fmt::format("{} graphs of {}{}", num_captured_graphs(budget_settings(input).max_num_seqs),
                     format_bytes(input.profile->graph_bytes),
                     budget.are_graphs_subtracted ? "" : "; captured later, not taken from the pool");
}

std::string explain_pool(const BudgetInput& input, const MemoryBudget& budget) {
  if (input.kv_memory) return "given";
  std::string text = fmt::format("{:g} x {}", budget_settings(input).utilization, format_bytes(budget.capacity));
  if (budget.are_weights_subtracted) text += " - weights";
  if (budget.activations.bytes.value > 0) text += " - activations";
  if (budget.are_graphs_subtracted && budget.graphs.bytes.value > 0) text += " - graphs";
  if (budget.runtime.bytes.value > 0) text += " - runtime";
  if (budget.kv_pool.bytes.value <= 0) {
    text += fmt::format(": {} too little", format_bytes(Bytes(-budget.kv_pool.bytes.value)));
  }
  return text;
}

}  // namespace

void explain_budget(const BudgetInput& input, MemoryBudget& budget) {
  if (input.model == nullptr) {
    const ModelMemory model = make_model_memory(*input.shape);
    BudgetInput with_model = input;
    with_model.model = &model;
    return explain_budget(with_model, budget);
  }
  budget.weights.rule = explain_weights(input, *input.model, budget);
  budget.activations.rule = explain_activations(input, *input.model, budget);
  budget.graphs.rule = explain_graphs(input, budget);
  budget.runtime.rule = explain_runtime(input, *input.model, budget);
  budget.kv_pool.rule = explain_pool(input, budget);
}

}  // namespace ullage::memory
