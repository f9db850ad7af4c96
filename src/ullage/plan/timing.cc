#include <algorithm>
#include <array>

#include "ullage/cost/crossovers.h"
#include "ullage/plan/answers.h"

namespace ullage::plan {
namespace {

// A long prompt's chunks are priced at so many places and those between are taken to lie on a line: a chunk's time is
// piecewise linear in its position.
constexpr int64_t kMaxPricedChunks = 12;

bool is_ideal(const Scenario& scenario) { return scenario.profile->engine == memory::Engine::kLesson; }

int64_t whole(double tokens) {
  const auto floor = static_cast<int64_t>(tokens);
  return floor + (static_cast<double>(floor) < tokens);
}

struct Decodes {
  int64_t position = 0;
  int64_t num_tokens = 1;  // a request: with those drafted
  int64_t count = 0;
};

// The seconds of all chunks of [first, last), each in a step of its own with `decodes` beside.
double chunk_seconds(const cost::StepCostModel& model, int64_t first, int64_t last, int64_t chunk,
                     const Decodes& decodes) {
  if (first >= last) return 0;
  const int64_t num_chunks = ceil_div(last - first, chunk);
  std::array<cost::WorkItem, 2> items;
  items[1] = {
      .first_position = decodes.position, .num_tokens = decodes.num_tokens, .is_sampled = true, .count = decodes.count};
  const std::span<const cost::WorkItem> used(items.data(), decodes.count > 0 ? 2 : 1);
  const auto price = [&](int64_t index) {
    const int64_t begin = first + index * chunk;
    const int64_t end = std::min(begin + chunk, last);
    items[0] = {.first_position = begin, .num_tokens = end - begin, .is_sampled = end == last, .count = 1};
    return cost::step_cost(model, used).latency_seconds;
  };
  // The last chunk is short and sampled; it is priced by itself.
  double sum = price(num_chunks - 1);
  const int64_t whole_chunks = num_chunks - 1;
  if (whole_chunks <= kMaxPricedChunks) {
    for (int64_t i = 0; i < whole_chunks; ++i) sum += price(i);
    return sum;
  }
  // Trapezia between kMaxPricedChunks places: the sum over [a, b] of a line is its mean times its number of points.
  double before = price(0);
  int64_t a = 0;
  sum += before;
  for (int64_t i = 1; i < kMaxPricedChunks; ++i) {
    const int64_t b = (whole_chunks - 1) * i / (kMaxPricedChunks - 1);
    const double here = price(b);
    const auto steps = static_cast<double>(b - a);
    sum += steps * (before + here) / 2 + (here - before) / 2;
    before = here;
    a = b;
  }
  return sum;
}

// A drafted token runs the draft layers once; they are bandwidth-bound at any batch that serves people.
double draft_seconds(const Stages::Found& parts) {
  if (parts.model->draft_weight_bytes <= 0) return 0;
  const cost::StepCostModel& model = *parts.cost->model;
  const double bytes = parts.model->draft_weight_bytes + model.head_weight_bytes;
  return static_cast<double>(parts.model->key.num_speculative_tokens) * bytes /
         (model.bytes_per_second * model.efficiency.bandwidth);
}

// Little by little: what `running` requests that come and go get from one replica, in the steady state. Each needs its
// prompt once and a step for every token; a prompt's chunks make the steps they ride on longer.
void fill_sustained(const Scenario& scenario, double extra_prompt_seconds, double requests, Timing& timing) {
  const double decode = timing.step_seconds * std::max(0.0, scenario.output_tokens) / timing.tokens_per_step;
  timing.request_seconds = decode + requests * extra_prompt_seconds;
  if (!(timing.request_seconds > 0)) return;
  const auto replicas = static_cast<double>(scenario.parallelism.data);
  timing.requests_per_second = replicas * requests / timing.request_seconds;
  timing.output_tokens_per_second = timing.requests_per_second * scenario.output_tokens;
  timing.input_tokens_per_second = timing.requests_per_second * scenario.prompt_tokens;
  // A static batch computes its prompts, then steps until its longest output has ended.
  const double longest = std::max(scenario.output_tokens, scenario.p95_output_tokens);
  const double batch_seconds = requests * timing.ttft_seconds + timing.step_seconds * longest / timing.tokens_per_step;
  if (batch_seconds > 0) {
    timing.static_output_tokens_per_second = replicas * requests * scenario.output_tokens / batch_seconds;
  }
}

}  // namespace

double tokens_per_step(int64_t num_drafted, double acceptance_rate) {
  double sum = 1;
  double power = 1;
  for (int64_t i = 0; i < num_drafted; ++i) {
    power *= acceptance_rate;
    sum += power;
  }
  return sum;
}

int64_t decode_position(const Scenario& scenario, const Settings& settings) {
  // The lessons read the cache of the whole final length in every step.
  if (is_ideal(scenario)) return settings.mean_tokens;
  return whole(scenario.prompt_tokens + scenario.output_tokens / 2);
}

StepAnswer step_answer(const cost::StepCostModel& model, std::span<const cost::WorkItem> items) {
  StepAnswer out;
  out.cost = cost::step_cost(model, items);
  const cost::StepCost& c = out.cost;
  const cost::Binding binding = cost::binding(c);
  out.bound = binding.bound;
  out.margin = binding.margin;
  if (!(c.seconds > 0)) return out;
  out.flops_per_byte = cost::flops_per_byte(c);
  out.weight_share = cost::weight_share(c);
  out.kv_share = cost::kv_share(c);
  out.communication_share = c.communication_seconds / c.seconds;
  out.tensor_duty = cost::tensor_duty(c);
  out.dram_duty = cost::dram_duty(c);
  out.bandwidth_use = (c.weight_bytes + c.kv_read_bytes) / model.bytes_per_second / c.seconds;
  return out;
}

Timing timing_of(const Scenario& scenario, const Settings& settings, const Stages::Found& parts,
                 int64_t total_running) {
  // The replica with the most sets the pace.
  const int64_t running = ceil_div(total_running, scenario.parallelism.data);
  const cost::StepCostModel& model = *parts.cost->model;
  const EfficiencyChoice& choice = parts.cost->choice;
  Timing out;
  out.tier = choice.tier;
  out.error = choice.error;
  out.ttft_error = choice.ttft_error;
  const int64_t prompt = whole(scenario.prompt_tokens);
  const int64_t cached = std::min(prompt, cached_prefix_tokens(scenario, *parts.model));
  const int64_t budget = settings.max_num_batched_tokens;

  out.ttft_seconds = choice.ttft_overhead + chunk_seconds(model, cached, prompt, budget, {});
  out.ttft_uncached_seconds =
      cached == 0 ? out.ttft_seconds : choice.ttft_overhead + chunk_seconds(model, 0, prompt, budget, {});
  const int64_t last_chunk = prompt > cached ? (prompt - cached - 1) % budget + 1 : 0;
  if (last_chunk > 0) {
    const cost::WorkItem item{
        .first_position = prompt - last_chunk, .num_tokens = last_chunk, .is_sampled = true, .count = 1};
    out.prefill = step_answer(model, {&item, 1});
  }
  if (running < 1) return out;

  const int64_t micro_batch = ceil_div(running, scenario.parallelism.pipeline);
  const int64_t step_tokens = 1 + parts.model->key.num_speculative_tokens;
  const Decodes decodes{
      .position = decode_position(scenario, settings), .num_tokens = step_tokens, .count = micro_batch};
  const cost::WorkItem item{
      .first_position = decodes.position, .num_tokens = decodes.num_tokens, .is_sampled = true, .count = decodes.count};
  out.decode = step_answer(model, {&item, 1});
  out.step_seconds = out.decode.cost.latency_seconds + draft_seconds(parts);
  out.tokens_per_step = tokens_per_step(parts.model->key.num_speculative_tokens, scenario.acceptance_rate);
  out.itl_seconds = out.step_seconds / out.tokens_per_step;
  out.decode_tokens_per_second = static_cast<double>(total_running) / out.itl_seconds;

  // A prompt gets what decodes leave of the step's tokens, and at least one.
  const int64_t chunk = std::max<int64_t>(1, budget - decodes.count * decodes.num_tokens);
  const int64_t num_chunks = ceil_div(std::max<int64_t>(1, prompt - cached), chunk);
  const double mixed = chunk_seconds(model, cached, prompt, chunk, decodes);
  const int64_t widest = std::min(chunk, prompt - cached);
  out.mixed_itl_seconds = widest > 0 ? chunk_seconds(model, prompt - widest, prompt, widest, decodes) : 0;
  const double extra = std::max(0.0, mixed - static_cast<double>(num_chunks) * out.step_seconds);
  // It arrives in the middle of a step, and meets some of the others' prompts: those that began together end together.
  out.ttft_loaded_seconds =
      choice.ttft_overhead + mixed + out.step_seconds / 2 + choice.ttft_wave * static_cast<double>(running - 1) * extra;
  // Micro-batches of a pipeline overlap: a prompt holds up one stage at a time.
  fill_sustained(scenario, extra / static_cast<double>(scenario.parallelism.pipeline),
                 static_cast<double>(total_running) / static_cast<double>(scenario.parallelism.data), out);
  return out;
}

Crossovers crossovers_of(const Scenario& scenario, const Settings& settings, const Stages::Found& parts,
                         int64_t running) {
  const cost::StepCostModel& model = *parts.cost->model;
  const int64_t batch = std::max<int64_t>(1, ceil_div(running, scenario.parallelism.pipeline));
  const int64_t position = decode_position(scenario, settings);
  Crossovers out;
  out.ridge_flops_per_byte = cost::ridge_flops_per_byte(model);
  const double context = cost::kv_outweighs_weights_tokens(model, batch);
  out.kv_outweighs_weights_tokens = context < 1e15 ? whole(context) : 0;
  out.compute_bound_batch = cost::compute_bound_batch(model, position + 1);
  out.bandwidth_bound_prompt = cost::compute_bound_prompt(model);
  const cost::WorkItem decodes{.first_position = position, .num_tokens = 1, .is_sampled = true, .count = batch};
  // Their own attention is left out, since it depends on where in their prompt they are.
  out.free_prefill_tokens = cost::free_prefill_tokens(model, {&decodes, 1}, 0, true);
  if (scenario.device->host_bandwidth > 0) {
    out.reload_break_even_tokens = cost::reload_break_even_tokens(model, scenario.device->host_bandwidth, 0);
    const int64_t prompt = std::max<int64_t>(1, whole(scenario.prompt_tokens));
    const cost::Reload reload = cost::reload(model, prompt, scenario.device->host_bandwidth, 0);
    out.reload_seconds = reload.reload_seconds;
    out.recompute_seconds = reload.recompute_seconds;
  }
  return out;
}

}  // namespace ullage::plan
