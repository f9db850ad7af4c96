// How many full evaluations (capacity and time) a planner makes a second on one core.
//
//   cmake --preset release -B build/release -DULLAGE_BUILD_BENCH=ON && cmake --build build/release --target
//   bench_plan_speed build/release/bench_plan_speed
//
// "items_per_second" is the number of evaluations; each differs from the one before in the levers named.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>

#include "ullage/hardware/device.h"
#include "ullage/memory/engine_profile.h"
#include "ullage/model/model_shape.h"
#include "ullage/plan/evaluate.h"

namespace {

using namespace ullage;  // NOLINT: a program of one file

// Llama-3.1-8B, and one with a sliding window of 1,024 in five of six layers.
model::ModelShape dense(bool has_windows) {
  model::ModelShape shape;
  shape.architecture = "llama";
  shape.vocab_size = 128256;
  shape.hidden_size = 4096;
  shape.max_position_embeddings = 131072;
  model::Attention attention;
  attention.num_heads = 32;
  attention.num_kv_heads = 8;
  attention.head_dim = 128;
  model::LayerShape layer;
  layer.mixer = attention;
  layer.ffn = model::DenseFfn{.intermediate_size = 14336};
  shape.layers.assign(32, layer);
  for (size_t i = 0; has_windows && i < shape.layers.size(); ++i) {
    if (i % 6 != 5) std::get<model::Attention>(shape.layers[i].mixer).sliding_window = 1024;
  }
  return shape;
}

struct World {
  explicit World(bool has_windows = false) : shape(dense(has_windows)), device(*hardware::find_device("h100")) {
    scenario.shape = &shape;
    scenario.device = &device;
    scenario.profile = *memory::find_engine_profile("vllm");
    scenario.price_per_hour = 3;
    scenario.qps = 2;
  }
  model::ModelShape shape;
  hardware::Device device;
  plan::Scenario scenario;
  plan::Planner planner;
};

// A cheap walk over lengths and concurrency.
void move_requests(plan::Scenario& s, uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  s.prompt_tokens = static_cast<double>(1 + (state >> 33U) % 100000);
  s.output_tokens = static_cast<double>(1 + (state >> 20U) % 2000);
  s.concurrency = static_cast<int64_t>(1 + (state >> 50U) % 512);
}

void run(benchmark::State& state, World& world, const auto& change) {
  uint64_t walk = 1;
  for (auto _ : state) {
    change(world.scenario, walk);
    const auto evaluation = world.planner.evaluate(world.scenario);
    if (!evaluation) {
      state.SkipWithError(evaluation.error().to_string().c_str());
      return;
    }
    benchmark::DoNotOptimize(evaluation->timing.output_tokens_per_second);
  }
  state.SetItemsProcessed(state.iterations());
}

void evaluate_requests(benchmark::State& state) {
  World world;
  run(state, world, [](plan::Scenario& s, uint64_t& walk) { move_requests(s, walk); });
}
BENCHMARK(evaluate_requests);

void evaluate_requests_with_windows(benchmark::State& state) {
  World world(true);
  run(state, world, [](plan::Scenario& s, uint64_t& walk) { move_requests(s, walk); });
}
BENCHMARK(evaluate_requests_with_windows);

// Every lever of a sweep in turn: KV dtype, ranks, utilisation, max_num_seqs, lengths, concurrency.
void evaluate_sweep(benchmark::State& state) {
  World world;
  run(state, world, [](plan::Scenario& s, uint64_t& walk) {
    move_requests(s, walk);
    constexpr std::array<model::KvDType, 2> kDTypes{model::KvDType::kBF16, model::KvDType::kFP8E4M3};
    s.kv_dtype = kDTypes[(walk >> 30U) % 2];
    s.parallelism.tensor = int64_t{1} << ((walk >> 40U) % 3);
    s.gpu_memory_utilization = 0.80 + 0.01 * static_cast<double>((walk >> 45U) % 16);
    s.max_num_seqs = 64 << ((walk >> 55U) % 4);
  });
}
BENCHMARK(evaluate_sweep);

// A model, device and engine that were not seen before: all of it made anew.
void evaluate_first(benchmark::State& state) {
  World world;
  for (auto _ : state) {
    plan::Planner planner;
    const auto evaluation = planner.evaluate(world.scenario);
    benchmark::DoNotOptimize(evaluation->running);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(evaluate_first);

}  // namespace

BENCHMARK_MAIN();
