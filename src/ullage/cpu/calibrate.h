// What this machine really does: bandwidth of reading memory and FLOP/s of the engine's own kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ullage/base/clock.h"
#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/cpu/kernels.h"
#include "ullage/hardware/device.h"
#include "ullage/hardware/measure.h"
#include "ullage/model/dtype.h"

namespace ullage::cpu {

struct CalibrationOptions {
  int64_t num_threads = 1;  // at least 1
  Isa isa = Isa::kAuto;
  Bytes stream{int64_t{512} << 20};  // read in each pass; must be larger than the caches
  hardware::MeasureOptions measure;
};

struct KernelRate {
  model::DType dtype = model::DType::kF32;  // of the weights
  hardware::Rate flops;                     // FLOP/s of a product with many tokens (prefill)
  hardware::Rate read;                      // bytes/s of weights read by a product with one token (decode)
};

struct Calibration {
  hardware::Rate read;              // bytes/s of all threads that read memory
  std::vector<KernelRate> kernels;  // of each dtype of weights that the engine has
  std::string kernel_name;          // "avx2"
  int64_t num_threads = 0;
  std::string processor;  // as the system names it; may be empty
  Bytes total_memory;     // of the machine
  Bytes usable_memory;    // of this process, now
};

// Runs some seconds, alone on its threads if the machine is idle. `progress` is told what is measured next;
// `is_stopped` ends it with kUnavailable. kTooLarge when memory for the stream is missing.
Result<Calibration> calibrate(const CalibrationOptions& options, const Clock& clock,
                              const std::function<void(const std::string& step)>& progress,
                              const std::function<bool()>& is_stopped);

// The figures as a device with the id "this": bf16 is the rate with BF16 weights, int8 with Q8_0, fp32 with F32. No
// link.
hardware::Device calibrated_device(const Calibration& calibration);

}  // namespace ullage::cpu
