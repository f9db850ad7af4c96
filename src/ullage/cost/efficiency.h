// Which shares of a device's peaks engines reach, fitted to measurements: what makes a modelled time a calibrated one.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ullage/cost/step_cost.h"

namespace ullage::cost {

// Constants of one engine on one device, and how far predictions with them were off on rows that they were not fitted
// to.
struct Calibration {
  std::string_view engine;  // "vllm", "sglang", "trtllm"; "" = of any
  std::string_view device;  // the catalogue's id; "" = of any
  Efficiency efficiency = {};
  double ttft_overhead = 0;  // seconds from a request's arrival to its first step, and back to its client
  double ttft_wave = 0;      // share of the other requests whose prompts a request finds before its own
  // Relative errors: half of the rows lie within the first, nine in ten within the second.
  double tpot_error = 0;
  double tpot_error_p90 = 0;
  double ttft_error = 0;
  double ttft_error_p90 = 0;
  int32_t num_fitted = 0;  // rows
  int32_t num_stated = 0;  // other rows, of which the errors are
  std::string_view evidence;
};

std::span<const Calibration> calibrations();

// The calibration of an engine on a device; else the engine's on any; else of any engine. Never nullptr for an engine
// that serves on accelerators ("vllm", "sglang", "trtllm" or unknown to the table); what it stands on is in the result.
const Calibration& find_calibration(std::string_view engine, std::string_view device_id);

}  // namespace ullage::cost
