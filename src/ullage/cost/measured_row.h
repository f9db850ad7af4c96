// Rows of published measurements (reference/silicon's aggregated.csv, splitwise's perf_model.csv) as settings that a
// step cost model can price, and the prediction of one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ullage/base/result.h"
#include "ullage/cost/serving.h"

namespace ullage::cost {

// Fields as the file has them; 0 or "" where it has none.
struct MeasuredRow {
  std::string backend;  // "vllm", "sglang", "trtllm"
  std::string system;   // "h100_sxm"
  std::string precision;
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  int64_t batch_size = 0;  // clients' concurrency, of one attention replica
  int64_t tp_size = 0;
  int64_t pp_size = 0;
  int64_t attention_dp_size = 0;
  int64_t moe_tp_size = 0;
  int64_t moe_ep_size = 0;
};

struct RowSetting {
  std::string device;  // the catalogue's id
  model::Parallelism parallelism;
  model::KvDType kv_dtype = model::KvDType::kBF16;
  double concurrency = 0;  // of one replica
};
// kInvalidArgument for rows without lengths or concurrency. Rows that count their devices twice (tensor or attention
// data parallelism given as the product of two equal sizes, as expert-parallel runs are recorded) are read as the
// product's root.
Result<RowSetting> row_setting(const MeasuredRow& row);

// The shape with its weights in the row's precision: "bf16" or "" as stored, "fp8", "fp4". NVFP4 copies of models with
// experts leave attention as it is, as their publishers do. A checkpoint that is stored in that width already stays.
Result<model::ModelShape> shape_in_precision(const model::ModelShape& shape, std::string_view precision);

struct RowPrediction {
  double tpot_seconds = 0;
  double ttft_seconds = 0;
};
struct RowPredictions {
  RowPrediction modelled;    // the bare roofline
  RowPrediction calibrated;  // with find_calibration's constants
  const Calibration* calibration = nullptr;
};
// `shape` in the row's precision. `max_running`: requests of one replica that fit in memory; 0 = all.
Result<RowPredictions> predict_row(const model::ModelShape& shape, const hardware::Device& device,
                                   const MeasuredRow& row, double max_running);

// For many rows of one shape: `costs` is made once. REQUIRES: check_parallelism passed.
Result<RowPredictions> predict_row(const ModelCosts& costs, const hardware::Device& device, const MeasuredRow& row,
                                   double max_running);

// The models that splitwise measured, "llama2-70b" and "bloom-176b", in 16 bits.
Result<model::ModelShape> splitwise_shape(std::string_view name);

// A prompt of `batch` requests at once, then their decoding, as splitwise measured: prompt_time and token_time.
struct BatchPrediction {
  double prompt_seconds = 0;
  double token_seconds = 0;
};
Result<BatchPrediction> predict_batch(const model::ModelShape& shape, const hardware::Device& device,
                                      const Efficiency& efficiency, int64_t tensor_parallel, int64_t batch,
                                      int64_t prompt_tokens, int64_t output_tokens);

}  // namespace ullage::cost
