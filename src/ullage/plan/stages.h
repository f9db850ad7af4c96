// What scenarios share, made once: the model with its layout, the cost model, the budget. Each part knows the levers
// that it depends on; a sweep over other levers finds it again.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/cost/model_costs.h"
#include "ullage/cost/step_cost.h"
#include "ullage/memory/budget.h"
#include "ullage/memory/kv_layout.h"
#include "ullage/plan/evaluate.h"
#include "ullage/plan/request_bytes.h"
#include "ullage/plan/scenario.h"

namespace ullage::plan {

// What is reached of a device's peaks: given, or calibrated.
struct EfficiencyChoice {
  cost::Efficiency efficiency;
  Tier tier = Tier::kModelled;
  double error = 0;       // relative, median, of time per token
  double ttft_error = 0;  // of TTFT
  double ttft_overhead = 0;
  double ttft_wave = 0;
};
EfficiencyChoice choose_efficiency(const Scenario& scenario);

// Depends on what is loaded alone.
struct ShapePart {
  struct Key {
    const model::ModelShape* shape = nullptr;
    model::DType dtype = model::DType::kBF16;  // resolved: of what is not quantised
    bool has_dtype = false;                    // asked for
    WeightPrecision weights = WeightPrecision::kAsStored;
    std::string weight_format;
    bool force_mha = false;
    int64_t num_kv_heads = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  Key key;
  model::ModelShape shape;  // with overrides
  memory::ModelMemory memory;
  Result<cost::ModelCosts> costs = Error{};
  double expert_pick_share = 0;  // experts picked a token / experts, of the first layer that has any
};

// Depends on how the model is divided, and on the layout's levers, too.
struct ModelPart {
  struct Key {
    ShapePart::Key loaded;
    const memory::EngineProfile* profile = nullptr;
    model::Parallelism parallelism;
    model::KvDType kv_dtype = model::KvDType::kBF16;
    bool has_prefix_caching = true;
    bool is_hybrid_disabled = false;
    int64_t num_speculative_tokens = 0;
    int64_t block_size = 0;
    Adapters adapters;
    friend bool operator==(const Key&, const Key&) = default;
  };
  Key key;
  int64_t id = 0;
  std::shared_ptr<const ShapePart> loaded;
  std::vector<memory::KvLayers> kv_layers;
  memory::KvLayout layout;
  int64_t bytes_per_block = 0;  // of the pipeline stage with the most
  RequestShape request;         // of all stages, one rank of each
  double stage_share = 1;       // of a request's bytes, in the stage that keeps the most
  Bytes adapters;
  double draft_weight_bytes = 0;  // of one rank, read for every drafted token
};

struct CostPart {
  struct Key {
    int64_t model_id = 0;
    const hardware::Device* device = nullptr;
    std::optional<cost::Efficiency> efficiency;
  };
  Key key;
  Result<cost::StepCostModel> model = Error{};  // an Error: what fits is known, how fast it is is not
  EfficiencyChoice choice;
};

struct BudgetPart {
  struct Key {
    int64_t model_id = 0;
    const hardware::Device* device = nullptr;
    double gpu_memory_utilization = 0;
    int64_t max_model_len = 0;
    int64_t max_num_seqs = 0;
    int64_t max_num_batched_tokens = 0;
    bool has_graphs = true;
    std::optional<Bytes> kv_memory;
    std::optional<Bytes> activation_reserve;
    friend bool operator==(const Key&, const Key&) = default;
  };
  Key key;
  memory::BudgetInput input;  // its views are the scenario's and the model part's
  memory::MemoryBudget budget;
};

// At most so many of each part are kept; the oldest goes first.
inline constexpr size_t kMaxParts = 64;

template <class Part>
class PartList {
 public:
  // The part with `key`, or null. The one found last is looked at first.
  template <class Equal>
  const Part* find(const Equal& is_wanted) {
    if (last_ < parts_.size() && is_wanted(parts_[last_]->key)) return parts_[last_].get();
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!is_wanted(parts_[i]->key)) continue;
      last_ = i;
      return parts_[i].get();
    }
    return nullptr;
  }
  const Part* add(Part part) {
    auto owned = std::make_unique<Part>(std::move(part));
    if (parts_.size() < kMaxParts) {
      last_ = parts_.size();
      parts_.push_back(std::move(owned));
    } else {
      last_ = next_;
      parts_[next_] = std::move(owned);
      next_ = (next_ + 1) % kMaxParts;
    }
    return parts_[last_].get();
  }

 private:
  std::vector<std::unique_ptr<Part>> parts_;
  size_t last_ = 0;
  size_t next_ = 0;
};

class Stages {
 public:
  struct Found {
    const ModelPart* model = nullptr;
    const CostPart* cost = nullptr;
    const BudgetPart* budget = nullptr;
  };
  // The budget with its rules in words; holds until the next call.
  memory::MemoryBudget& explained(const BudgetPart& part);
  // Pointers hold until the next call.
  Result<Found> find(const Scenario& scenario, const Settings& settings);

 private:
  Result<std::shared_ptr<const ShapePart>> shape_part(const ShapePart::Key& key, const Scenario& scenario);
  Result<const ModelPart*> model_part(const Scenario& scenario, const Settings& settings);
  Result<const CostPart*> cost_part(const Scenario& scenario, const ModelPart& model);
  Result<const BudgetPart*> budget_part(const Scenario& scenario, const Settings& settings, const ModelPart& model);

  std::vector<std::shared_ptr<const ShapePart>> shapes_;  // at most kMaxParts, the oldest goes first
  PartList<ModelPart> models_;
  PartList<CostPart> costs_;
  PartList<BudgetPart> budgets_;
  int64_t next_id_ = 0;
  memory::MemoryBudget explained_;
};

}  // namespace ullage::plan
