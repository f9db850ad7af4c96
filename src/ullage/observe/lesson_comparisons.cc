#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/ascii.h"
#include "ullage/observe/lesson_metrics.h"
#include "ullage/plan/plan.h"

namespace ullage::observe {
namespace {

Result<double> value_of(const LessonWorld& world, const Given& given, std::string_view key) {
  ULLAGE_TRY(const std::optional<Figure> figure, figure_of(world, given, key));
  if (figure) {
    if (const double* number = std::get_if<double>(&*figure)) return *number;
  }
  return Error{ErrorCode::kUnsupported, fmt::format("no figure is called \"{}\"", key), "expect"};
}

// The figure that a comparison speaks of by a shorter name.
std::string_view figure_named(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kShort{{
      {"throughput", "throughput_tok_s"},
      {"ttft", "ttft_ms"},
      {"itl", "itl_ms"},
      {"step", "step_ms"},
      {"batch", "running"},
      {"pool", "pool_gib"},
      {"pool_total", "pool_total_gib"},
      {"resident", "resident_max"},
      {"bytes_per_rank", "bytes_per_rank_gb"},
  }};
  for (const auto& [name_used, figure] : kShort) {
    if (name_used == name) return figure;
  }
  return name;
}

// `given` with what "bf16", "one", "h100", "4096" or a model's name says put back; none when it says nothing known.
std::optional<Given> baseline(const LessonWorld& world, const Given& given, std::string_view what) {
  Given out = given;
  if (what.empty()) {
    out.peak_times = 1;
    return out;
  }
  if (what == "bf16") {
    out.kv = "bf16";
    out.weights = "bf16";
    return out;
  }
  if (what == "one") {
    out.tensor_parallel = 1;
    return out;
  }
  if (what == "mha") {
    out.force_mha = true;
    return out;
  }
  if (const auto prompt = number_between(what, "", "")) {
    out.prompt = static_cast<double>(*prompt);
    return out;
  }
  const auto lower = [](std::string_view text) {
    std::string low = to_lower(text);
    std::replace(low.begin(), low.end(), '-', '_');
    return low;
  };
  for (const hardware::Device& device : world.devices) {
    const std::string id = lower(device.id);
    if (id != what && !id.starts_with(std::string(what) + "_")) continue;
    out.device = device.id;
    return out;
  }
  // A model: its own name in lower case with underlines.
  for (const model::ModelShape& shape : world.models) {
    if (lower(shape.name) == what) {
      out.model = shape.name;
      return out;
    }
  }
  for (const std::string_view known : {"Llama-3.1-8B", "Llama-2-7B", "Qwen2.5-7B-Instruct", "DeepSeek-V3"}) {
    if (lower(known) == what) {
      out.model = std::string(known);
      return out;
    }
  }
  return std::nullopt;
}

// "resident_times_bf16", "throughput_times": this variant over itself with one thing put back.
Result<std::optional<double>> times_of(const LessonWorld& world, const std::vector<Given>& variants,
                                       std::string_view key) {
  constexpr std::string_view kTimes = "times";
  std::string_view name;
  std::string_view what;
  if (key.starts_with("times_")) {
    name = "kv_bytes_per_token";
    what = key.substr(kTimes.size() + 1);
  } else {
    const size_t at = key.find("_times");
    if (at == std::string_view::npos) return std::optional<double>();
    name = figure_named(key.substr(0, at));
    what = key.substr(at + 1 + kTimes.size());
    if (what.starts_with("_")) what.remove_prefix(1);
  }
  std::optional<Given> base = baseline(world, variants.back(), what);
  if (!base) return std::optional<double>();
  Given given = variants.back();
  if (name == "bytes_per_rank_gb") {
    // The same work on both: as many requests as either runs.
    ULLAGE_TRY(const double here, value_of(world, given, "running"));
    ULLAGE_TRY(const double there, value_of(world, *base, "running"));
    given.concurrent = static_cast<int64_t>(std::max(1.0, std::min(here, there)));
    base->concurrent = given.concurrent;
  }
  ULLAGE_TRY(const double own, value_of(world, given, name));
  ULLAGE_TRY(const double other, value_of(world, *base, name));
  return std::optional<double>(other != 0 ? own / other : 0.0);
}

Result<double> rate_of(const LessonWorld& world, const Given& given) {
  return value_of(world, given, "kv_bytes_per_token");
}

// "mla_vs_gqa8", "mla_vs_mha128", "gqa8_of_32", "mqa_of_64", "kv_fp8": how many times smaller the cache becomes.
Result<std::optional<double>> technique_of(const LessonWorld& world, const Given& given, std::string_view key) {
  for (const std::string_view prefix : {"mla_vs_gqa", "mla_vs_mha"}) {
    const auto heads = number_between(key, prefix, "");
    if (!heads) continue;
    Given plain = given;
    plain.latent = 0;
    plain.heads = *heads;
    plain.kv_heads = *heads;
    ULLAGE_TRY(const double latent, rate_of(world, given));
    ULLAGE_TRY(const double other, rate_of(world, plain));
    return std::optional<double>(other / latent);
  }
  const size_t of = key.find("_of_");
  if (of != std::string_view::npos) {
    const auto heads = number_between(key.substr(of), "_of_", "");
    const auto groups =
        key.starts_with("mqa") ? std::optional<int64_t>(1) : number_between(key.substr(0, of), "gqa", "");
    if (!heads || !groups) return std::optional<double>();
    Given all = given;
    all.latent = 0;
    all.heads = *heads;
    all.kv_heads = *heads;
    Given grouped = all;
    grouped.kv_heads = *groups;
    ULLAGE_TRY(const double full, rate_of(world, all));
    ULLAGE_TRY(const double few, rate_of(world, grouped));
    return std::optional<double>(full / few);
  }
  if (key.starts_with("kv_")) {
    const int64_t bits = kv_bits(key.substr(3));
    if (bits > 0) {
      return std::optional<double>(static_cast<double>(kv_bits(given.kv)) / static_cast<double>(bits));
    }
  }
  return std::optional<double>();
}

// "base", "awq", "fp8_kv", "context_4096" and such joined by "_and_": requests that a card holds with that changed.
Result<std::optional<double>> card_of(const LessonWorld& world, const Given& given, std::string_view key) {
  if (given.base_weights_gib <= 0) return std::optional<double>();
  Given changed = given;
  changed.weights_gib = given.base_weights_gib;
  if (changed.gpu_memory_utilization <= 0) changed.gpu_memory_utilization = 1;
  std::string_view rest = key;
  while (!rest.empty()) {
    const size_t joint = rest.find("_and_");
    const std::string_view change = rest.substr(0, joint);
    rest = joint == std::string_view::npos ? std::string_view() : rest.substr(joint + 5);
    if (change == "awq") {
      changed.weights_gib = given.awq_weights_gib;
    } else if (change.ends_with("_kv") && kv_bits(change.substr(0, change.size() - 3)) > 0) {
      changed.kv_bytes_per_token *= static_cast<double>(kv_bits(change.substr(0, change.size() - 3))) / 16;
    } else if (const auto context = number_between(change, "context_", "")) {
      changed.context = static_cast<double>(*context);
    } else if (change != "base") {
      return std::optional<double>();
    }
  }
  ULLAGE_TRY(const double resident, value_of(world, changed, "resident_max"));
  return std::optional<double>(resident);
}

}  // namespace

Result<std::optional<double>> comparison_of(const LessonWorld& world, const std::vector<Given>& variants,
                                            std::string_view key) {
  using Found = std::optional<double>;
  ULLAGE_TRY(Found card, card_of(world, variants.front(), key));
  if (card) return card;
  ULLAGE_TRY(Found technique, technique_of(world, variants.front(), key));
  if (technique) return technique;
  ULLAGE_TRY(Found times, times_of(world, variants, key));
  if (times) return times;
  if (key == "resident_gain") {
    const std::optional<Given> base = baseline(world, variants.back(), "bf16");
    ULLAGE_TRY(const double own, value_of(world, variants.back(), "resident_max"));
    ULLAGE_TRY(const double other, value_of(world, *base, "resident_max"));
    return Found(own - other);
  }
  for (const auto& [suffix, index] : {std::pair<std::string_view, size_t>{"_first", 0}, {"_second", 1}}) {
    if (!key.ends_with(suffix) || variants.size() <= index) continue;
    ULLAGE_TRY(const double value,
               value_of(world, variants[index], figure_named(key.substr(0, key.size() - suffix.size()))));
    return Found(value);
  }
  if (variants.size() < 2) return Found();
  const Given& first = variants.front();
  const Given& second = variants[1];
  const auto relation = [&](std::string_view name) -> Result<double> {
    ULLAGE_TRY(const double a, value_of(world, first, name));
    ULLAGE_TRY(const double b, value_of(world, second, name));
    return a != 0 ? b / a : 0.0;
  };
  if (key == "growth") {
    ULLAGE_TRY(const double factor, relation("parameters_billion"));
    return Found(factor - 1);
  }
  if (key == "per_stream_slowdown") {
    ULLAGE_TRY(const double factor, relation("step_ms"));
    return Found(factor);
  }
  if (key == "with_communication_speedup") {
    ULLAGE_TRY(const double factor, relation("step_ms"));
    return Found(factor > 0 ? 1 / factor : 0);
  }
  constexpr std::string_view kRatio = "_ratio";
  if (key.ends_with(kRatio)) {
    ULLAGE_TRY(const double factor, relation(figure_named(key.substr(0, key.size() - kRatio.size()))));
    // Of devices named side by side, the slower one's time over the other's.
    return Found(first.device != second.device && factor > 0 && factor < 1 ? 1 / factor : factor);
  }
  return Found();
}

Result<std::optional<std::vector<double>>> list_of(const LessonWorld& world, const std::vector<Given>& variants,
                                                   std::string_view key) {
  using Found = std::optional<std::vector<double>>;
  // "bf16_tokens", "fp8_batch1_tokens": the context at which KV outweighs weights, of the variants of that KV dtype.
  constexpr std::string_view kTokens = "_tokens";
  if (!key.ends_with(kTokens)) return Found();
  std::string_view kv = key.substr(0, key.size() - kTokens.size());
  std::optional<int64_t> batch;
  if (const size_t at = kv.find("_batch"); at != std::string_view::npos) {
    batch = number_between(kv.substr(at), "_batch", "");
    if (!batch) return Found();
    kv = kv.substr(0, at);
  }
  if (kv_bits(kv) == 0) return Found();
  std::vector<double> out;
  out.reserve(variants.size());
  for (const Given& variant : variants) {
    if (variant.kv != kv || (batch && variant.batch != *batch)) continue;
    ULLAGE_TRY(const double tokens, value_of(world, variant, "crossover_context_tokens"));
    out.push_back(tokens);
  }
  return Found(std::move(out));
}

}  // namespace ullage::observe
