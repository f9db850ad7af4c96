// The kernels alone, on one thread: google-benchmark's usual flags apply. Names: matmul/<isa>/<format>/<tokens>.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "ullage/cpu/kernels.h"

namespace {

using namespace ullage;

// A matrix of 576 x 576 (SmolLM2-135M's attention output) inside the L2 cache, times a number of tokens.
void run_matmul(benchmark::State& state, const cpu::Kernels* kernels, model::DType dtype) {
  constexpr int64_t kSize = 576;
  const int64_t tokens = state.range(0);
  std::vector<std::byte> data(static_cast<size_t>(kSize * model::row_bytes(dtype, kSize)));
  const cpu::Matrix matrix{data.data(), dtype, kSize, kSize, model::row_bytes(dtype, kSize)};
  const int64_t stride = cpu::padded_width(kSize);
  std::vector<float> x(static_cast<size_t>(tokens * stride), 1.0f), out(x.size());
  std::vector<float> scratch(static_cast<size_t>(cpu::matmul_scratch_floats(kSize)));
  cpu::MatmulArgs args;
  args.matrix = &matrix;
  args.row_end = kSize;
  args.x = x.data();
  args.x_stride = stride;
  args.num_tokens = tokens;
  args.out = out.data();
  args.out_stride = stride;
  args.scratch = scratch.data();
  for (auto _ : state) {
    kernels->matmul(args);
    benchmark::ClobberMemory();
  }
  state.counters["FLOP/s"] = benchmark::Counter(static_cast<double>(2 * kSize * kSize * tokens),
                                                benchmark::Counter::kIsIterationInvariantRate);
  state.counters["weight_B/s"] =
      benchmark::Counter(static_cast<double>(data.size()), benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace

int main(int argc, char** argv) {
  for (const cpu::Isa isa : {cpu::Isa::kPortable, cpu::Isa::kAvx2, cpu::Isa::kAvx512}) {
    const auto kernels = cpu::select_kernels(isa);
    if (!kernels) continue;
    for (const model::DType dtype : {model::DType::kF32, model::DType::kF16, model::DType::kBF16, model::DType::kQ8_0,
                                     model::DType::kQ4_1, model::DType::kQ4_0, model::DType::kQ6_K}) {
      const std::string name = std::string("matmul/") + (*kernels)->name + "/" + model::info(dtype).name;
      benchmark::RegisterBenchmark(name.c_str(), run_matmul, *kernels, dtype)->Arg(1)->Arg(4)->Arg(64);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
