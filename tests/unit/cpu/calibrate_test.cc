#include "ullage/cpu/calibrate.h"

#include <gtest/gtest.h>

#include "ullage/base/json.h"
#include "ullage/hardware/device_json.h"

namespace ullage::cpu {
namespace {

CalibrationOptions quick() {
  CalibrationOptions options;
  options.num_threads = 2;
  options.stream = Bytes(int64_t{8} << 20);
  options.measure = {.num_rounds = 1, .min_round = 1};
  return options;
}

TEST(Calibrate, MeasuresEveryDtype) {
  const RealClock clock;
  std::vector<std::string> steps;
  const auto calibration =
      calibrate(quick(), clock, [&](const std::string& step) { steps.push_back(step); }, [] { return false; });
  ASSERT_TRUE(calibration) << calibration.error().to_string();
  EXPECT_GT(calibration->read.median, 1e8);
  EXPECT_GT(calibration->usable_memory.value, 0);
  EXPECT_GE(calibration->total_memory.value, int64_t{1} << 26);
  ASSERT_EQ(calibration->kernels.size(), 6u);
  EXPECT_EQ(steps.size(), 7u);
  for (const KernelRate& kernel : calibration->kernels) {
    EXPECT_GT(kernel.flops.median, 1e7) << model::info(kernel.dtype).name;
    EXPECT_GT(kernel.read.median, 1e6) << model::info(kernel.dtype).name;
  }
}

TEST(Calibrate, StopsWhenAsked) {
  const RealClock clock;
  const auto calibration = calibrate(quick(), clock, [](const std::string&) {}, [] { return true; });
  ASSERT_FALSE(calibration);
  EXPECT_EQ(calibration.error().code, ErrorCode::kUnavailable);
}

TEST(CalibratedDevice, IsReadBackByTheCatalogue) {
  // given measured figures
  Calibration calibration;
  calibration.read.median = 12'345'678'901.0;
  calibration.kernels = {{model::DType::kF32, {.median = 1.23456e11}, {}}, {model::DType::kBF16, {.median = 2e11}, {}}};
  calibration.kernel_name = "avx2";
  calibration.num_threads = 2;
  calibration.total_memory = Bytes(8 * kGiB);
  calibration.usable_memory = Bytes(6 * kGiB);
  // when they are a device
  const hardware::Device device = calibrated_device(calibration);
  EXPECT_EQ(device.id, "this");
  EXPECT_DOUBLE_EQ(device.bandwidth, 1.235e10);  // four digits
  EXPECT_DOUBLE_EQ(device.flops.fp32, 1.235e11);
  EXPECT_DOUBLE_EQ(device.flops.int8, 0);
  // then a --devices file of it gives the same device
  const std::string file = R"({"devices":[)" + dump_json(hardware::device_json(device)) + "]}";
  const auto merged = hardware::merge_devices(hardware::known_devices(), file, "this.json");
  ASSERT_TRUE(merged) << merged.error().to_string();
  EXPECT_EQ(merged->back(), device);
}

}  // namespace
}  // namespace ullage::cpu
