// Figures of bytes, capacity and load.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "ullage/memory/budget.h"
#include "ullage/memory/engine_profile.h"
#include "ullage/observe/lesson_figures.h"

namespace ullage::observe {
namespace {

Result<double> kv_rate(const LessonWorld& world, const Given& given) {
  if (given.kv_bytes_per_token > 0) return given.kv_bytes_per_token;
  LessonScenario owner;
  ULLAGE_TRY_VOID(make_scenario(world, given, owner));
  ULLAGE_TRY(const plan::Settings settings, plan::check_scenario(owner.scenario));
  // The scenario's overrides are the planner's to make; a whole replica's bytes are asked for.
  plan::Planner planner;
  plan::Scenario whole = owner.scenario;
  whole.parallelism = {};
  ULLAGE_TRY(const plan::Planner::Parts parts, planner.parts(whole));
  ULLAGE_TRY(const int64_t rate, plan::kv_bytes_per_token(*parts.shape, settings.kv_dtype));
  return static_cast<double>(rate);
}

// Bytes that one request keeps; a window ends it.
Result<double> request_bytes(const LessonWorld& world, const Given& given, double tokens) {
  ULLAGE_TRY(const double rate, kv_rate(world, given));
  const double kept = given.window > 0 ? std::min(tokens, static_cast<double>(given.window)) : tokens;
  return rate * kept;
}

bool states_memory(const Given& given) {
  return given.pool_gib > 0 || (given.capacity_gib > 0 && given.weights_gib > 0);
}

// Of a case that states capacity and weights, or the pool itself.
double stated_pool_gib(const Given& given, const LessonWorld& world) {
  if (given.pool_gib > 0) return given.pool_gib;
  const double utilization =
      given.gpu_memory_utilization > 0 ? given.gpu_memory_utilization : world.gpu_memory_utilization;
  return given.capacity_gib * utilization - given.weights_gib - given.activation_gib.value_or(0.0);
}

Result<int64_t> stated_resident(const LessonWorld& world, const Given& given) {
  const double tokens = tokens_each(given, plan::Scenario{});
  ULLAGE_TRY(const double each, request_bytes(world, given, tokens));
  if (!(each >= 1)) return Error{ErrorCode::kInvalidArgument, "a request of no bytes", "context"};
  const Bytes pool(static_cast<int64_t>(std::clamp(stated_pool_gib(given, world), -1e6, 1e6) * kBytesPerGiB));
  return plan::max_concurrent(pool, static_cast<int64_t>(std::min(each, 9e18)), 1);
}

Result<Figure> resident(const LessonWorld& world, const Given& given) {
  if (states_memory(given)) {
    ULLAGE_TRY(const int64_t n, stated_resident(world, given));
    return number(n);
  }
  return evaluated(world, given, [](Answered& a) { return number(a.evaluation.capacity.total_expected_requests); });
}

Result<Figure> running(const LessonWorld& world, const Given& given) {
  if (states_memory(given)) {
    ULLAGE_TRY(const int64_t most, stated_resident(world, given));
    const int64_t wanted = std::max(given.requests, given.concurrent);
    return number(wanted > 0 ? std::min(most, wanted) : most);
  }
  return evaluated(world, given, [](Answered& a) { return number(a.evaluation.running); });
}

Result<Figure> waiting(const LessonWorld& world, const Given& given) {
  ULLAGE_TRY(const Figure inside, running(world, given));
  const int64_t wanted = std::max(given.requests, given.concurrent);
  return number(static_cast<double>(wanted) - std::get<double>(inside));
}

Result<Figure> limit(const LessonWorld& world, const Given& given) {
  if (states_memory(given)) {
    ULLAGE_TRY(const int64_t most, stated_resident(world, given));
    const int64_t wanted = std::max(given.requests, given.concurrent);
    return Figure(std::string(plan::limit_name(wanted > most ? plan::Limit::kMemory : plan::Limit::kArrivals)));
  }
  return evaluated(world, given, [](Answered& a) { return Figure(std::string(plan::limit_name(a.evaluation.limit))); });
}

Result<Figure> pool_gib(const LessonWorld& world, const Given& given) {
  if (states_memory(given)) return number(stated_pool_gib(given, world));
  return evaluated(world, given, [](Answered& a) {
    return number(static_cast<double>(a.evaluation.budget.kv_pool.bytes.value) / kBytesPerGiB);
  });
}

Result<Figure> pool_total(const LessonWorld& world, const Given& given) {
  return evaluated(world, given, [](Answered& a) {
    return number(static_cast<double>(a.evaluation.budget.total_kv_pool.value) / kBytesPerGiB);
  });
}

Result<Figure> weights_gib(const LessonWorld& world, const Given& given) {
  if (given.weights_gib > 0) return number(given.weights_gib);
  LessonScenario owner;
  ULLAGE_TRY_VOID(make_scenario(world, given, owner));
  if (owner.scenario.weights == plan::WeightPrecision::kINT4 || owner.scenario.weights == plan::WeightPrecision::kFP4) {
    // A 4-bit checkpoint as published: embedding and head stay, scales come with it.
    plan::Planner planner;
    ULLAGE_TRY(const plan::Planner::Parts parts, planner.parts(owner.scenario));
    return number(static_cast<double>(memory::rank_weights(*parts.shape, owner.scenario.parallelism).total.value) /
                  kBytesPerGiB);
  }
  return evaluated(world, given, [](Answered& a) {
    return number(static_cast<double>(a.evaluation.budget.weights.bytes.value) / kBytesPerGiB);
  });
}

Result<Figure> parameters(const LessonWorld& world, const Given& given) {
  LessonScenario owner;
  ULLAGE_TRY_VOID(make_scenario(world, given, owner));
  plan::Planner planner;
  ULLAGE_TRY(const plan::Planner::Parts parts, planner.parts(owner.scenario));
  return number(static_cast<double>(model::count_parameters(*parts.shape).total()) / 1e9);
}

Result<Figure> ratio(const LessonWorld& world, const Given& given) {
  if (given.usd_per_million_input > 0) return number(given.usd_per_million_output / given.usd_per_million_input);
  if (given.answer_tokens > 0) {
    return number(static_cast<double>(plan::computations_without_cache(given.answer_tokens)) /
                  static_cast<double>(given.answer_tokens));
  }
  // Keys and values of all requests against the weights.
  ULLAGE_TRY(const double each, request_bytes(world, given, tokens_each(given, plan::Scenario{})));
  ULLAGE_TRY(const Figure weights, weights_gib(world, given));
  const auto count = static_cast<double>(std::max({int64_t{1}, given.sequences, given.batch}));
  return number(each * count / kBytesPerGiB / std::get<double>(weights));
}

Result<Figure> kv_gib(const LessonWorld& world, const Given& given) {
  ULLAGE_TRY(const double each, request_bytes(world, given, tokens_each(given, plan::Scenario{})));
  const auto count = static_cast<double>(std::max({int64_t{1}, given.sequences, given.batch}));
  return number(each * count / kBytesPerGiB);
}

Result<Figure> gib_per_sequence(const LessonWorld& world, const Given& given) {
  LessonScenario owner;
  ULLAGE_TRY_VOID(given.model.empty() && given.layers == 0 ? Result<void>() : make_scenario(world, given, owner));
  // The lessons speak of the prompt's length: 32k tokens are 8 GiB, the output beside.
  const double tokens = given.prompt > 0 ? given.prompt : tokens_each(given, owner.scenario);
  ULLAGE_TRY(const double each, request_bytes(world, given, tokens));
  return number(each / kBytesPerGiB);
}

Result<const model::Attention*> first_attention(const model::ModelShape& shape) {
  for (const model::LayerShape& layer : shape.layers) {
    if (const auto* attention = std::get_if<model::Attention>(&layer.mixer)) return attention;
  }
  return Error{ErrorCode::kUnsupported, "the model has no attention of heads", "model"};
}

// KV heads of one rank, and how many ranks share one.
Result<std::pair<int64_t, int64_t>> divided_heads(const LessonWorld& world, const Given& given) {
  int64_t heads = given.kv_heads;
  if (heads == 0) {
    ULLAGE_TRY(const model::ModelShape shape, lesson_shape(world, given));
    ULLAGE_TRY(const model::Attention* attention, first_attention(shape));
    heads = attention->num_kv_heads;
  }
  model::WeightMatrix whole;
  whole.role = model::WeightRole::kAttention;
  whole.rows = heads;
  whole.split = model::Split::kKvHeads;
  whole.num_heads = heads;
  const model::WeightMatrix part = model::rank_part(whole, {.tensor = given.tensor_parallel});
  return std::pair{part.rows, std::max<int64_t>(1, part.rows * given.tensor_parallel / heads)};
}

Result<Figure> reason(const LessonWorld& world, const Given& given) {
  return evaluated(world, given, [](Answered& a) {
    switch (a.evaluation.fit) {
      case plan::Fit::kWeightsTooLarge:
        return Figure(std::string("weights exceed the usable memory"));
      case plan::Fit::kRequestTooLarge:
        return Figure(std::string("one sequence is larger than the pool"));
      case plan::Fit::kFits:
        break;
    }
    return Figure(std::string("it fits"));
  });
}

Result<Figure> fits(const LessonWorld& world, const Given& given) {
  if (given.qps > 0) {
    const plan::Load load = plan::load_of(given.qps, given.mean_duration_s, static_cast<int64_t>(given.ceiling));
    return Figure(load.fits);
  }
  return evaluated(world, given, [](Answered& a) { return Figure(a.evaluation.fit == plan::Fit::kFits); });
}

double concurrency(const Given& given) {
  return given.max_model_len > 0 ? given.kv_tokens / static_cast<double>(given.max_model_len) : 0;
}

// The capacity line as vLLM prints it.
Result<Figure> boot_line(const LessonWorld&, const Given& given) {
  return Figure(fmt::format("GPU KV cache size: {} tokens, Maximum concurrency for {} tokens per request: {:.2f}x",
                            format_thousands(static_cast<int64_t>(given.kv_tokens)),
                            format_thousands(given.max_model_len), concurrency(given)));
}

// Scores of one layer, 16 bits each, unless a kernel keeps them on chip.
Result<Figure> score_matrix(const LessonWorld& world, const Given& given) {
  if (given.has_flash_attention) return number(0.0);
  ULLAGE_TRY(const model::ModelShape shape, lesson_shape(world, given));
  ULLAGE_TRY(const model::Attention* attention, first_attention(shape));
  const double tokens = given.prompt > 0 ? given.prompt : tokens_each(given, plan::Scenario{});
  return number(static_cast<double>(attention->num_heads) * tokens * tokens * 2 / kBytesPerGiB);
}

Result<Figure> default_utilization(const LessonWorld&, const Given& given) {
  const std::string name = given.version.empty() ? given.engine : given.engine + "-" + given.version;
  ULLAGE_TRY(const memory::EngineProfile* profile, memory::find_engine_profile(name, "engine"));
  return number(profile->gpu_memory_utilization);
}

Result<Figure> smaller_than_mha(const LessonWorld& world, const Given& given) {
  Given mha = given;
  mha.force_mha = given.model.empty() ? false : true;
  mha.kv_heads = given.model.empty() ? given.heads : 0;
  ULLAGE_TRY(const double own, kv_rate(world, given));
  ULLAGE_TRY(const double full, kv_rate(world, mha));
  return number(full / own);
}

constexpr auto kFigures = std::to_array<NamedFigure>({
    {"kv_bytes_per_token",
     [](const LessonWorld& w, const Given& g) -> Result<Figure> {
       ULLAGE_TRY(const double rate, kv_rate(w, g));
       return number(rate);
     }},
    {"kv_kib_per_token",
     [](const LessonWorld& w, const Given& g) -> Result<Figure> {
       ULLAGE_TRY(const double rate, kv_rate(w, g));
       return number(rate / static_cast<double>(kKiB));
     }},
    {"kv_gib", kv_gib},
    {"gib_per_sequence", gib_per_sequence},
    {"parameters_billion", parameters},
    {"weights_gib", weights_gib},
    {"pool_gib", pool_gib},
    {"pool_total_gib", pool_total},
    {"resident_max", resident},
    {"resident", resident},
    {"running", running},
    {"waiting", waiting},
    {"limit", limit},
    {"fits", fits},
    {"reason", reason},
    {"kv_heads_per_rank",
     [](const LessonWorld& w, const Given& g) -> Result<Figure> {
       ULLAGE_TRY(const auto heads, divided_heads(w, g));
       return number(heads.first);
     }},
    {"replication",
     [](const LessonWorld& w, const Given& g) -> Result<Figure> {
       ULLAGE_TRY(const auto heads, divided_heads(w, g));
       return number(heads.second);
     }},
    {"head_dim",
     [](const LessonWorld& w, const Given& g) -> Result<Figure> {
       ULLAGE_TRY(const model::ModelShape shape, lesson_shape(w, g));
       ULLAGE_TRY(const model::Attention* attention, first_attention(shape));
       return number(attention->head_dim);
     }},
    {"hidden_over_heads",
     [](const LessonWorld& w, const Given& g) -> Result<Figure> {
       ULLAGE_TRY(const model::ModelShape shape, lesson_shape(w, g));
       ULLAGE_TRY(const model::Attention* attention, first_attention(shape));
       return number(static_cast<double>(shape.hidden_size) / static_cast<double>(attention->num_heads));
     }},
    {"gqa_factor",
     [](const LessonWorld& w, const Given& g) -> Result<Figure> {
       ULLAGE_TRY(const model::ModelShape shape, lesson_shape(w, g));
       ULLAGE_TRY(const model::Attention* attention, first_attention(shape));
       return number(static_cast<double>(attention->num_heads) / static_cast<double>(attention->num_kv_heads));
     }},
    {"times_smaller_than_mha", smaller_than_mha},
    {"token_computations_without_cache",
     [](const LessonWorld&, const Given& g) -> Result<Figure> {
       return number(plan::computations_without_cache(g.answer_tokens));
     }},
    {"token_computations_with_cache",
     [](const LessonWorld&, const Given& g) -> Result<Figure> { return number(g.answer_tokens); }},
    {"earlier_tokens_recomputed_at_step",
     [](const LessonWorld&, const Given& g) -> Result<Figure> { return number(std::max<int64_t>(0, g.step - 1)); }},
    {"ratio", ratio},
    {"max_concurrency", [](const LessonWorld&, const Given& g) -> Result<Figure> { return number(concurrency(g)); }},
    {"line", boot_line},
    {"real_ceiling",
     [](const LessonWorld&, const Given& g) -> Result<Figure> {
       return number(plan::ceiling_at(g.kv_tokens, g.p95_tokens));
     }},
    {"score_matrix_gib_per_layer", score_matrix},
    {"gpu_memory_utilization", default_utilization},
    {"needed",
     [](const LessonWorld&, const Given& g) -> Result<Figure> {
       return number(plan::load_of(g.qps, g.mean_duration_s, static_cast<int64_t>(g.ceiling)).needed_slots);
     }},
    {"idle_slots_for_batch",
     [](const LessonWorld&, const Given& g) -> Result<Figure> {
       return number(plan::load_of(g.qps, g.mean_duration_s, static_cast<int64_t>(g.ceiling)).idle_slots);
     }},
});

}  // namespace

std::span<const NamedFigure> memory_figures() { return kFigures; }

Result<double> gib_of(const LessonWorld& world, const Given& given, double tokens) {
  ULLAGE_TRY(const double bytes, request_bytes(world, given, tokens));
  return bytes / kBytesPerGiB;
}

}  // namespace ullage::observe
