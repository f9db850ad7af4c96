#include "ullage/cost/efficiency.h"

#include <array>

namespace ullage::cost {
namespace {

// Fitted to public measurements of mean time per output token and mean time to first token (AIConfigurator's collected
// data, Apache-2.0; 1,956 rows of eight models under constant concurrency), on the half of them whose hash is even;
// errors are of the other half, in which no row has engine, device, model, precision, lengths and concurrency of a
// fitted one. docs/accuracy.md has the tables. Where an engine or a device is missing, the medians stand in; their
// errors are those of predicting each device from the others of its engine, and each engine from the others.
constexpr std::string_view kMeasured = "fitted to half of the measurements of this engine on this device";
constexpr std::string_view kSplitwise =
    "fitted to half of splitwise-sim's measurements (MIT): Llama-2-70B and BLOOM-176B, prompts and tokens apart";
constexpr std::string_view kEngine = "medians of this engine's devices; error: each device predicted from the others";
constexpr std::string_view kAny = "medians of all engines and devices; error: each engine predicted from the others";

// Efficiency: bandwidth, matmul, attention, kv_bandwidth, expert_bandwidth, expert_matmul, link, link_latency,
// layer_overhead, step_overhead, has_serial_kernels. Then TTFT's overhead and wave, and the errors.
constexpr auto kCalibrations = std::to_array<Calibration>({
    // clang-format off
    {"sglang", "b200", {0.921, 0.563, 0.428, 1, 0.783, 0.454, 0.102, 2.05e-05, 6.38e-05, 2.38e-05, true}, 0.15, 0.08, 0.181, 0.350, 0.318, 0.906, 101, 114, kMeasured},
    {"sglang", "b300", {1, 0.763, 0.05, 0.914, 1, 0.57, 0.138, 1.98e-05, 4.39e-05, 0.000891, true}, 0.1, 0.25, 0.140, 0.242, 0.354, 1.221, 48, 65, kMeasured},
    {"sglang", "h200", {0.341, 0.792, 0.117, 0.135, 0.699, 0.437, 0.908, 2.13e-05, 8.11e-05, 0.00144, true}, 0.3, 0.1, 0.066, 0.257, 0.223, 0.924, 8, 22, kMeasured},
    {"trtllm", "b200", {0.879, 0.685, 0.629, 0.54, 0.941, 0.344, 0.373, 2.58e-06, 5.59e-05, 0, true}, 0.04, 0.1, 0.109, 0.354, 0.443, 0.744, 238, 214, kMeasured},
    {"trtllm", "h100", {0.901, 0.662, 0.553, 0.813, 0.722, 0.446, 0.436, 7.24e-06, 3.31e-05, 0.000732, true}, 0.1, 0.08, 0.047, 0.187, 0.274, 0.680, 86, 96, kMeasured},
    {"trtllm", "h200", {0.949, 0.794, 0.504, 0.733, 0.707, 0.592, 0.501, 5.68e-07, 4.14e-05, 0.000711, true}, 0.06, 0.05, 0.033, 0.191, 0.183, 0.632, 28, 44, kMeasured},
    {"vllm", "b200", {0.857, 0.629, 0.577, 0.51, 0.621, 0.649, 0.255, 1.59e-05, 4.35e-05, 0, true}, 0.04, 0.15, 0.102, 0.245, 0.237, 0.531, 287, 216, kMeasured},
    {"vllm", "b300", {0.836, 0.787, 0.745, 0.573, 0.737, 0.399, 0.133, 1.85e-05, 2.61e-05, 0.000934, true}, 0.015, 0.15, 0.059, 0.195, 0.179, 0.613, 57, 53, kMeasured},
    {"vllm", "h100", {0.957, 0.635, 0.459, 0.57, 0.907, 0.245, 0.278, 1.55e-05, 3.22e-05, 0.000895, true}, 0.03, 0.08, 0.055, 1.639, 0.243, 0.930, 62, 52, kMeasured},
    {"vllm", "h200", {1, 0.755, 0.312, 0.545, 0.487, 0.161, 0.763, 3.45e-06, 6.01e-05, 0.00195, true}, 0.08, 0.1, 0.087, 0.162, 0.178, 0.533, 68, 76, kMeasured},
    {"splitwise", "a100-80gb", {1, 0.765, 0.261, 0.213, 0, 0, 0.217, 8.33e-05, 0.00011, 0.0059, true}, 0, 0, 0.062, 0.198, 0.064, 0.275, 150, 270, kSplitwise},
    {"splitwise", "h100", {1, 0.741, 0.0741, 0.21, 0, 0, 0.287, 0.000117, 0, 0.00442, true}, 0, 0, 0.098, 0.185, 0.074, 0.251, 205, 215, kSplitwise},
    {"vllm", "", {0.907, 0.695, 0.518, 0.557, 0.679, 0.322, 0.267, 1.57e-05, 3.78e-05, 0.000914, true}, 0.035, 0.125, 0.116, 0.300, 0.350, 0.900, 0, 0, kEngine},
    {"sglang", "", {0.921, 0.763, 0.117, 0.914, 0.783, 0.454, 0.138, 2.05e-05, 6.38e-05, 0.000891, true}, 0.15, 0.1, 0.210, 0.410, 0.350, 0.900, 0, 0, kEngine},
    {"trtllm", "", {0.901, 0.685, 0.553, 0.733, 0.707, 0.508, 0.436, 2.58e-06, 4.14e-05, 0.000711, true}, 0.06, 0.08, 0.120, 0.600, 0.350, 0.900, 0, 0, kEngine},
    {"", "", {0.911, 0.72, 0.482, 0.571, 0.722, 0.446, 0.326, 1.57e-05, 4.37e-05, 0.000811, true}, 0.07, 0.1, 0.169, 0.495, 0.350, 0.900, 0, 0, kAny},
    // clang-format on
});

}  // namespace

std::span<const Calibration> calibrations() { return kCalibrations; }

const Calibration& find_calibration(std::string_view engine, std::string_view device_id) {
  const Calibration* best = &kCalibrations.back();
  for (const Calibration& each : kCalibrations) {
    if (each.engine != engine) continue;
    if (each.device == device_id && !device_id.empty()) return each;
    if (each.device.empty()) best = &each;
  }
  return *best;
}

}  // namespace ullage::cost
