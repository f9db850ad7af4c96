#include "ullage/cost/step_cost.h"

#include <algorithm>

namespace ullage::cost {
namespace {

// The sum over positions p in [0, n) of min(p + 1, reach): keys that the first n tokens attend to.
double window_pairs(double n, double reach) {
  if (n <= reach) return n * (n + 1) / 2;
  return reach * (reach + 1) / 2 + (n - reach) * reach;
}

// The same where the past starts anew at multiples of `chunk`.
double chunk_pairs(int64_t n, int64_t chunk) {
  const int64_t num_whole = n / chunk;
  const auto whole = static_cast<double>(num_whole);
  const auto size = static_cast<double>(chunk);
  const auto rest = static_cast<double>(n % chunk);
  return whole * size * (size + 1) / 2 + rest * (rest + 1) / 2;
}

struct Reach {
  double past = 0;   // tokens that are read from the cache
  double pairs = 0;  // of query and key
};

Reach reach_of(const KvTraffic& kv, const WorkItem& item, bool is_masked) {
  const auto first = static_cast<double>(item.first_position);
  const auto tokens = static_cast<double>(item.num_tokens);
  if (kv.reach == 0) {
    // The token at position p attends to p + 1 positions: the sum over [first, first + tokens).
    return {first, tokens * first + (is_masked || tokens == 1 ? tokens * (tokens + 1) / 2 : tokens * tokens)};
  }
  const auto reach = static_cast<double>(kv.reach);
  if (kv.is_chunked) {
    return {static_cast<double>(item.first_position % kv.reach),
            chunk_pairs(item.first_position + item.num_tokens, kv.reach) - chunk_pairs(item.first_position, kv.reach)};
  }
  const double pairs = window_pairs(first + tokens, reach) - window_pairs(first, reach);
  // Sparse: each query has its own best tokens; together they cannot read more than there are. A window ends with the
  // query itself, so the first one reads reach - 1 past tokens.
  return {kv.is_sparse ? std::min(first, tokens * reach) : std::min(first, reach - 1), pairs};
}

// Adds up what kinds of kernels take.
struct Clock {
  double memory = 0;
  double compute = 0;
  double serial = 0;
  void add(double memory_seconds, double compute_seconds) {
    memory += memory_seconds;
    compute += compute_seconds;
    serial += std::max(memory_seconds, compute_seconds);
  }
};

double power(double base, double exponent) {  // of a whole exponent up to 2^53, by squaring
  double result = 1;
  for (auto rest = static_cast<uint64_t>(exponent); rest > 0 && result > 0; rest >>= 1) {
    if (rest & 1) result *= base;
    base *= base;
  }
  return result;
}

double touched_share(double num_experts, double num_per_token, double num_tokens) {
  if (num_experts <= 0 || num_per_token >= num_experts) return 1;
  return 1 - power(1 - num_per_token / num_experts, std::min(num_tokens, 9007199254740992.0));
}

Bound longest(const StepCost& cost) {
  Bound bound = Bound::kMemory;
  double most = cost.memory_seconds;
  const auto consider = [&](Bound other, double seconds) {
    if (seconds > most) {
      most = seconds;
      bound = other;
    }
  };
  consider(Bound::kCompute, cost.compute_seconds);
  consider(Bound::kCommunication, cost.communication_seconds);
  consider(Bound::kOverhead, cost.overhead_seconds);
  return bound;
}

}  // namespace

double expected_experts(double num_experts, double num_per_token, int64_t num_tokens) {
  return num_experts * touched_share(num_experts, num_per_token, static_cast<double>(num_tokens));
}

StepCost step_cost(const StepCostModel& model, std::span<const WorkItem> items) {
  StepCost cost;
  double tokens = 0;
  double samples = 0;
  double requests = 0;
  for (const WorkItem& item : items) {
    if (item.num_tokens == 0) continue;
    const auto count = static_cast<double>(item.count);
    tokens += static_cast<double>(item.num_tokens) * count;
    samples += item.is_sampled ? count : 0;
    requests += count;
  }
  if (tokens == 0) return cost;

  const Efficiency& reached = model.efficiency;
  const double byte_seconds = 1 / (model.bytes_per_second * reached.bandwidth);
  Clock clock;
  for (const LinearTraffic& linear : model.linear) {
    const double flops = tokens * linear.flops_per_token;
    cost.weight_bytes += linear.weight_bytes;
    cost.linear_flops += flops;
    cost.peak_compute_seconds += flops / linear.flops_per_second;
    clock.add(linear.weight_bytes * byte_seconds, flops / (linear.flops_per_second * reached.matmul));
  }
  const double embedding_bytes = tokens * model.embedding_row_bytes;
  cost.weight_bytes += embedding_bytes;
  clock.add(embedding_bytes * byte_seconds, 0);
  if (samples > 0) {
    const double flops = samples * model.head_flops_per_sample;
    cost.weight_bytes += model.head_weight_bytes;
    cost.linear_flops += flops;
    cost.peak_compute_seconds += flops / model.head_flops_per_second;
    clock.add(model.head_weight_bytes * byte_seconds, flops / (model.head_flops_per_second * reached.matmul));
  }
  for (const ExpertTraffic& expert : model.experts) {
    const double all_tokens = tokens * model.num_replicas;
    const double touched = expert.num_experts * touched_share(expert.total_experts, expert.num_per_token, all_tokens);
    const double bytes = touched * expert.bytes_per_expert;
    const double picks = all_tokens * expert.num_per_token * expert.num_experts / expert.total_experts;
    const double flops = picks * expert.flops_per_pick;
    cost.weight_bytes += bytes;
    cost.linear_flops += flops;
    cost.peak_compute_seconds += flops / expert.flops_per_second;
    clock.add(bytes / (model.bytes_per_second * reached.expert_bandwidth),
              flops / (expert.flops_per_second * reached.expert_matmul));
  }
  for (const KvTraffic& kv : model.kv) {
    // Keys and values are streamed once an item: a kernel that keeps its queries on chip (FlashAttention, Dao et al.
    // 2022) needs no more, and those of its own tokens come from chip, too, but are written.
    double read = requests * kv.fixed_read_bytes;
    double written = tokens * kv.write_bytes + requests * kv.fixed_write_bytes;
    double flops = tokens * kv.flops_per_token;
    if (kv.flops_per_pair > 0) {
      for (const WorkItem& item : items) {
        if (item.num_tokens == 0) continue;
        const auto count = static_cast<double>(item.count);
        const Reach reach = reach_of(kv, item, model.is_causal_prefill_masked);
        read += count * reach.past * kv.bytes_per_token;
        flops += item.num_tokens == 1
                     ? count * reach.pairs * kv.flops_per_pair
                     : count * (reach.pairs * kv.prefill_flops_per_pair + reach.past * kv.prefill_flops_per_past);
      }
    }
    cost.kv_read_bytes += read;
    cost.kv_write_bytes += written;
    cost.attention_flops += flops;
    cost.peak_compute_seconds += flops / kv.flops_per_second;
    clock.add((read + written) / (model.bytes_per_second * reached.kv_bandwidth),
              flops / (kv.flops_per_second * reached.attention));
  }
  cost.peak_memory_seconds = (cost.weight_bytes + cost.kv_read_bytes + cost.kv_write_bytes) / model.bytes_per_second;
  cost.memory_seconds = clock.memory;
  cost.compute_seconds = clock.compute;

  cost.communication_bytes = tokens * model.reduce_bytes_per_token;
  double hop_seconds = 0;
  if (model.link_bytes_per_second > 0) {
    const double link = model.link_bytes_per_second * reached.link;
    cost.communication_seconds = cost.communication_bytes / link + model.num_reduces * reached.link_latency;
    hop_seconds = tokens * model.hop_bytes_per_token / link + reached.link_latency;
  }
  cost.overhead_seconds = model.num_layers * reached.layer_overhead + reached.step_overhead;
  const double kernels = reached.has_serial_kernels ? clock.serial : std::max(clock.memory, clock.compute);
  cost.seconds = kernels + cost.communication_seconds + cost.overhead_seconds;
  // A pipeline's other stages take as long, but a step is scheduled and sampled once.
  cost.latency_seconds = model.num_stages * (cost.seconds - reached.step_overhead) +
                         (model.num_stages - 1) * hop_seconds + reached.step_overhead;
  cost.bound = longest(cost);
  return cost;
}

}  // namespace ullage::cost
