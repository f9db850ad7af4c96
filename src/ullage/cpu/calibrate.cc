#include "ullage/cpu/calibrate.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "ullage/cpu/cpu_executor.h"
#include "ullage/cpu/thread_pool.h"

namespace ullage::cpu {
namespace {

using model::DType;

constexpr DType kMeasured[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_K};
constexpr int64_t kColumns = 4096;          // of a matrix of an ordinary model
constexpr int64_t kPrefillTokens = 256;     // enough that reading weights is no matter
constexpr int64_t kPrefillRows = 1024;      // of the matrix for prefill
constexpr int64_t kRowsAnItem = 64;         // as the executor divides them (cpu_executor.cc)
constexpr int64_t kDecodeRowsAnItem = 512;  // likewise, of one token
constexpr int64_t kStreamChunk = int64_t{1} << 20;
constexpr auto kFill = std::byte{0x3c};  // an ordinary number in every format

// Memory that is touched, so that the system has given it. Null when there is too little.
std::unique_ptr<std::byte[]> filled(int64_t bytes) {
  std::unique_ptr<std::byte[]> data(new (std::nothrow) std::byte[static_cast<size_t>(bytes)]);
  if (data) std::memset(data.get(), static_cast<int>(kFill), static_cast<size_t>(bytes));
  return data;
}

// Sums 8-byte words, eight sums side by side: as many loads as the core can have on their way.
uint64_t sum_words(const std::byte* data, int64_t bytes) {
  uint64_t sums[8] = {};
  for (int64_t at = 0; at + 64 <= bytes; at += 64) {
    uint64_t words[8];
    std::memcpy(words, data + at, sizeof words);
    for (int i = 0; i < 8; ++i) sums[i] += words[i];
  }
  uint64_t sum = 0;
  for (const uint64_t part : sums) sum += part;
  return sum;
}

Error too_little(int64_t bytes) {
  return Error{ErrorCode::kTooLarge,
               fmt::format("found no {} of free memory to read through; free some, or give a smaller --stream",
                           format_bytes(Bytes(bytes))),
               "memory"};
}

struct Bench {
  const CalibrationOptions& options;
  const Clock& clock;
  const std::function<bool()>& is_stopped;
  const Kernels& kernels;
  ThreadPool& threads;

  Result<hardware::Rate> read() const {
    const int64_t bytes = options.stream.value;
    const std::unique_ptr<std::byte[]> data = filled(bytes);
    if (!data) return too_little(bytes);
    std::atomic<uint64_t> sink{0};  // so that no compiler leaves the reading out
    const auto pass = [&] {
      threads.run(ceil_div(bytes, kStreamChunk), [&](int64_t item, int64_t) {
        const int64_t begin = item * kStreamChunk;
        sink.fetch_add(sum_words(data.get() + begin, std::min(kStreamChunk, bytes - begin)), std::memory_order_relaxed);
      });
    };
    return hardware::measure_rate(clock, options.measure, static_cast<double>(bytes), pass, is_stopped);
  }

  // A product of a [rows, kColumns] matrix with `tokens` vectors.
  Result<hardware::Rate> product(DType dtype, int64_t rows, int64_t tokens, int64_t rows_an_item,
                                 double units_a_call) const {
    const int64_t matrix_bytes = rows * model::row_bytes(dtype, kColumns);
    const std::unique_ptr<std::byte[]> data = filled(matrix_bytes);
    if (!data) return too_little(matrix_bytes);
    const Matrix matrix{data.get(), dtype, rows, kColumns, model::row_bytes(dtype, kColumns)};
    const int64_t width = padded_width(kColumns);
    const std::vector<float> x(static_cast<size_t>(tokens * width), 0.01f);
    std::vector<float> out(static_cast<size_t>(tokens * rows));
    const auto scratch_floats = static_cast<size_t>(matmul_scratch_floats(kColumns));
    std::vector<std::vector<float>> scratch(static_cast<size_t>(threads.num_threads()),
                                            std::vector<float>(scratch_floats));
    const auto multiply = [&] {
      threads.run(ceil_div(rows, rows_an_item), [&](int64_t item, int64_t thread) {
        MatmulArgs args;
        args.matrix = &matrix;
        args.row_begin = item * rows_an_item;
        args.row_end = std::min(rows, (item + 1) * rows_an_item);
        args.x = x.data();
        args.x_stride = width;
        args.num_tokens = tokens;
        args.out = out.data();
        args.out_stride = rows;
        args.scratch = scratch[static_cast<size_t>(thread)].data();
        kernels.matmul(args);
      });
    };
    return hardware::measure_rate(clock, options.measure, units_a_call, multiply, is_stopped);
  }

  Result<KernelRate> kernel(DType dtype) const {
    KernelRate rate;
    rate.dtype = dtype;
    const double flop = 2.0 * kPrefillRows * kColumns * kPrefillTokens;
    ULLAGE_TRY(rate.flops, product(dtype, kPrefillRows, kPrefillTokens, kRowsAnItem, flop));
    const int64_t row = model::row_bytes(dtype, kColumns);
    const int64_t rows = std::max<int64_t>(1, options.stream.value / row);
    ULLAGE_TRY(rate.read, product(dtype, rows, 1, std::min(kDecodeRowsAnItem, ceil_div(rows, threads.num_threads())),
                                  static_cast<double>(rows * row)));
    return rate;
  }
};

// The value of the first line "key : value" of a file of /proc; empty when there is none.
std::string proc_field(const char* path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const size_t first = line.find_first_not_of(" \t", colon + 1);
    return first == std::string::npos ? "" : line.substr(first);
  }
  return "";
}

Bytes total_memory(Bytes fallback) {
  const std::string text = proc_field("/proc/meminfo", "MemTotal");
  const Result<Bytes> kib = parse_bytes(text.substr(0, text.find(' ')), "/proc/meminfo");
  return kib && kib->value > 0 && kib->value < (int64_t{1} << 50) ? *kib * kKiB : fallback;
}

// Four digits: more would pretend.
double rounded(double value) {
  double scale = 1;
  while (value / scale >= 10000) scale *= 10;
  return std::round(value / scale) * scale;
}

double flops_of(const Calibration& calibration, DType dtype) {
  for (const KernelRate& kernel : calibration.kernels) {
    if (kernel.dtype == dtype) return rounded(kernel.flops.median);
  }
  return 0;
}

}  // namespace

Result<Calibration> calibrate(const CalibrationOptions& options, const Clock& clock,
                              const std::function<void(const std::string& step)>& progress,
                              const std::function<bool()>& is_stopped) {
  ULLAGE_TRY(const Kernels* kernels, select_kernels(options.isa));
  ThreadPool threads(options.num_threads);
  const Bench bench{options, clock, is_stopped, *kernels, threads};
  Calibration calibration;
  calibration.kernel_name = kernels->name;
  calibration.num_threads = threads.num_threads();
  calibration.processor = proc_field("/proc/cpuinfo", "model name");
  calibration.usable_memory = available_memory();
  calibration.total_memory = total_memory(calibration.usable_memory);
  progress("reading memory");
  ULLAGE_TRY(calibration.read, bench.read());
  calibration.kernels.reserve(std::size(kMeasured));
  for (const DType dtype : kMeasured) {
    progress(fmt::format("{} weights", model::info(dtype).name));
    ULLAGE_TRY(KernelRate rate, bench.kernel(dtype));
    calibration.kernels.push_back(rate);
  }
  return calibration;
}

hardware::Device calibrated_device(const Calibration& calibration) {
  hardware::Device device;
  device.id = "this";
  device.name = calibration.processor.empty() ? "this machine" : calibration.processor;
  device.kind = device.name;
  device.category = "cpu";
  device.aliases = {"this-machine", "cpu"};
  device.nominal_memory = std::max(calibration.total_memory, calibration.usable_memory);
  device.usable_memory = calibration.usable_memory;
  // A kernel that streams its weights reads memory too; the faster of the two is what the memory can do.
  double read = calibration.read.median;
  for (const KernelRate& kernel : calibration.kernels) read = std::max(read, kernel.read.median);
  device.bandwidth = rounded(read);
  device.flops.fp32 = flops_of(calibration, DType::kF32);
  device.flops.bf16 = flops_of(calibration, DType::kBF16);
  device.flops.int8 = flops_of(calibration, DType::kQ8_0);
  device.source = fmt::format("measured by ullage calibrate: {} threads, {} kernels, median of {} rounds",
                              calibration.num_threads, calibration.kernel_name, calibration.read.num_rounds);
  return device;
}

}  // namespace ullage::cpu
