// How each figure of a plan comes about: symbol, formula, the numbers put in, the result with its unit.
#include <fmt/format.h>

#include "ullage/api/plan.h"
#include "ullage/base/units.h"

namespace ullage::api {
namespace {

using memory::Tier;

std::string gib(Bytes bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes.value) / static_cast<double>(kGiB));
}
std::string gib_unit(Bytes bytes) { return gib(bytes) + " GiB"; }
std::string number(double value) {
  return value < 9e18 ? format_thousands(static_cast<int64_t>(value)) : fmt::format("{:.4g}", value);
}
std::string milliseconds(double seconds) { return fmt::format("{:.2f} ms", seconds * 1e3); }

// Collects the steps in order.
class Derivation {
 public:
  Derivation(const PlanAnswer& answer, const plan::Planner::Parts& parts)
      : answer_(answer), parts_(parts), evaluation_(answer.evaluation), scenario_(answer.asked.scenario) {}

  std::vector<DerivationStep> derive() {
    add_budget();
    add_layout();
    if (evaluation_.fit == plan::Fit::kFits) {
      add_capacity();
      if (parts_.cost_model != nullptr) add_times();
    }
    return std::move(steps_);
  }

 private:
  void add(std::string symbol, std::string meaning, std::string formula, std::string values, std::string result,
           Tier tier) {
    steps_.push_back(
        {std::move(symbol), std::move(meaning), std::move(formula), std::move(values), std::move(result), tier});
  }

  void add_term(const char* symbol, const char* meaning, const memory::BudgetTerm& term) {
    add(symbol, meaning, term.rule, "", gib_unit(term.bytes), term.tier);
  }

  void add_budget() {
    const plan::BudgetNumbers& budget = evaluation_.budget;
    add("P", "parameters", "sum over matrices of rows x columns", "",
        number(static_cast<double>(answer_.num_parameters)), Tier::kExact);
    if (scenario_.kv_memory) {
      add("K", "KV pool of one device", "as given", "", gib_unit(budget.kv_pool.bytes), Tier::kGiven);
      return;
    }
    add("U", "memory that the engine may use", "utilisation x capacity",
        fmt::format("{} x {}", evaluation_.settings.gpu_memory_utilization, gib(budget.capacity)),
        gib_unit(budget.requested), Tier::kExact);
    add_term("W", "weights of one device", answer_.budget.weights);
    if (budget.adapters.bytes.value > 0) {
      add("L", "adapters", "max_loras x rank x (rows + columns) of each matrix", "", gib_unit(budget.adapters.bytes),
          budget.adapters.tier);
    }
    add_term("A", "activation peak", answer_.budget.activations);
    add_term("G", "CUDA graphs", answer_.budget.graphs);
    add_term("R", "runtime: context, communication, libraries", answer_.budget.runtime);
    const bool has_adapters = budget.adapters.bytes.value > 0;
    const bool has_graphs = budget.are_graphs_subtracted;
    add("K", "KV pool of one device",
        fmt::format("U - W{} - A{} - R", has_adapters ? " - L" : "", has_graphs ? " - G" : ""),
        fmt::format("{} - {}{} - {}{} - {}", gib(budget.requested), gib(budget.weights.bytes),
                    has_adapters ? " - " + gib(budget.adapters.bytes) : "", gib(budget.activations.bytes),
                    has_graphs ? " - " + gib(budget.graphs.bytes) : "", gib(budget.runtime.bytes)),
        gib_unit(budget.kv_pool.bytes), budget.kv_pool.tier);
  }

  void add_layout() {
    for (const KvGroupAnswer& group : answer_.kv_groups) {
      const bool is_state = group.fixed_bytes > 0;
      const std::string meaning =
          fmt::format("{} layers of {}{}", group.num_layers, group.kind,
                      group.window > 0 ? fmt::format(" of {}", format_thousands(group.window)) : "");
      add(is_state ? "s" : "b", meaning, is_state ? "bytes of a request's states" : "bytes of a token in all of them",
          "", fmt::format("{} bytes", format_thousands(is_state ? group.fixed_bytes : group.bytes_per_token)),
          Tier::kExact);
    }
    const plan::Capacity& capacity = evaluation_.capacity;
    add("B", "bytes of a block", "block_size x bytes of a token, of one layer of every group at a time",
        fmt::format("{} tokens, {} groups", capacity.block_size, capacity.num_groups),
        fmt::format("{} bytes", format_thousands(capacity.bytes_per_block)), Tier::kExact);
  }

  void add_capacity() {
    const plan::Capacity& capacity = evaluation_.capacity;
    const Tier tier = evaluation_.budget.kv_pool.tier;
    const plan::Settings& settings = evaluation_.settings;
    add("N", "blocks", "floor(K / B)",
        fmt::format("{} / {}", format_thousands(evaluation_.budget.kv_pool.bytes.value),
                    format_thousands(capacity.bytes_per_block)),
        format_thousands(capacity.num_blocks), scenario_.num_blocks ? Tier::kGiven : tier);
    const memory::InFlight in_flight{settings.max_num_batched_tokens, scenario_.profile->max_concurrent_batches};
    const int64_t per_longest = memory::blocks_per_request(*parts_.layout, settings.max_model_len, in_flight);
    const int64_t per_mean = memory::blocks_per_request(*parts_.layout, settings.mean_tokens, in_flight);
    add("n(L)",
        fmt::format("blocks of a request of max_model_len, {} tokens", format_thousands(settings.max_model_len)),
        "sum over groups of ceil(tokens kept / block_size)", "", format_thousands(per_longest), Tier::kExact);
    add("C", "concurrency as printed", "N / n(L)",
        fmt::format("{} / {}", format_thousands(capacity.num_blocks), format_thousands(per_longest)),
        fmt::format("{:.2f}", capacity.printed_concurrency), tier);
    add("n(S)",
        fmt::format("blocks of a request of prompt + output, {} tokens", format_thousands(settings.mean_tokens)),
        "sum over groups of ceil(tokens kept / block_size)", "", format_thousands(per_mean), Tier::kExact);
    const bool has_null_block =
        scenario_.profile->engine == memory::Engine::kVllm || scenario_.profile->engine == memory::Engine::kUllage;
    add("users", "requests of that length at once",
        has_null_block ? "floor((N - 1) / n(S)); block 0 is reserved" : "floor(N / n(S))",
        fmt::format("{} / {}",
                    has_null_block ? fmt::format("({} - 1)", format_thousands(capacity.num_blocks))
                                   : format_thousands(capacity.num_blocks),
                    format_thousands(per_mean)),
        format_thousands(capacity.expected_requests), tier);
  }

  void add_times() {
    add_decode();
    add_prefill();
    add_reload();
    add_money();
  }

  // A step's time, the same for prefill and decode.
  void add_step(const char* suffix, const plan::StepAnswer& step) {
    const plan::Timing& timing = evaluation_.timing;
    const cost::StepCostModel& model = *parts_.cost_model;
    const cost::StepCost& cost = step.cost;
    const std::string name = suffix;
    add("m_" + name, "bytes that a step moves", "weights + KV read + KV written",
        fmt::format("{} + {} + {}", number(cost.weight_bytes), number(cost.kv_read_bytes), number(cost.kv_write_bytes)),
        fmt::format("{} bytes", number(cost.weight_bytes + cost.kv_read_bytes + cost.kv_write_bytes)), timing.tier);
    add("t_m", "time of its memory", "m / (bandwidth x share reached)",
        fmt::format("{} / ({:.4g} TB/s x {:.3g})", number(cost.weight_bytes + cost.kv_read_bytes + cost.kv_write_bytes),
                    scenario_.device->bandwidth / 1e12, model.efficiency.bandwidth),
        milliseconds(cost.memory_seconds), timing.tier);
    add("t_c", "time of its arithmetic", "FLOPs / (peak x share reached)",
        fmt::format("{:.4g} TFLOP, share {:.3g}", (cost.linear_flops + cost.attention_flops) / 1e12,
                    model.efficiency.matmul),
        milliseconds(cost.compute_seconds), timing.tier);
    add("t_" + name, "time of the step", "max(t_m, t_c) + communication + overhead",
        fmt::format("max({:.3f}, {:.3f}) + {:.3f} + {:.3f} ms", cost.memory_seconds * 1e3, cost.compute_seconds * 1e3,
                    cost.communication_seconds * 1e3, cost.overhead_seconds * 1e3),
        fmt::format("{}, {}-bound", milliseconds(cost.seconds), plan::bound_name(step.bound)), timing.tier);
  }

  void add_decode() {
    const plan::Timing& timing = evaluation_.timing;
    add("r", "requests that run at once", "min(arrivals, max_num_seqs, users)",
        fmt::format("min({}, {}, {})", format_thousands(scenario_.concurrency),
                    format_thousands(evaluation_.settings.max_num_seqs * scenario_.parallelism.data),
                    format_thousands(evaluation_.capacity.total_expected_requests)),
        fmt::format("{}, limited by {}", format_thousands(evaluation_.running), plan::limit_name(evaluation_.limit)),
        evaluation_.budget.kv_pool.tier);
    add_step("d", timing.decode);
    add("ITL", "inter-token latency", "t_d / tokens accepted a step",
        fmt::format("{} / {:.3g}", milliseconds(timing.step_seconds), timing.tokens_per_step),
        milliseconds(timing.itl_seconds), timing.tier);
    add("X", "output tokens a second while decoding", "r / ITL",
        fmt::format("{} / {}", format_thousands(evaluation_.running), milliseconds(timing.itl_seconds)),
        fmt::format("{} tokens/s", number(timing.decode_tokens_per_second)), timing.tier);
  }

  void add_prefill() {
    const plan::Timing& timing = evaluation_.timing;
    add_step("p", timing.prefill);
    const int64_t budget = evaluation_.settings.max_num_batched_tokens;
    const auto prompt = static_cast<int64_t>(scenario_.prompt_tokens);
    add("TTFT", "time to first token on an idle engine", "sum of the chunks' steps",
        fmt::format("{} chunks of at most {} tokens", ceil_div(prompt, budget), format_thousands(budget)),
        milliseconds(timing.ttft_seconds), timing.tier);
  }

  void add_reload() {
    const plan::Crossovers& crossovers = answer_.crossovers;
    if (crossovers.reload_break_even_tokens == 0) return;
    add("E", "prefix from which loading it from the host is faster than computing it",
        "smallest n with KV bytes of n / host link <= prefill time of n",
        fmt::format("this prompt: {} to load, {} to compute", milliseconds(crossovers.reload_seconds),
                    milliseconds(crossovers.recompute_seconds)),
        fmt::format("{} tokens", format_thousands(crossovers.reload_break_even_tokens)), evaluation_.timing.tier);
  }

  void add_money() {
    if (evaluation_.load) {
      const plan::Load& load = *evaluation_.load;
      add("S", "slots that the arrivals need", "arrivals a second x seconds each stays (Little's law)",
          fmt::format("{:.4g} x {:.4g}", scenario_.qps, scenario_.qps > 0 ? load.needed_slots / scenario_.qps : 0.0),
          fmt::format("{:.1f} of {}", load.needed_slots, format_thousands(load.ceiling_slots)),
          evaluation_.timing.tier);
    }
    if (evaluation_.money) {
      add("$", "US dollars a million output tokens", "price of all devices an hour / output tokens of their time",
          fmt::format("{} x ${:.2f}/h", scenario_.parallelism.num_devices(), scenario_.price_per_hour),
          fmt::format("${:.3f}", evaluation_.money->per_million_output), evaluation_.timing.tier);
    }
  }

  const PlanAnswer& answer_;
  const plan::Planner::Parts& parts_;
  const plan::Evaluation& evaluation_;
  const plan::Scenario& scenario_;
  std::vector<DerivationStep> steps_;
};

}  // namespace

std::vector<DerivationStep> derive(const PlanAnswer& answer, const plan::Planner::Parts& parts) {
  return Derivation(answer, parts).derive();
}

}  // namespace ullage::api
