#include "ullage/observe/comparison.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace ullage::observe {
namespace {

struct Writer {
  std::vector<TermComparison>& terms;

  void bytes(const char* name, const std::optional<LoggedBytes>& logged, const plan::Term& predicted, const char* cause,
             double least_tolerance = 0) {
    if (!logged) return;
    TermComparison term;
    term.name = name;
    term.predicted = static_cast<double>(predicted.bytes.value);
    term.logged = static_cast<double>(logged->bytes.value);
    term.tolerance =
        static_cast<double>(predicted.error.value + logged->half_step.value) + least_tolerance * std::abs(term.logged);
    term.line = logged->line;
    term.tier = predicted.tier;
    finish(std::move(term), cause);
  }

  template <class T>
  void number(const char* name, TermUnit unit, const std::optional<Logged<T>>& logged, double predicted,
              double tolerance, plan::Tier tier, const char* cause) {
    if (!logged) return;
    TermComparison term;
    term.name = name;
    term.unit = unit;
    term.predicted = predicted;
    term.logged = static_cast<double>(logged->value);
    term.tolerance = tolerance;
    term.line = logged->line;
    term.tier = tier;
    finish(std::move(term), cause);
  }

  void finish(TermComparison term, const char* cause) {
    term.is_off = std::abs(term.predicted - term.logged) > term.tolerance;
    if (term.is_off) term.cause = cause;
    terms.push_back(std::move(term));
  }
};

std::string amount(const TermComparison& term, double value) {
  switch (term.unit) {
    case TermUnit::kBytes:
      return fmt::format("{:.2f} GiB", value / static_cast<double>(kGiB));
    case TermUnit::kRequests:
      return fmt::format("{:.2f}", value);
    default:
      return format_thousands(static_cast<int64_t>(value));
  }
}

// The term whose difference weighs most: in bytes where terms are bytes, else relative.
std::string summary(const std::vector<TermComparison>& terms) {
  const TermComparison* worst = nullptr;
  double most = 0;
  for (const TermComparison& term : terms) {
    if (!term.is_off) continue;
    double weight = std::abs(term.predicted - term.logged);
    if (term.unit != TermUnit::kBytes) weight = 0.5;  // follow from the bytes
    if (worst == nullptr || weight > most) {
      worst = &term;
      most = weight;
    }
  }
  if (terms.empty()) return "the log prints no term that a plan predicts";
  if (worst == nullptr) return "every term that the log prints is as predicted, within the stated errors";
  return fmt::format("{} is off most: {} predicted, {} logged (line {}); usually {}", worst->name,
                     amount(*worst, worst->predicted), amount(*worst, worst->logged), worst->line, worst->cause);
}

}  // namespace

Comparison compare(const StartupLog& log, const plan::Evaluation& predicted,
                   const plan::Evaluation* from_logged_memory) {
  Comparison comparison;
  Writer writer{comparison.terms};
  const plan::BudgetNumbers& budget = predicted.budget;
  plan::Term capacity;
  capacity.bytes = budget.capacity;
  plan::Term requested;
  requested.bytes = budget.requested;
  writer.bytes("device memory", log.device_memory, capacity,
               "another device than planned for, ECC or MIG, or a driver that keeps more", 0.01);
  writer.bytes("requested", log.requested, requested, "another utilisation, or another device", 0.01);
  writer.bytes("weights", log.weights, budget.weights,
               "a checkpoint quantised otherwise than assumed, layers that stay unquantised, a tower, or a draft model",
               0.01);
  writer.bytes("activation peak", log.activations, budget.activations,
               "another max_num_seqs or max_num_batched_tokens: the profile run samples for every request at once");
  writer.bytes("runtime", log.non_torch, budget.runtime,
               "NCCL's buffers under tensor parallelism, or another process on the device");
  // What is taken from the pool is the estimate; where nothing is, what the capture took.
  const bool is_estimate = log.graphs_estimated && (budget.are_graphs_subtracted || !log.graphs);
  writer.bytes("graphs", is_estimate ? log.graphs_estimated : log.graphs, budget.graphs,
               "other capture sizes, a compilation mode, or --enforce-eager");
  writer.bytes("KV memory", log.kv_memory, budget.kv_pool,
               "the terms above; if they agree, memory that another process held at the start");
  const plan::Evaluation& exact = from_logged_memory != nullptr ? *from_logged_memory : predicted;
  const plan::Tier tier = from_logged_memory != nullptr ? plan::Tier::kExact : budget.kv_pool.tier;
  // From memory printed to 0.01 GiB counts are known to half such a step.
  double share = 0.05;
  if (from_logged_memory != nullptr && log.kv_memory && log.kv_memory->bytes.value > 0) {
    share =
        static_cast<double>(log.kv_memory->half_step.value) / static_cast<double>(log.kv_memory->bytes.value) + 1e-4;
  }
  const char* layout =
      "another KV dtype (the checkpoint may ask for FP8), block size, draft layers, or a layout rule of that version";
  const auto blocks = static_cast<double>(exact.capacity.num_blocks);
  writer.number("blocks", TermUnit::kBlocks, log.num_blocks, blocks, 1 + share * blocks, tier, layout);
  const auto tokens = static_cast<double>(exact.capacity.printed_tokens);
  writer.number("tokens", TermUnit::kTokens, log.kv_tokens, tokens,
                static_cast<double>(exact.settings.block_size) + share * tokens, tier, layout);
  if (log.concurrency_len && log.concurrency_len->value == exact.settings.max_model_len) {
    // Printed to 0.01.
    const double concurrency = exact.capacity.printed_concurrency;
    writer.number("concurrency", TermUnit::kRequests, log.max_concurrency, concurrency, 0.01 + share * concurrency,
                  tier, layout);
  }
  comparison.sentence = summary(comparison.terms);
  return comparison;
}

}  // namespace ullage::observe
