#include "ullage/cost/serving.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ullage::cost {
namespace {

// A prompt's chunks beside the decodes of a step: what they add to those steps, and the first token's own way.
struct Prefill {
  double added = 0;
  double whole = 0;
};

Prefill prefill_beside(const StepCostModel& model, const WorkItem& decodes, double decode_seconds, int64_t prompt,
                       int64_t budget) {
  const int64_t chunk = std::max<int64_t>(1, budget - decodes.count);
  Prefill out;
  for (int64_t first = 0; first < prompt; first += chunk) {
    const int64_t num_tokens = std::min(chunk, prompt - first);
    const std::array<WorkItem, 2> items = {decodes, WorkItem{first, num_tokens, first + num_tokens == prompt, 1}};
    const double seconds = step_cost(model, items).latency_seconds;
    out.whole += seconds;
    out.added += std::max(0.0, seconds - decode_seconds);
  }
  return out;
}

}  // namespace

ServingTimes serving_times(const StepCostModel& model, const ServingPoint& point, double ttft_overhead,
                           double ttft_wave) {
  ServingTimes out;
  out.running = point.max_running > 0 ? std::min(point.concurrency, point.max_running) : point.concurrency;
  // Stages work on different requests at a time.
  const double in_step = out.running / model.num_stages;
  const auto output = static_cast<double>(point.output_tokens);
  const WorkItem decodes{point.prompt_tokens + point.output_tokens / 2 - 1, 1, true,
                         std::max<int64_t>(1, std::llround(in_step))};
  out.decode = step_cost(model, {&decodes, 1});
  const double decode_seconds = out.decode.latency_seconds;
  const Prefill prefill =
      prefill_beside(model, decodes, decode_seconds, point.prompt_tokens, point.max_num_batched_tokens);
  out.prefill_seconds = prefill.added;
  // While a request makes its output tokens, each of the others ends once and a new one's prompt takes its place.
  const double others = std::max(0.0, out.running - 1);
  out.tpot_seconds = decode_seconds + others / output * prefill.added / model.num_stages;
  // It arrives in the middle of a step. Those that began together end together, so it meets others' prompts.
  const double own = ttft_overhead + prefill.whole + decode_seconds / 2 + ttft_wave * others * prefill.added;
  // Those that do not run wait: in the steady state all are somewhere (Little's law).
  const double queued = std::max(0.0, point.concurrency / out.running - 1) * (output * out.tpot_seconds + own);
  out.ttft_seconds = own + queued;
  return out;
}

}  // namespace ullage::cost
