// Sets that state errors. Inside observe/.
#pragma once

#include <string>
#include <string_view>

#include "ullage/memory/startup.h"
#include "ullage/model/model_shape.h"
#include "ullage/observe/reference_logged.h"
#include "ullage/observe/reference_rows.h"

namespace ullage::observe {

SetResult silicon_table(const ReferenceFiles& files, ReferenceModels& models);
SetResult splitwise_table(const ReferenceFiles& files);

// A start from nothing but model, flags and device, for rows of start-ups.
struct ScratchStart {
  LoggedStart start;
  std::string device;        // as the row names it
  double utilization = 0;    // 0 = the engine's default
  int64_t max_num_seqs = 0;  // 0 = the engine's default on the device
  bool is_eager = false;
};
Result<memory::StartupPrediction> predict_start(const model::ModelShape& shape, const ScratchStart& scratch);
// The shape with the weights that a row names: "fp8", "w8a8", "awq", "nvfp4", ... and "float32" for all of them.
Result<model::ModelShape> shape_as_loaded(const model::ModelShape& shape, const MappedModel& mapped,
                                          std::string_view quantization, std::string_view dtype);

}  // namespace ullage::observe
