// `ullage plan --sweep`: one plan for each combination of levers' values, as rows of a table.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/api/plan_input.h"
#include "ullage/base/result.h"
#include "ullage/plan/evaluate.h"

namespace ullage::api {

inline constexpr int64_t kMaxSweepPoints = 1'000'000;

struct SweepAxis {
  std::string key;               // a lever's key, or "model"
  const Lever* lever = nullptr;  // nullptr for "model"
  std::vector<std::string> values;
};

// "kv=bf16,fp8", "prompt=1k..128k" (doubling; the end is always a point), "gpu_memory_utilization=0.8..0.95:0.05"
// (steps of the number after the colon), "model=a,b". A lever goes by its key or any of its flags.
Result<SweepAxis> parse_sweep_axis(std::string_view text, std::string_view where);

// A cell of a row: text as it is printed, and whether it is a number.
struct SweepCell {
  std::string text;
  bool is_number = false;
};

// Runs the combinations one after another, the last axis fastest.
class Sweep {
 public:
  using Models = std::function<Result<std::shared_ptr<const PlanModel>>(const std::string& name)>;

  // kTooLarge above kMaxSweepPoints. `models` reads the names of an axis "model".
  static Result<Sweep> make(PlanInput input, std::vector<SweepAxis> axes, Models models);

  int64_t num_points() const { return num_points_; }
  int64_t next_point() const { return next_; }
  bool is_done() const { return next_ == num_points_; }
  // The axes' keys, then the answers' names.
  std::vector<std::string> columns() const;
  // A point that cannot be planned (heads that do not divide, say) has its error in the last column and empty answers.
  std::vector<SweepCell> next();

 private:
  Result<plan::Evaluation> evaluate(const std::vector<std::string>& values);

  PlanInput input_;
  std::vector<SweepAxis> axes_;
  Models models_;
  DeviceShelf shelf_;
  plan::Planner planner_;
  std::vector<std::pair<std::string, std::shared_ptr<const PlanModel>>> read_models_;
  std::shared_ptr<const PlanModel> kept_model_;  // that the planner's last scenario points to
  int64_t num_points_ = 1;
  int64_t next_ = 0;
};

// One line each, ended by a newline.
std::string csv_line(std::span<const std::string> cells);
std::string csv_line(std::span<const SweepCell> cells);
std::string json_line(std::span<const std::string> columns, std::span<const SweepCell> cells);

}  // namespace ullage::api
