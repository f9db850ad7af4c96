// The planner as a library: how many users of a model a device serves. README.md says how to build it.
#include <cstdio>

#include "ullage/model/catalogue.h"
#include "ullage/plan/plan.h"

int main() {
  const auto shape = ullage::model::catalogue_shape(*ullage::model::find_catalogue_model("Qwen/Qwen3-8B"));
  const auto device = ullage::hardware::find_device("h100");
  const auto policy = ullage::memory::find_engine_profile("vllm");
  ullage::plan::Scenario scenario;
  scenario.shape = &*shape, scenario.device = &*device, scenario.profile = *policy;
  scenario.prompt_tokens = 32768, scenario.concurrency = 64;
  const auto answer = ullage::plan::evaluate(scenario);
  std::puts(answer ? verdict(scenario, *answer).c_str() : answer.error().to_string().c_str());
}
