// What a plan is asked, as words and numbers, and the Scenario that is made of it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ullage/api/levers.h"
#include "ullage/base/result.h"
#include "ullage/hardware/device.h"
#include "ullage/model/model_shape.h"
#include "ullage/plan/inverse.h"
#include "ullage/plan/scenario.h"

namespace ullage::api {

inline constexpr const char* kDefaultDevice = "h100";
inline constexpr const char* kDefaultPolicy = "vllm";

// A model that was read already; whoever reads files (the CLI) or documents (parse_plan_document) makes it.
struct PlanModel {
  model::ModelShape shape;
  std::string name;    // as it was asked for, and as a server's line would name it
  std::string source;  // "config.json", "GGUF", "safetensors", "catalogue", "numbers"
  std::string config;  // the text of its config.json, for links; empty when it has none
};

// A model of the catalogue. kNotFound at `where` with the nearest names; kUnsupported for a layout that is not
// modelled.
Result<PlanModel> catalogue_model(std::string_view name, std::string_view where);

struct PlanInput {
  std::shared_ptr<const PlanModel> model;
  std::optional<hardware::Device> device;  // given in full; else the lever `device` names one of `devices`
  std::vector<hardware::Device> devices;   // known by name; empty = the built-in catalogue
  LeverSettings levers;
  std::vector<std::string> notes;  // of readers before, passed on to the answer
};

// Everything that a Scenario points to, at addresses that stay when this moves.
struct PlanScenario {
  std::shared_ptr<const PlanModel> model;
  std::shared_ptr<const hardware::Device> device;
  plan::Scenario scenario;
  plan::Goal goal;
  bool has_goal = false;
  std::vector<std::string> notes;
};

// Devices as levers name and change them. A sweep's points share one, so that equal devices are one object, which is
// what a plan::Planner remembers them by.
class DeviceShelf {
 public:
  struct Found {
    std::shared_ptr<const hardware::Device> device;
    int64_t count = 1;  // "8xH100"
    bool has_count = false;
  };
  // kNotFound with the nearest known names; kInvalidArgument for changes that cannot be read.
  Result<Found> get(const PlanInput& input);

 private:
  std::vector<hardware::Device> catalogue_;             // read at the first name
  std::vector<std::pair<std::string, Found>> devices_;  // by their levers' texts
};

// Words that mean nothing, levers that contradict each other or lack what they need: kInvalidArgument at the lever's
// `where`. kNotFound for devices and policies that are not known, with the nearest.
Result<PlanScenario> make_scenario(const PlanInput& input, DeviceShelf& shelf);

// A dense or mixture-of-experts transformer of alike layers from the levers of "a model by its numbers": layers,
// kv_heads and head_dim (or latent), the rest by rule. kInvalidArgument names what is missing.
bool has_model_numbers(const LeverSettings& levers);
Result<model::ModelShape> shape_from_numbers(const LeverSettings& levers);

// "bf16=989T,fp8=1979T", or one number, which is bf16's and scales the others.
Result<void> apply_flops(std::string_view text, hardware::FlopsPerSecond* flops, std::string_view where);

}  // namespace ullage::api
