#include "ullage/plan/lesson.h"

#include "ullage/plan/overrides.h"

namespace ullage::plan {

double lesson_weight_bytes(const model::ModelShape& shape, const Scenario& scenario) {
  const auto parameters = static_cast<double>(model::count_parameters(shape).total());
  const auto ranks = static_cast<double>(scenario.parallelism.tensor * scenario.parallelism.pipeline);
  return parameters * ideal_bytes_per_parameter(*scenario.shape, scenario.weights) / ranks;
}

void idealise(double weight_bytes, cost::StepCostModel& model) {
  double expert_bytes = 0;
  for (const cost::ExpertTraffic& expert : model.experts) expert_bytes += expert.bytes_per_expert * expert.num_experts;
  const double counted = model.layer_weight_bytes + expert_bytes;
  if (!(counted > 0)) return;
  const double factor = weight_bytes / counted;
  model.layer_weight_bytes *= factor;
  for (cost::LinearTraffic& linear : model.linear) linear.weight_bytes *= factor;
  for (cost::ExpertTraffic& expert : model.experts) expert.bytes_per_expert *= factor;
  for (cost::KvTraffic& kv : model.kv) {
    kv.write_bytes = 0;
    kv.fixed_write_bytes = 0;
  }
}

}  // namespace ullage::plan
