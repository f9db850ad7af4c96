// A plan's answer for people: the verdict, a bar of the memory, tables, warnings.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "ullage/api/budget_bar.h"
#include "ullage/api/plan.h"
#include "ullage/api/text_table.h"
#include "ullage/base/units.h"

namespace ullage::api {
namespace {

using memory::Tier;

// "27.9 ms", "1.84 s", "6.1 min".
std::string duration(double seconds) {
  if (seconds < 0.1) return fmt::format("{:.2f} ms", seconds * 1e3);
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 120) return fmt::format("{:.2f} s", seconds);
  return fmt::format("{:.1f} min", seconds / 60);
}

std::string count(double value) {
  if (!(value < 9e18)) return fmt::format("{:.3g}", value);
  return format_thousands(static_cast<int64_t>(std::floor(value + 0.5)));
}

std::string percent(double share) { return fmt::format("{:.1f} %", share * 100); }

std::string billions(int64_t parameters) {
  const auto value = static_cast<double>(parameters);
  return value >= 1e9 ? fmt::format("{:.2f} B", value / 1e9) : fmt::format("{:.1f} M", value / 1e6);
}

std::string tier_text(Tier tier, Bytes error) {
  if (error.value == 0) return plan::tier_name(tier);
  return fmt::format("{} +- {}", plan::tier_name(tier), format_bytes(error));
}

std::string tier_text(Tier tier, double error) {
  if (error <= 0) return plan::tier_name(tier);
  return fmt::format("{} +- {:.0f} %", plan::tier_name(tier), error * 100);
}

std::string times(double value) { return value >= 100 ? fmt::format("{:.0f}x", value) : fmt::format("{:.1f}x", value); }

// Builds the text from top to bottom.
class PlanText {
 public:
  PlanText(const PlanAnswer& answer, const TextStyle& style)
      : answer_(answer), evaluation_(answer.evaluation), scenario_(answer.asked.scenario), style_(style) {}

  std::string text() {
    out_ = emphasis(answer_.verdict) + "\n";
    add_subject();
    add_budget();
    if (evaluation_.fit != plan::Fit::kWeightsTooLarge) add_capacity();
    if (evaluation_.fit == plan::Fit::kFits) {
      add_time();
      add_money();
    }
    add_targets();
    add_log_lines();
    add_warnings();
    add_derivation();
    return std::move(out_);
  }

 private:
  std::string emphasis(const std::string& text) const {
    return style_.has_colour ? "\033[1m" + text + "\033[0m" : text;
  }
  void heading(const std::string& text) { out_ += "\n" + emphasis(text) + "\n"; }

  void add_subject() {
    const model::Parallelism& parallelism = scenario_.parallelism;
    std::string division;
    if (parallelism.tensor > 1) division += fmt::format(", TP {}", parallelism.tensor);
    if (parallelism.pipeline > 1) division += fmt::format(", PP {}", parallelism.pipeline);
    if (parallelism.data > 1) division += fmt::format(", DP {}", parallelism.data);
    if (parallelism.has_expert_parallel) division += ", experts divided";
    std::string weights = scenario_.weight_format;
    if (scenario_.weights != plan::WeightPrecision::kAsStored) weights = plan::weight_precision_name(scenario_.weights);
    out_ += wrap_text(fmt::format("{}, {} parameters{}, on {} x {}{}; rules of {}", answer_.asked.model->name,
                                  billions(answer_.num_parameters), weights.empty() ? "" : " in " + weights,
                                  parallelism.num_devices(), scenario_.device->name, division, scenario_.profile->name),
                      style_.width, 0);
    for (const std::string& note : answer_.asked.notes) out_ += wrap_text(note, style_.width, 2, "  note: ");
  }

  void add_bar(const std::vector<BarPart>& parts) {
    const std::string bar = budget_bar(parts, std::clamp(style_.width - 4, 20, 100), style_.has_unicode);
    out_ += style_.has_unicode ? "  " + bar + "\n" : " [" + bar + "]\n";
  }

  std::string key(const BarPart& part) const {
    return style_.has_unicode ? std::string(part.unicode) : std::string(1, part.ascii);
  }

  void add_budget() {
    const plan::BudgetNumbers& budget = evaluation_.budget;
    if (scenario_.kv_memory) {
      heading(fmt::format("KV pool of one device: {} (given)", format_bytes(budget.kv_pool.bytes)));
      return;
    }
    heading(fmt::format("Memory of one device: {}, of which {} may be used ({})", format_bytes(budget.capacity),
                        format_bytes(budget.requested), percent(evaluation_.settings.gpu_memory_utilization)));
    const Bytes graphs = budget.are_graphs_subtracted ? budget.graphs.bytes : Bytes(0);
    const Bytes used = budget.weights.bytes + budget.adapters.bytes + budget.activations.bytes + graphs +
                       budget.runtime.bytes + budget.kv_pool.bytes;
    const Bytes unused = std::max(budget.capacity - used, Bytes(0));
    const std::vector<BarPart> parts = {{"weights", budget.weights.bytes, "\u2588", 'W'},
                                        {"adapters", budget.adapters.bytes, "\u2589", 'L'},
                                        {"activations", budget.activations.bytes, "\u2593", 'A'},
                                        {"CUDA graphs", graphs, "\u2592", 'G'},
                                        {"runtime", budget.runtime.bytes, "\u259A", 'R'},
                                        {"KV pool", budget.kv_pool.bytes, "\u2591", '.'},
                                        {"left to others", unused, "\u00B7", ' '}};
    if (budget.kv_pool.bytes.value > 0) add_bar(parts);
    const plan::Term* terms[] = {&budget.weights, &budget.adapters, &budget.activations,
                                 &budget.graphs,  &budget.runtime,  &budget.kv_pool};
    TextTable table({2, 3});
    for (size_t i = 0; i < parts.size(); ++i) {
      const bool is_term = i < std::size(terms);
      if (parts[i].bytes.value == 0 && !(is_term && i == 5)) continue;
      table.add({key(parts[i]), parts[i].name, format_bytes(parts[i].bytes),
                 percent(static_cast<double>(parts[i].bytes.value) / static_cast<double>(budget.capacity.value)),
                 is_term ? tier_text(terms[i]->tier, terms[i]->error) : ""});
    }
    out_ += table.text();
    if (!budget.are_graphs_subtracted && budget.graphs.bytes.value > 0) {
      out_ += wrap_text(fmt::format("CUDA graphs take {} beside: this version does not set them aside",
                                    format_bytes(budget.graphs.bytes)),
                        style_.width, 2);
    }
  }

  std::string group_text(const KvGroupAnswer& group) const {
    const std::string what =
        fmt::format("{} layers of {}{}", group.num_layers, group.kind,
                    group.window > 0 ? fmt::format(" ({} tokens)", format_thousands(group.window)) : "");
    return what;
  }

  void add_capacity() {
    const plan::Capacity& capacity = evaluation_.capacity;
    const plan::Settings& settings = evaluation_.settings;
    heading(fmt::format("Cache: {} blocks of {} tokens, KV in {}", format_thousands(capacity.num_blocks),
                        capacity.block_size, model::kv_dtype_name(settings.kv_dtype)));
    TextTable layers({1});
    for (const KvGroupAnswer& group : answer_.kv_groups) {
      layers.add({group_text(group), group.fixed_bytes > 0
                                         ? format_bytes(Bytes(group.fixed_bytes)) + " a request"
                                         : format_thousands(group.bytes_per_token) + " bytes a token"});
    }
    out_ += layers.text();
    TextTable table({1, 3});
    const bool is_dp = scenario_.parallelism.data > 1;
    table.add({"as the engine prints it", format_thousands(capacity.printed_tokens), "tokens",
               fmt::format("{:.2f}x", capacity.printed_concurrency),
               fmt::format("{} tokens", format_thousands(settings.max_model_len))});
    table.add({"usable", format_thousands(capacity.usable_tokens), "tokens",
               fmt::format("{}", format_thousands(capacity.usable_requests)),
               fmt::format("requests of {} tokens", format_thousands(settings.max_model_len))});
    table.add({"expected", "", "", format_thousands(capacity.expected_requests),
               fmt::format("requests of {} + {} tokens{}", count(scenario_.prompt_tokens),
                           count(scenario_.output_tokens), is_dp ? ", each replica" : "")});
    if (settings.p95_tokens != settings.mean_tokens) {
      table.add({"expected, p95", "", "", format_thousands(capacity.expected_requests_p95),
                 fmt::format("requests of {} tokens", format_thousands(settings.p95_tokens))});
    }
    if (capacity.contiguous_max_len_requests < capacity.expected_requests) {
      table.add({"without paging", "", "", format_thousands(capacity.contiguous_max_len_requests),
                 "requests, max_model_len reserved for each"});
    }
    out_ += table.text();
    out_ += wrap_text(
        fmt::format("one request holds {} ({} as blocks); the longest that fits has {} tokens",
                    format_bytes(Bytes(capacity.request_bytes)), format_bytes(Bytes(capacity.request_block_bytes)),
                    format_thousands(capacity.largest_context)),
        style_.width, 2);
  }

  void add_time() {
    const plan::Timing& timing = evaluation_.timing;
    if (!evaluation_.time_unknown.empty()) {
      heading("Time: not known");
      out_ += wrap_text(evaluation_.time_unknown, style_.width, 2);
      return;
    }
    heading(fmt::format("Time, {} requests running ({}): {}", format_thousands(evaluation_.running), limit_text(),
                        tier_text(timing.tier, timing.error)));
    TextTable table({1});
    table.add({"time to first token", duration(timing.ttft_seconds),
               fmt::format("{} when decodes run beside it; {}-bound", duration(timing.ttft_loaded_seconds),
                           plan::bound_name(timing.prefill.bound))});
    table.add({"inter-token latency", duration(timing.itl_seconds),
               fmt::format("{} in a step with a chunk of a prompt; {}-bound by {}", duration(timing.mixed_itl_seconds),
                           plan::bound_name(timing.decode.bound), times(timing.decode.margin))});
    table.add({"decoding", count(timing.decode_tokens_per_second), "tokens/s"});
    table.add({"sustained", count(timing.output_tokens_per_second),
               fmt::format("output tokens/s, {} input tokens/s, {:.3g} requests/s",
                           count(timing.input_tokens_per_second), timing.requests_per_second)});
    table.add({"a request takes", duration(timing.request_seconds), ""});
    const plan::StepAnswer& decode = timing.decode;
    table.add({"a decode step reads",
               format_bytes(
                   Bytes(static_cast<int64_t>(std::min(decode.cost.weight_bytes + decode.cost.kv_read_bytes, 9e18)))),
               fmt::format("weights {}, KV {}; DRAM active {}, tensor active {}", percent(decode.weight_share),
                           percent(decode.kv_share), percent(decode.dram_duty), percent(decode.tensor_duty))});
    if (decode.communication_share > 0) {
      table.add({"communication", percent(decode.communication_share), "of a decode step"});
    }
    if (evaluation_.experts_touched > 0) {
      table.add({"experts touched", percent(evaluation_.experts_touched), "of a layer's, by a decode step"});
    }
    out_ += table.text();
    add_crossovers();
  }

  std::string limit_text() const {
    switch (evaluation_.limit) {
      case plan::Limit::kArrivals:
        return "as many as asked";
      case plan::Limit::kMaxNumSeqs:
        return "max_num_seqs is the limit";
      case plan::Limit::kMemory:
        return "memory is the limit";
      case plan::Limit::kNothingFits:
        return "nothing fits";
    }
    return "";
  }

  void add_crossovers() {
    const plan::Crossovers& crossovers = answer_.crossovers;
    TextTable table({1});
    if (crossovers.kv_outweighs_weights_tokens > 0) {
      table.add({"KV outweighs weights", format_thousands(crossovers.kv_outweighs_weights_tokens),
                 "tokens in each running request, and more"});
    }
    if (crossovers.compute_bound_batch > 0) {
      table.add({"decode is compute-bound", format_thousands(crossovers.compute_bound_batch), "requests, and more"});
    }
    if (crossovers.bandwidth_bound_prompt > 0) {
      table.add({"prefill is bandwidth-bound", format_thousands(crossovers.bandwidth_bound_prompt),
                 "prompt tokens, and fewer"});
    }
    if (crossovers.free_prefill_tokens > 0) {
      table.add({"prompt tokens that ride free", format_thousands(crossovers.free_prefill_tokens), "on a decode step"});
    }
    if (crossovers.reload_break_even_tokens > 0) {
      table.add({"loading from the host wins", format_thousands(crossovers.reload_break_even_tokens),
                 "tokens of a prefix, and more"});
    }
    out_ += table.text();
  }

  void add_money() {
    if (evaluation_.money) {
      const plan::Money& money = *evaluation_.money;
      out_ += wrap_text(
          fmt::format("a million output tokens cost ${:.3f}, a million input tokens ${:.3f} ({:.1f} to 1); "
                      "a user's hour ${:.4f}",
                      money.per_million_output, money.per_million_input, money.output_over_input, money.per_user_hour),
          style_.width, 2);
    }
    if (evaluation_.load) {
      const plan::Load& load = *evaluation_.load;
      out_ += wrap_text(
          load.fits ? fmt::format("{:g} requests/s need {:.1f} of {} slots; {} stay for batch work; a queue starts at "
                                  "{:.3g} requests/s",
                                  scenario_.qps, load.needed_slots, format_thousands(load.ceiling_slots),
                                  format_thousands(load.idle_slots), load.max_qps)
                    : fmt::format("{:g} requests/s need {:.1f} slots and there are {}: the queue grows; {:.3g} "
                                  "requests/s are the most",
                                  scenario_.qps, load.needed_slots, format_thousands(load.ceiling_slots), load.max_qps),
          style_.width, 2);
    }
  }

  std::string goal_text(plan::GoalKind kind, double value) const {
    if (kind == plan::GoalKind::kTtft || kind == plan::GoalKind::kItl) return duration(value);
    return count(value);
  }

  void add_targets() {
    if (!answer_.inverse) return;
    const plan::InverseAnswer& inverse = *answer_.inverse;
    heading(inverse.is_met ? "Targets: met" : "Targets: not met");
    if (!inverse.sentence.empty()) out_ += wrap_text(inverse.sentence, style_.width, 2);
    TextTable table({1, 3});
    for (const plan::GoalState& goal : inverse.goals) {
      table.add({plan::goal_name(goal.kind), goal_text(goal.kind, goal.wanted), "wanted",
                 goal_text(goal.kind, goal.found), goal.is_met ? "found" : "found: missed",
                 goal.missing.value > 0 ? "by " + format_bytes(goal.missing) : ""});
    }
    out_ += table.text();
    add_smallest(inverse);
    if (inverse.is_met) return;
    TextTable changes({2, 3, 4});
    for (size_t i = 0; i < inverse.single_changes.size() && i < 8; ++i) add_change(inverse.single_changes[i], &changes);
    if (inverse.best_pair) add_change(*inverse.best_pair, &changes);
    out_ += changes.text();
  }

  void add_change(const plan::Change& change, TextTable* table) {
    std::string flags;
    for (const std::string& flag : change.flags) flags += (flags.empty() ? "" : " ") + flag;
    table->add({flags, change.meets_goal ? "meets them" : "not enough", format_thousands(change.users) + " users",
                "TTFT " + duration(change.ttft_seconds), "ITL " + duration(change.itl_seconds)});
  }

  void add_smallest(const plan::InverseAnswer& inverse) {
    std::string text;
    const auto append = [&text](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
    if (inverse.devices)
      append(
          fmt::format("{} device{}", inverse.devices->num_devices(), inverse.devices->num_devices() == 1 ? "" : "s"));
    if (inverse.gpu_memory_utilization) {
      append(fmt::format("--gpu-memory-utilization {:.2f}", *inverse.gpu_memory_utilization));
    }
    if (inverse.kv_memory && *inverse.kv_memory <= evaluation_.budget.capacity) {
      append(
          fmt::format("--kv-cache-memory-bytes {} ({})", inverse.kv_memory->value, format_bytes(*inverse.kv_memory)));
    }
    if (inverse.kv_dtype) append(fmt::format("--kv-cache-dtype {}", model::kv_dtype_name(*inverse.kv_dtype)));
    if (inverse.weights && *inverse.weights != plan::WeightPrecision::kAsStored)
      append(fmt::format("weights in {}", plan::weight_precision_name(*inverse.weights)));
    if (inverse.max_num_seqs) append(fmt::format("--max-num-seqs {}", *inverse.max_num_seqs));
    const char* start = inverse.is_met ? "each of these alone would still do: " : "each alone would do: ";
    if (!text.empty()) out_ += wrap_text(start + text, style_.width, 4, "  ");
  }

  void add_log_lines() {
    if (answer_.log_lines.empty()) return;
    heading("The engine would print");
    for (const std::string& line : answer_.log_lines) out_ += "  " + line + "\n";
  }

  void add_warnings() {
    if (answer_.warnings.empty()) return;
    out_ += "\n";
    for (const plan::Warning& warning : answer_.warnings) out_ += wrap_text(warning.sentence, style_.width, 2, "! ");
  }

  void add_derivation() {
    if (answer_.derivation.empty()) return;
    heading("How each figure comes about");
    for (const DerivationStep& step : answer_.derivation) {
      out_ += fmt::format("  {} = {}   {} [{}]\n", step.symbol, step.result, step.meaning, plan::tier_name(step.tier));
      if (!step.formula.empty()) out_ += wrap_text("= " + step.formula, style_.width, 6);
      if (!step.values.empty()) out_ += wrap_text("= " + step.values, style_.width, 6);
    }
  }

  const PlanAnswer& answer_;
  const plan::Evaluation& evaluation_;
  const plan::Scenario& scenario_;
  const TextStyle& style_;
  std::string out_;
};

}  // namespace

std::string plan_text(const PlanAnswer& answer, const TextStyle& style) { return PlanText(answer, style).text(); }

}  // namespace ullage::api
