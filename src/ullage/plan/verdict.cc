#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "ullage/plan/evaluate.h"

namespace ullage::plan {
namespace {

std::string gib(Bytes bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes.value) / static_cast<double>(kGiB));
}

std::string users(int64_t count) { return count == 1 ? "1 user fits" : format_thousands(count) + " users fit"; }

std::string ordinal(int64_t n) {
  const int64_t last_two = n % 100;
  const char* suffix = "th";
  if (last_two < 11 || last_two > 13) {
    if (n % 10 == 1) suffix = "st";
    if (n % 10 == 2) suffix = "nd";
    if (n % 10 == 3) suffix = "rd";
  }
  return format_thousands(n) + suffix;
}

std::string too_large(const Scenario& scenario, const Evaluation& evaluation) {
  const BudgetNumbers& budget = evaluation.budget;
  const Bytes others = budget.requested - budget.kv_pool.bytes - budget.weights.bytes;
  // What the budget grants must hold the weights and the rest, with a little left.
  const double needed = static_cast<double>((budget.weights.bytes + others).value);
  const double share = needed / static_cast<double>(std::max<int64_t>(1, budget.capacity.value));
  std::string what_would = "use more devices, a larger one, or fewer bits a weight";
  if (share < 0.985) {
    what_would = fmt::format("a utilisation above {:.2f} would leave room, or {}", share, what_would);
  }
  return fmt::format(
      "It does not fit: the weights take {} and the rest {} of the {} that utilisation {:.2f} grants{}; {} "
      "are missing; {}.",
      gib(budget.weights.bytes), gib(others), gib(budget.requested), evaluation.settings.gpu_memory_utilization,
      scenario.parallelism.num_devices() > 1 ? " on each device" : "", gib(evaluation.short_by), what_would);
}

}  // namespace

std::string verdict(const Scenario& scenario, const Evaluation& evaluation) {
  const Capacity& capacity = evaluation.capacity;
  switch (evaluation.fit) {
    case Fit::kWeightsTooLarge:
      return too_large(scenario, evaluation);
    case Fit::kRequestTooLarge:
      return fmt::format(
          "No request fits: one of {} tokens needs {} and the pool has {}; the longest that fits has {} "
          "tokens.",
          format_thousands(evaluation.settings.mean_tokens), gib(Bytes(capacity.request_block_bytes)),
          gib(evaluation.budget.kv_pool.bytes), format_thousands(capacity.largest_context));
    case Fit::kFits:
      break;
  }
  const int64_t fit =
      std::min(capacity.total_expected_requests, evaluation.settings.max_num_seqs * scenario.parallelism.data);
  switch (evaluation.limit) {
    case Limit::kMemory:
      return fmt::format("{}; the {} waits for memory.", users(fit), ordinal(fit + 1));
    case Limit::kMaxNumSeqs:
      return fmt::format("{}; the {} waits for max_num_seqs, memory would hold {}.", users(fit), ordinal(fit + 1),
                         format_thousands(capacity.total_expected_requests));
    case Limit::kArrivals: {
      const bool is_memory =
          capacity.total_expected_requests <= evaluation.settings.max_num_seqs * scenario.parallelism.data;
      return fmt::format("All {} run at once; {}, {} is what would stop more.", format_thousands(evaluation.running),
                         users(fit), is_memory ? "memory" : "max_num_seqs");
    }
    case Limit::kNothingFits:
      break;
  }
  return "No request fits.";
}

}  // namespace ullage::plan
