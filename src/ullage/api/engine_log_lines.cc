// What an engine would print at its start, so that a plan can be held against a log.
#include <fmt/format.h>

#include "ullage/api/plan.h"
#include "ullage/base/units.h"
#include "ullage/engine/statistics.h"

namespace ullage::api {
namespace {

double gib(Bytes bytes) { return static_cast<double>(bytes.value) / static_cast<double>(kGiB); }

std::vector<std::string> vllm_lines(const PlanAnswer& answer) {
  const plan::Evaluation& evaluation = answer.evaluation;
  const std::string length = format_thousands(evaluation.settings.max_model_len);
  std::vector<std::string> lines;
  if (!answer.asked.scenario.kv_memory) {
    lines.push_back(fmt::format("Model loading took {:.2f} GiB memory", gib(evaluation.budget.weights.bytes)));
  }
  lines.push_back(fmt::format("Available KV cache memory: {:.2f} GiB", gib(evaluation.budget.kv_pool.bytes)));
  const std::string tokens =
      fmt::format("GPU KV cache size: {} tokens", format_thousands(evaluation.capacity.printed_tokens));
  const std::string concurrency = fmt::format("Maximum concurrency for {} tokens per request: {:.2f}x", length,
                                              evaluation.capacity.printed_concurrency);
  // One line since the newest version.
  if (answer.asked.scenario.profile->name == "vllm-0.29") {
    lines.push_back(tokens + ", " + concurrency);
  } else {
    lines.push_back(tokens);
    lines.push_back(concurrency);
  }
  return lines;
}

std::vector<std::string> sglang_lines(const PlanAnswer& answer) {
  const plan::Evaluation& evaluation = answer.evaluation;
  const double half = gib(evaluation.budget.kv_pool.bytes) / 2;
  return {fmt::format("KV Cache is allocated. #tokens: {}, K size: {:.2f} GB, V size: {:.2f} GB",
                      evaluation.capacity.printed_tokens, half, half),
          fmt::format("max_total_num_tokens={}, chunked_prefill_size={}, max_running_requests={}, context_len={}",
                      evaluation.capacity.printed_tokens, evaluation.settings.max_num_batched_tokens,
                      evaluation.settings.max_num_seqs, evaluation.settings.max_model_len)};
}

// What `ullage serve` logs, by the same functions.
std::vector<std::string> ullage_lines(const PlanAnswer& answer, const memory::KvLayout& layout) {
  const plan::Capacity& planned = answer.evaluation.capacity;
  memory::KvCapacity capacity;
  capacity.size_tokens = planned.printed_tokens;
  capacity.max_concurrency = planned.printed_concurrency;
  const hardware::Device& device = *answer.asked.device;
  return {engine::format_blocks_line(planned.num_blocks, layout.block_size, Bytes(planned.bytes_per_block)),
          engine::format_capacity_line(capacity, answer.evaluation.settings.max_model_len,
                                       memory::runs_on_cpu(device) ? "CPU" : device.kind)};
}

}  // namespace

std::vector<std::string> engine_log_lines(const PlanAnswer& answer, const memory::KvLayout& layout) {
  if (answer.evaluation.capacity.num_blocks <= 0) return {};
  switch (answer.asked.scenario.profile->engine) {
    case memory::Engine::kVllm:
      return vllm_lines(answer);
    case memory::Engine::kSglang:
      return sglang_lines(answer);
    case memory::Engine::kLlamaCpp:
      return {fmt::format("llama_kv_cache: size = {:.2f} MiB ({} cells, {} layers, {} seqs)",
                          gib(answer.evaluation.budget.kv_pool.bytes) * 1024, answer.evaluation.capacity.printed_tokens,
                          answer.asked.model->shape.layers.size(), answer.evaluation.settings.max_num_seqs)};
    case memory::Engine::kUllage:
      return ullage_lines(answer, layout);
    case memory::Engine::kLesson:
      return {};
  }
  return {};
}

}  // namespace ullage::api
