// Figures of steps: milliseconds, shares, duties, crossovers.
#include <algorithm>
#include <array>
#include <string>

#include "ullage/observe/lesson_figures.h"

namespace ullage::observe {
namespace {

constexpr auto kMs = 1e3;

// A decode step of `batch` requests at `context` as the case states them, else the scenario's own.
Result<plan::StepAnswer> decode_step(Answered& a, const Given& given) {
  if (given.batch == 0 && given.context < 0) return a.evaluation.timing.decode;
  const cost::WorkItem item{.first_position = static_cast<int64_t>(std::max(0.0, tokens_each(given, a.owner.scenario))),
                            .num_tokens = 1,
                            .is_sampled = true,
                            .count = std::max<int64_t>(1, given.batch)};
  cost::WorkItem at = item;
  if (given.context >= 0) at.first_position = static_cast<int64_t>(given.context);
  return a.planner.step(a.owner.scenario, {&at, 1});
}

template <class Read>
Result<Figure> of_step(const LessonWorld& world, const Given& given, const Read& read) {
  Answered answered;
  ULLAGE_TRY_VOID(answer(world, given, answered));
  ULLAGE_TRY(const plan::StepAnswer step, decode_step(answered, given));
  return read(answered, step);
}

Result<Figure> step_ms(const LessonWorld& world, const Given& given) {
  return of_step(world, given, [](Answered&, const plan::StepAnswer& s) { return number(s.cost.seconds * 1e3); });
}

Result<Figure> step_ms_alone(const LessonWorld& world, const Given& given) {
  return of_step(world, given, [](Answered&, const plan::StepAnswer& s) {
    return number((s.cost.seconds - s.cost.communication_seconds) * 1e3);
  });
}

Result<Figure> throughput(const LessonWorld& world, const Given& given) {
  return evaluated(world, given, [](Answered& a) { return number(a.evaluation.timing.decode_tokens_per_second); });
}

double bytes_of(const cost::StepCost& c) { return c.weight_bytes + c.kv_read_bytes + c.kv_write_bytes; }

// A prompt of one token costs what this one does: both wait for the weights.
Result<Figure> equals_empty(const LessonWorld& world, const Given& given) {
  Given empty = given;
  empty.prompt = 1;
  Answered a;
  Answered b;
  ULLAGE_TRY_VOID(answer(world, given, a));
  ULLAGE_TRY_VOID(answer(world, empty, b));
  return Figure(a.evaluation.timing.ttft_seconds == b.evaluation.timing.ttft_seconds);
}

Result<Figure> crossing(const LessonWorld& world, const Given& given, int64_t plan::Crossovers::* field) {
  Answered a;
  ULLAGE_TRY_VOID(answer(world, given, a));
  ULLAGE_TRY(const plan::Crossovers crossovers, a.planner.crossovers(a.owner.scenario));
  return number(crossovers.*field);
}

// The context at which a request's keys and values weigh what the weights do, as a fraction of tokens.
Result<Figure> context_crossing(const LessonWorld& world, const Given& given) {
  return of_step(world, given, [&](Answered& a, const plan::StepAnswer& s) {
    const auto batch = static_cast<double>(given.batch > 0 ? given.batch : a.evaluation.running);
    const auto rate = static_cast<double>(a.evaluation.capacity.bytes_per_token);
    return number(batch * rate > 0 ? s.cost.weight_bytes / (batch * rate) : 0.0);
  });
}

constexpr auto kFigures = std::to_array<NamedFigure>({
    {"step_ms", step_ms},
    {"itl_ms", step_ms},
    {"step_ms_without_communication", step_ms_alone},
    {"throughput_tok_s", throughput},
    {"tok_s",
     [](const LessonWorld& w, const Given& g) {
       return of_step(w, g, [](Answered&, const plan::StepAnswer& s) {
         return number((s.cost.seconds > 0 ? 1 / s.cost.seconds : 0));
       });
     }},
    {"ttft_ms",
     [](const LessonWorld& w, const Given& g) {
       return evaluated(w, g, [](Answered& a) { return number(a.evaluation.timing.ttft_seconds * kMs); });
     }},
    {"memory_ms",
     [](const LessonWorld& w, const Given& g) {
       return of_step(w, g, [](Answered&, const plan::StepAnswer& s) { return number(s.cost.memory_seconds * kMs); });
     }},
    {"compute_ms",
     [](const LessonWorld& w, const Given& g) {
       return of_step(w, g, [](Answered&, const plan::StepAnswer& s) { return number(s.cost.compute_seconds * kMs); });
     }},
    {"weight_ms",
     [](const LessonWorld& w, const Given& g) {
       return of_step(w, g, [](Answered& a, const plan::StepAnswer& s) {
         return number(s.cost.weight_bytes / (a.owner.device.bandwidth * a.owner.scenario.efficiency->bandwidth) * kMs);
       });
     }},
    {"kv_ms",
     [](const LessonWorld& w, const Given& g) {
       return of_step(w, g, [](Answered& a, const plan::StepAnswer& s) {
         return number(s.cost.kv_read_bytes / (a.owner.device.bandwidth * a.owner.scenario.efficiency->bandwidth) *
                       kMs);
       });
     }},
    {"prefill_bound",
     [](const LessonWorld& w, const Given& g) {
       return evaluated(
           w, g, [](Answered& a) { return Figure(std::string(plan::bound_name(a.evaluation.timing.prefill.bound))); });
     }},
    {"decode_bound",
     [](const LessonWorld& w, const Given& g) {
       return of_step(
           w, g, [](Answered&, const plan::StepAnswer& s) { return Figure(std::string(plan::bound_name(s.bound))); });
     }},
    {"ttft_equals_an_empty_prompt", equals_empty},
    {"weight_share_of_bytes",
     [](const LessonWorld& w, const Given& g) {
       return of_step(w, g, [](Answered&, const plan::StepAnswer& s) { return number(s.weight_share); });
     }},
    {"weight_share_of_step",
     [](const LessonWorld& w, const Given& g) {
       return of_step(w, g, [](Answered&, const plan::StepAnswer& s) { return number(s.weight_share); });
     }},
    {"kv_share_of_bytes",
     [](const LessonWorld& w, const Given& g) {
       return of_step(w, g, [](Answered&, const plan::StepAnswer& s) { return number(s.kv_share); });
     }},
    {"bytes_per_step_gb",
     [](const LessonWorld& w, const Given& g) {
       return of_step(w, g, [](Answered&, const plan::StepAnswer& s) { return number(bytes_of(s.cost) / 1e9); });
     }},
    {"bytes_per_rank_gb",
     [](const LessonWorld& w, const Given& g) {
       return of_step(w, g, [](Answered&, const plan::StepAnswer& s) { return number(bytes_of(s.cost) / 1e9); });
     }},
    {"tensor_duty",
     [](const LessonWorld& w, const Given& g) {
       return of_step(w, g, [](Answered&, const plan::StepAnswer& s) { return number(s.tensor_duty); });
     }},
    {"dram_active",
     [](const LessonWorld& w, const Given& g) {
       return of_step(w, g, [](Answered&, const plan::StepAnswer& s) { return number(s.dram_duty); });
     }},
    {"crossover_prompt_tokens",
     [](const LessonWorld& w, const Given& g) { return crossing(w, g, &plan::Crossovers::bandwidth_bound_prompt); }},
    {"crossover_batch",
     [](const LessonWorld& w, const Given& g) { return crossing(w, g, &plan::Crossovers::compute_bound_batch); }},
    {"crossover_context_tokens", context_crossing},
    {"free_prefill_tokens_per_step",
     [](const LessonWorld& w, const Given& g) { return crossing(w, g, &plan::Crossovers::free_prefill_tokens); }},
});

}  // namespace

std::span<const NamedFigure> time_figures() { return kFigures; }

}  // namespace ullage::observe
