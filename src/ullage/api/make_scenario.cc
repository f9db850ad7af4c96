#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "ullage/api/plan_input.h"
#include "ullage/base/quote.h"
#include "ullage/base/units.h"
#include "ullage/hardware/device_overrides.h"
#include "ullage/plan/stages.h"

namespace ullage::api {
namespace {

// Reads levers into the fields of a scenario.
class Reader {
 public:
  explicit Reader(const LeverSettings& levers) : levers_(levers) {}

  void count(std::string_view key, int64_t* field) const {
    if (const LeverSetting* setting = levers_.find(key)) *field = setting->value.integer;
  }
  void number(std::string_view key, double* field) const {
    if (const LeverSetting* setting = levers_.find(key)) *field = setting->value.number;
  }
  void bytes(std::string_view key, std::optional<Bytes>* field) const {
    if (const LeverSetting* setting = levers_.find(key)) *field = Bytes(setting->value.integer);
  }
  bool flag(std::string_view key) const {
    const LeverSetting* setting = levers_.find(key);
    return setting != nullptr && setting->value.flag;
  }

 private:
  const LeverSettings& levers_;
};

std::string where_of(const LeverSettings& levers, std::string_view key) {
  const LeverSetting* setting = levers.find(key);
  return setting != nullptr ? setting->where : main_flag(*find_lever(key));
}

std::string text_of(const LeverSettings& levers, std::string_view key, std::string_view fallback) {
  const LeverSetting* setting = levers.find(key);
  return std::string(setting != nullptr ? std::string_view(setting->value.text) : fallback);
}

constexpr std::string_view kDeviceKeys[] = {"device", "memory",         "bandwidth",
                                            "flops",  "link_bandwidth", "host_bandwidth"};

Result<hardware::Device> change_device(const LeverSettings& levers, hardware::Device device) {
  hardware::DeviceOverrides overrides;
  const auto rate = [&levers](std::string_view key, std::optional<double>* field) {
    if (const LeverSetting* setting = levers.find(key)) *field = setting->value.number;
  };
  const Reader read(levers);
  read.bytes("memory", &overrides.memory);
  rate("bandwidth", &overrides.bandwidth);
  rate("link_bandwidth", &overrides.link_bandwidth);
  rate("host_bandwidth", &overrides.host_bandwidth);
  const LeverSetting* flops = levers.find("flops");
  const bool is_by_dtype = flops != nullptr && flops->value.text.find('=') != std::string::npos;
  if (flops != nullptr && !is_by_dtype) overrides.flops = flops->value.number;
  ULLAGE_TRY(device, hardware::override_device(std::move(device), overrides));
  if (is_by_dtype) ULLAGE_TRY_VOID(apply_flops(flops->value.text, &device.flops, flops->where));
  return device;
}

void read_parallelism(const Reader& read, model::Parallelism* parallelism) {
  read.count("tensor_parallel", &parallelism->tensor);
  read.count("pipeline_parallel", &parallelism->pipeline);
  read.count("data_parallel", &parallelism->data);
  read.count("decode_context_parallel", &parallelism->decode_context);
  parallelism->has_expert_parallel = read.flag("expert_parallel");
}

// "8xH100" without another word on parallelism is TP 8; with one, the product has to be 8.
Result<void> use_device_count(const LeverSettings& levers, const DeviceShelf::Found& found,
                              model::Parallelism* parallelism) {
  if (!found.has_count) return {};
  if (levers.find("tensor_parallel") == nullptr) {
    const int64_t others = parallelism->pipeline * parallelism->data;
    if (found.count % others == 0) parallelism->tensor = found.count / others;
  }
  if (parallelism->num_devices() == found.count) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("says {} devices, and TP {} x PP {} x DP {} are {}; make them agree", found.count,
                           parallelism->tensor, parallelism->pipeline, parallelism->data, parallelism->num_devices()),
               where_of(levers, "device")};
}

Result<void> read_model_changes(const LeverSettings& levers, const Reader& read, bool is_by_numbers,
                                plan::Scenario* scenario) {
  if (const LeverSetting* kv = levers.find("kv_cache_dtype"); kv != nullptr && kv->value.text != "auto") {
    ULLAGE_TRY(scenario->kv_dtype, model::parse_kv_dtype(kv->value.text, kv->where));
  }
  if (const LeverSetting* dtype = levers.find("dtype")) {
    ULLAGE_TRY(scenario->dtype, plan::parse_load_dtype(dtype->value.text, dtype->where));
  }
  if (const LeverSetting* weights = levers.find("weights")) {
    // One of the plain precisions, or any other format by its name, which check_scenario looks up.
    const auto precision = plan::parse_weight_precision(weights->value.text, weights->where);
    scenario->weights = precision.value_or(plan::WeightPrecision::kAsStored);
    if (!precision) scenario->weight_format = weights->value.text;
  }
  scenario->force_mha = read.flag("force_mha");
  if (!is_by_numbers) read.count("kv_heads", &scenario->num_kv_heads);
  if (scenario->force_mha && scenario->num_kv_heads != 0) {
    return Error{ErrorCode::kInvalidArgument, "contradicts --kv-heads; give one of them",
                 where_of(levers, "force_mha")};
  }
  read.count("speculative_tokens", &scenario->num_speculative_tokens);
  read.number("acceptance_rate", &scenario->acceptance_rate);
  read.count("max_loras", &scenario->adapters.max_loras);
  read.count("max_lora_rank", &scenario->adapters.max_rank);
  if (levers.find("max_lora_rank") != nullptr && scenario->adapters.max_loras == 0) scenario->adapters.max_loras = 1;
  return {};
}

void read_engine(const Reader& read, plan::Scenario* scenario) {
  read.number("gpu_memory_utilization", &scenario->gpu_memory_utilization);
  read.bytes("kv_memory", &scenario->kv_memory);
  read.bytes("activation_reserve", &scenario->activation_reserve);
  int64_t num_blocks = 0;
  read.count("num_blocks", &num_blocks);
  if (num_blocks > 0) scenario->num_blocks = num_blocks;
  scenario->has_graphs = !read.flag("enforce_eager");
  scenario->is_hybrid_disabled = read.flag("disable_hybrid_kv_cache_manager");
  read.count("block_size", &scenario->block_size);
  read.count("max_model_len", &scenario->max_model_len);
  read.count("max_num_seqs", &scenario->max_num_seqs);
  read.count("max_num_batched_tokens", &scenario->max_num_batched_tokens);
}

// Lengths that nobody gave fit in the longest request: a model of 512 positions is no reason to refuse.
void shorten_default_lengths(const LeverSettings& levers, plan::Scenario* scenario) {
  if (levers.find("prompt") != nullptr) return;
  const int64_t longest =
      scenario->max_model_len > 0 ? scenario->max_model_len : scenario->shape->max_position_embeddings;
  const auto limit = static_cast<double>(longest);
  if (longest < 2 || scenario->prompt_tokens + scenario->output_tokens <= limit) return;
  if (levers.find("output") == nullptr)
    scenario->output_tokens = std::min(scenario->output_tokens, std::floor(limit / 4));
  scenario->output_tokens = std::max(scenario->output_tokens, 1.0);
  scenario->prompt_tokens = std::max(limit - scenario->output_tokens, 1.0);
}

void read_requests(const LeverSettings& levers, const Reader& read, plan::Scenario* scenario) {
  read.number("prompt", &scenario->prompt_tokens);
  read.number("output", &scenario->output_tokens);
  // --context alone describes the requests, too: a prompt that fills it but for the answer.
  const LeverSetting* context = levers.find("context");
  if (context != nullptr && levers.find("prompt") == nullptr) {
    const double tokens = context->value.number;
    if (levers.find("output") == nullptr && tokens <= scenario->output_tokens) scenario->output_tokens = 1;
    scenario->prompt_tokens = tokens > scenario->output_tokens ? tokens - scenario->output_tokens : 1;
  }
  shorten_default_lengths(levers, scenario);
  read.number("p95_prompt", &scenario->p95_prompt_tokens);
  read.number("p95_output", &scenario->p95_output_tokens);
  read.number("shared_prefix", &scenario->shared_prefix_tokens);
  read.count("concurrency", &scenario->concurrency);
  if (levers.find("concurrency") == nullptr) read.count("users", &scenario->concurrency);
  read.number("qps", &scenario->qps);
  read.number("duration", &scenario->duration_seconds);
  read.number("price", &scenario->price_per_hour);
}

// What is not given keeps what the plan would have taken.
void read_efficiency(const LeverSettings& levers, const Reader& read, plan::Scenario* scenario) {
  bool is_given = false;
  for (const LeverSetting& setting : levers.all()) is_given = is_given || setting.lever->group == "Speed";
  if (!is_given) return;
  cost::Efficiency efficiency = plan::choose_efficiency(*scenario).efficiency;
  read.number("bandwidth_efficiency", &efficiency.bandwidth);
  read.number("matmul_efficiency", &efficiency.matmul);
  read.number("attention_efficiency", &efficiency.attention);
  read.number("link_efficiency", &efficiency.link);
  read.number("link_latency", &efficiency.link_latency);
  read.number("step_overhead", &efficiency.step_overhead);
  scenario->efficiency = efficiency;
}

bool read_goal(const Reader& read, plan::Goal* goal) {
  read.count("users", &goal->users);
  read.number("ttft", &goal->ttft_seconds);
  read.number("itl", &goal->itl_seconds);
  read.count("context", &goal->context_tokens);
  read.number("throughput", &goal->output_tokens_per_second);
  return goal->users > 0 || goal->ttft_seconds > 0 || goal->itl_seconds > 0 || goal->context_tokens > 0 ||
         goal->output_tokens_per_second > 0;
}

// Both spellings of a size are a real one; say which was meant when the difference matters.
void note_decimal_sizes(const LeverSettings& levers, std::vector<std::string>* notes) {
  for (const LeverSetting& setting : levers.all()) {
    const std::string& text = setting.value.text;
    if (setting.lever->kind != LeverKind::kBytes || text.size() < 2) continue;
    const std::string_view unit = std::string_view(text).substr(text.size() - 2);
    const bool is_decimal = (unit[1] == 'B' || unit[1] == 'b') && unit[0] != 'i' && unit[0] > '9';
    if (!is_decimal) continue;
    notes->push_back(fmt::format("{} {} is {} bytes, {}; {}iB would be {}", main_flag(*setting.lever), text,
                                 format_thousands(setting.value.integer), format_bytes(Bytes(setting.value.integer)),
                                 text.substr(0, text.size() - 1),
                                 parse_bytes(text.substr(0, text.size() - 1) + "iB", "")
                                     .transform([](Bytes bytes) { return format_thousands(bytes.value); })
                                     .value_or("more")));
  }
}

}  // namespace

Result<DeviceShelf::Found> DeviceShelf::get(const PlanInput& input) {
  std::string key;
  for (const std::string_view name : kDeviceKeys) {
    const LeverSetting* setting = input.levers.find(name);
    key += setting != nullptr ? fmt::format("{}={};", name, setting->value.text) : "";
  }
  for (const auto& [known, found] : devices_) {
    if (known == key) return found;
  }
  hardware::DeviceGroup group;
  if (input.device) {
    group.device = *input.device;
  } else {
    if (input.devices.empty() && catalogue_.empty()) catalogue_ = hardware::known_devices();
    ULLAGE_TRY(group, hardware::find_device_group(text_of(input.levers, "device", kDefaultDevice),
                                                  input.devices.empty() ? catalogue_ : input.devices,
                                                  where_of(input.levers, "device")));
  }
  ULLAGE_TRY(hardware::Device device, change_device(input.levers, std::move(group.device)));
  devices_.push_back(
      {key, {std::make_shared<const hardware::Device>(std::move(device)), group.count, group.has_count}});
  return devices_.back().second;
}

Result<PlanScenario> make_scenario(const PlanInput& input, DeviceShelf& shelf) {
  PlanScenario made;
  made.notes = input.notes;
  made.model = input.model;
  const LeverSettings& levers = input.levers;
  const bool is_by_numbers = input.model == nullptr || input.model->source == "numbers";
  if (made.model == nullptr) {
    PlanModel model;
    ULLAGE_TRY(model.shape, shape_from_numbers(levers));
    model.name = "a model of " + model.shape.name;
    model.source = "numbers";
    made.model = std::make_shared<const PlanModel>(std::move(model));
  } else if (const LeverSetting* bytes = levers.find("weight_bytes"); bytes != nullptr && !is_by_numbers) {
    return Error{ErrorCode::kInvalidArgument,
                 "goes with a model by its numbers (--layers ...); for another precision give --weights", bytes->where};
  }
  ULLAGE_TRY(const DeviceShelf::Found found, shelf.get(input));
  made.device = found.device;
  if (!input.device && levers.find("device") == nullptr) {
    const LeverSetting* policy = levers.find("policy");
    made.notes.push_back(policy != nullptr && policy->value.text == "ullage"
                             ? "no --device was given: an H100 is assumed; for this machine measure it once, `ullage "
                               "calibrate --out here.json`, and give --device here.json"
                             : "no --device was given: an H100 is assumed; `ullage devices` lists others");
  }

  plan::Scenario& scenario = made.scenario;
  scenario.shape = &made.model->shape;
  scenario.device = made.device.get();
  ULLAGE_TRY(scenario.profile,
             memory::find_engine_profile(text_of(levers, "policy", kDefaultPolicy), where_of(levers, "policy")));
  const Reader read(levers);
  scenario.has_prefix_caching = scenario.profile->has_prefix_caching && !read.flag("no_prefix_caching");
  read_parallelism(read, &scenario.parallelism);
  ULLAGE_TRY_VOID(use_device_count(levers, found, &scenario.parallelism));
  ULLAGE_TRY_VOID(read_model_changes(levers, read, is_by_numbers, &scenario));
  read_engine(read, &scenario);
  read_requests(levers, read, &scenario);
  read_efficiency(levers, read, &scenario);
  made.has_goal = read_goal(read, &made.goal);
  note_decimal_sizes(levers, &made.notes);
  return made;
}

}  // namespace ullage::api
