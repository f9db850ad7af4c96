#include "ullage/api/check.h"

#include <utility>

#include <fmt/format.h>

#include "ullage/base/units.h"
#include "ullage/memory/engine_profile.h"

namespace ullage::api {
namespace {

void add_lever(std::string_view key, const std::string& text, int64_t line, LeverSettings* levers) {
  const Lever* lever = find_lever(key);
  const std::string where = fmt::format("line {} of the log", line);
  auto value = parse_lever(*lever, text, where);
  if (value) levers->set_default(LeverSetting{lever, *std::move(value), where});
}

template <class T>
void add_logged(std::string_view key, const std::optional<observe::Logged<T>>& logged, LeverSettings* levers) {
  if (logged) add_lever(key, fmt::format("{}", logged->value), logged->line, levers);
}

// The engine's rules by the version that it prints, or that its wording shows; the newest when there are none for it.
void add_policy(const observe::StartupLog& log, LeverSettings* levers) {
  std::string name = "vllm";
  if (log.engine == memory::Engine::kSglang) name = "sglang";
  if (log.engine == memory::Engine::kLlamaCpp) name = "llama.cpp";
  int64_t line = 1;
  if (log.version) {
    line = log.version->line;
    const std::string versioned = name + "-" + log.version->value;
    if (memory::find_engine_profile(versioned)) name = versioned;
  } else if (log.engine == memory::Engine::kVllm && log.kv_tokens) {
    line = log.kv_tokens->line;
    const bool shares_line = log.max_concurrency && log.max_concurrency->line == line;
    const std::string_view version = observe::vllm_version_by_wording(log.kv_tokens->value, shares_line);
    if (!version.empty()) name = fmt::format("vllm-{}", version);
  }
  add_lever("policy", name, line, levers);
}

std::string without_torch(std::string_view name) {
  return std::string(name.substr(name.starts_with("torch.") ? 6 : 0));
}

void add_dtype(const observe::StartupLog& log, LeverSettings* levers) {
  if (!log.dtype) return;
  const std::string name = without_torch(log.dtype->value);
  if (plan::parse_load_dtype(name, "")) add_lever("dtype", name, log.dtype->line, levers);
}

// "auto" is no lever, and "torch.bfloat16" is SGLang's name of it.
void add_kv_dtype(const observe::StartupLog& log, LeverSettings* levers) {
  if (!log.kv_dtype || log.kv_dtype->value == "auto") return;
  std::string name = without_torch(log.kv_dtype->value);
  if (name.ends_with("fn")) name.erase(name.size() - 2);
  if (name.starts_with("float8_")) name = "fp8_" + name.substr(7);
  if (model::parse_kv_dtype(name, "")) add_lever("kv_cache_dtype", name, log.kv_dtype->line, levers);
}

bool knows_model(const PlanInput& input) { return input.model != nullptr || has_model_numbers(input.levers); }

// The same scenario with what the log says of the pool: everything after it is exact then.
std::optional<plan::Evaluation> evaluate_with_logged_memory(const observe::StartupLog& log, plan::Planner& planner,
                                                            const plan::Scenario& scenario) {
  if (!log.kv_memory) return std::nullopt;
  plan::Scenario given = scenario;
  given.kv_memory = log.kv_memory->bytes;
  const auto evaluation = planner.evaluate(given);
  return evaluation ? std::optional(*evaluation) : std::nullopt;
}

Result<void> compare_with_plan(const PlanInput& plan_input, plan::Planner& planner, CheckAnswer* answer) {
  PlanInput input = plan_input;
  if (answer->startup) add_levers_of_log(*answer->startup, &input.levers);
  if (!knows_model(input)) {
    answer->notes.push_back("no model is known: name it (--model) and the device (--device) to compare with a plan");
    return {};
  }
  DeviceShelf shelf;
  ULLAGE_TRY(answer->asked, make_scenario(input, shelf));
  const plan::Scenario& scenario = answer->asked->scenario;
  ULLAGE_TRY(answer->evaluation, planner.evaluate(scenario));
  if (!answer->startup) return {};
  const auto exact = evaluate_with_logged_memory(*answer->startup, planner, scenario);
  answer->comparison = observe::compare(*answer->startup, *answer->evaluation, exact ? &*exact : nullptr);
  return {};
}

}  // namespace

void add_levers_of_log(const observe::StartupLog& log, LeverSettings* levers) {
  add_policy(log, levers);
  add_logged("tensor_parallel", log.tensor_parallel, levers);
  add_logged("pipeline_parallel", log.pipeline_parallel, levers);
  add_logged("data_parallel", log.data_parallel, levers);
  add_logged("decode_context_parallel", log.decode_context_parallel, levers);
  if (log.has_expert_parallel && log.has_expert_parallel->value) {
    add_lever("expert_parallel", "true", log.has_expert_parallel->line, levers);
  }
  add_logged("max_model_len", log.max_model_len ? log.max_model_len : log.concurrency_len, levers);
  add_logged("block_size", log.block_size, levers);
  add_logged("max_num_seqs", log.max_num_seqs, levers);
  add_logged("max_num_batched_tokens", log.max_num_batched_tokens, levers);
  add_logged("speculative_tokens", log.num_speculative_tokens, levers);
  add_logged("gpu_memory_utilization", log.gpu_memory_utilization, levers);
  if (log.device_memory) {
    add_lever("memory", fmt::format("{}", log.device_memory->bytes.value), log.device_memory->line, levers);
  }
  add_dtype(log, levers);
  if (log.is_eager && log.is_eager->value) add_lever("enforce_eager", "true", log.is_eager->line, levers);
  if (log.has_prefix_caching && !log.has_prefix_caching->value) {
    add_lever("no_prefix_caching", "true", log.has_prefix_caching->line, levers);
  }
  add_kv_dtype(log, levers);
}

Result<CheckAnswer> check(const CheckInput& input) {
  CheckAnswer answer;
  if (input.log.find_first_not_of(" \t\r\n") == std::string::npos && !input.metrics) {
    return Error{ErrorCode::kInvalidArgument, "is empty; give the lines that the engine printed", input.log_where};
  }
  if (!input.log.empty()) {
    auto startup = observe::read_startup_log(input.log, input.log_where);
    auto steady = observe::read_steady_log(input.log, input.log_where);
    if (!startup && !steady && !input.metrics) return std::move(startup).error();
    if (startup) answer.startup = *std::move(startup);
    if (steady) answer.steady = *std::move(steady);
  }
  if (input.metrics) answer.steady = input.metrics;
  plan::Planner planner;
  ULLAGE_TRY_VOID(compare_with_plan(input.plan, planner, &answer));
  if (answer.steady) {
    observe::DiagnosisContext context;
    if (answer.startup) context.startup = &*answer.startup;
    if (answer.asked) {
      context.scenario = &answer.asked->scenario;
      context.planner = &planner;
    }
    answer.diagnosis = observe::diagnose(*answer.steady, context);
  }
  return answer;
}

}  // namespace ullage::api
