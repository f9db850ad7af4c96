#include "ullage/cost/crossovers.h"

#include <algorithm>
#include <array>

namespace ullage::cost {
namespace {

constexpr int64_t kLongestContext = int64_t{1} << 40;
constexpr int64_t kLargestBatch = int64_t{1} << 20;
constexpr int64_t kLongestPrompt = int64_t{1} << 24;

// The smallest n in [1, most] for which is_so(n); 0 when there is none. REQUIRES: once so, it stays so.
template <typename Predicate>
int64_t first_such(int64_t most, Predicate is_so) {
  if (!is_so(most)) return 0;
  int64_t no = 0;
  int64_t yes = most;
  // From small ones up: the answer is most often far below the limit.
  for (int64_t n = 1; n < most; n *= 4) {
    if (is_so(n)) {
      yes = n;
      break;
    }
    no = n;
  }
  while (yes - no > 1) {
    const int64_t middle = no + (yes - no) / 2;
    (is_so(middle) ? yes : no) = middle;
  }
  return yes;
}

double all_bytes(const StepCost& cost) { return cost.weight_bytes + cost.kv_read_bytes + cost.kv_write_bytes; }
double kv_bytes(const StepCost& cost) { return cost.kv_read_bytes + cost.kv_write_bytes; }
double over(double a, double b) { return b > 0 ? a / b : 0; }

double main_peak(const StepCostModel& model) {
  const LinearTraffic* most = nullptr;
  for (const LinearTraffic& linear : model.linear) {
    if (most == nullptr || linear.flops_per_token > most->flops_per_token) most = &linear;
  }
  double flops = most == nullptr ? 0 : most->flops_per_token;
  double peak = most == nullptr ? model.head_flops_per_second : most->flops_per_second;
  for (const ExpertTraffic& expert : model.experts) {
    const double of_token =
        expert.flops_per_pick * over(expert.num_per_token * expert.num_experts, expert.total_experts);
    if (of_token > flops) {
      flops = of_token;
      peak = expert.flops_per_second;
    }
  }
  return peak;
}

}  // namespace

Binding binding(const StepCost& cost) {
  struct Part {
    Bound bound;
    double seconds;
  };
  std::array<Part, 4> parts = {{{Bound::kMemory, cost.memory_seconds},
                                {Bound::kCompute, cost.compute_seconds},
                                {Bound::kCommunication, cost.communication_seconds},
                                {Bound::kOverhead, cost.overhead_seconds}}};
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.seconds > b.seconds; });
  return {parts[0].bound, parts[1].bound, over(parts[0].seconds, parts[1].seconds)};
}

double flops_per_byte(const StepCost& cost) { return over(cost.linear_flops + cost.attention_flops, all_bytes(cost)); }
double weight_share(const StepCost& cost) { return over(cost.weight_bytes, all_bytes(cost)); }
double kv_share(const StepCost& cost) { return over(kv_bytes(cost), all_bytes(cost)); }
double dram_duty(const StepCost& cost) { return over(cost.peak_memory_seconds, cost.seconds); }
double tensor_duty(const StepCost& cost) { return over(cost.peak_compute_seconds, cost.seconds); }
double mbu_at(const StepCost& cost, double measured_seconds) {
  return over(cost.peak_memory_seconds, measured_seconds);
}

double ridge_flops_per_byte(const StepCostModel& model) { return over(main_peak(model), model.bytes_per_second); }
double reached_ridge_flops_per_byte(const StepCostModel& model) {
  return ridge_flops_per_byte(model) * over(model.efficiency.matmul, model.efficiency.bandwidth);
}

StepCost decode_cost(const StepCostModel& model, int64_t batch, int64_t context) {
  const std::array<WorkItem, 1> items = {WorkItem{std::max<int64_t>(0, context - 1), 1, true, batch}};
  return step_cost(model, items);
}

StepCost prefill_cost(const StepCostModel& model, int64_t prompt_tokens) {
  const std::array<WorkItem, 1> items = {WorkItem{0, prompt_tokens, true, 1}};
  return step_cost(model, items);
}

double kv_outweighs_weights_tokens(const StepCostModel& model, int64_t batch) {
  const auto excess = [&](int64_t context) {
    const StepCost cost = decode_cost(model, batch, context);
    return kv_bytes(cost) - cost.weight_bytes;
  };
  const int64_t reached = first_such(kLongestContext, [&](int64_t context) { return excess(context) >= 0; });
  if (reached <= 1) return static_cast<double>(reached);
  // Between two whole tokens both grow evenly.
  const double below = excess(reached - 1);
  const double above = excess(reached);
  return static_cast<double>(reached - 1) + over(-below, above - below);
}

int64_t compute_bound_batch(const StepCostModel& model, int64_t context) {
  return first_such(kLargestBatch, [&](int64_t batch) {
    const StepCost cost = decode_cost(model, batch, context);
    return cost.compute_seconds >= cost.memory_seconds;
  });
}

int64_t compute_bound_prompt(const StepCostModel& model) {
  return first_such(kLongestPrompt, [&](int64_t tokens) {
    const StepCost cost = prefill_cost(model, tokens);
    return cost.compute_seconds >= cost.memory_seconds;
  });
}

int64_t free_prefill_tokens(const StepCostModel& model, std::span<const WorkItem> decodes, int64_t first_position,
                            bool ignores_attention) {
  const double available = step_cost(model, decodes).memory_seconds;
  std::vector<WorkItem> items(decodes.begin(), decodes.end());
  items.push_back(WorkItem{first_position, 0, false, 1});
  StepCostModel priced = model;
  double attention_seconds = 0;
  if (ignores_attention) {
    // The chunk's scores are left out, those of the decodes are not.
    priced.kv.clear();
    attention_seconds = step_cost(model, decodes).compute_seconds - step_cost(priced, decodes).compute_seconds;
  }
  const int64_t too_many = first_such(kLongestPrompt, [&](int64_t tokens) {
    items.back().num_tokens = tokens;
    return step_cost(priced, items).compute_seconds + attention_seconds > available;
  });
  return too_many == 0 ? kLongestPrompt : too_many - 1;
}

double request_cache_bytes(const StepCostModel& model, int64_t tokens) {
  double bytes = 0;
  for (const KvTraffic& kv : model.kv) {
    const int64_t kept = kv.reach == 0 || kv.is_sparse ? tokens
                         : kv.is_chunked               ? (tokens == 0 ? 0 : (tokens - 1) % kv.reach + 1)
                                                       : std::min(tokens, kv.reach);
    bytes += static_cast<double>(kept) * kv.write_bytes + std::max(kv.fixed_read_bytes, kv.fixed_write_bytes);
  }
  return bytes;
}

Reload reload(const StepCostModel& model, int64_t prefix_tokens, double link_bytes_per_second, double link_latency) {
  Reload out;
  if (prefix_tokens <= 0) return out;
  out.bytes = request_cache_bytes(model, prefix_tokens);
  out.reload_seconds = link_latency + over(out.bytes, link_bytes_per_second);
  const std::array<WorkItem, 1> items = {WorkItem{0, prefix_tokens, false, 1}};
  out.recompute_seconds = step_cost(model, items).latency_seconds;
  return out;
}

int64_t reload_break_even_tokens(const StepCostModel& model, double link_bytes_per_second, double link_latency,
                                 int64_t limit) {
  if (!(link_bytes_per_second > 0)) return 0;
  return first_such(std::clamp<int64_t>(limit, 1, kLongestContext), [&](int64_t tokens) {
    const Reload both = reload(model, tokens, link_bytes_per_second, link_latency);
    return both.reload_seconds <= both.recompute_seconds;
  });
}

}  // namespace ullage::cost
