#include <algorithm>
#include <variant>

#include "ullage/base/saturating.h"
#include "ullage/memory/pool_size.h"
#include "ullage/plan/answers.h"

namespace ullage::plan {
namespace {

// Blocks that no request can have: vLLM's null block, and this engine's.
int64_t reserved_blocks(const Scenario& scenario) {
  const memory::Engine engine = scenario.profile->engine;
  return engine == memory::Engine::kVllm || engine == memory::Engine::kUllage ? 1 : 0;
}

bool keeps_every_token(const model::KvSpec& spec) {
  return std::holds_alternative<model::FullAttentionKv>(spec) || std::holds_alternative<model::LatentKv>(spec) ||
         std::holds_alternative<model::IndexerKv>(spec);
}

Term term(const memory::BudgetTerm& from) { return {.bytes = from.bytes, .tier = from.tier, .error = from.error}; }

// The part of a request's bytes that the fullest stage keeps.
int64_t of_stage(const ModelPart& model, int64_t bytes) {
  return model.stage_share >= 1 ? bytes : static_cast<int64_t>(static_cast<double>(bytes) * model.stage_share);
}

// Under decode context parallelism each rank keeps its part of the tokens.
int64_t rank_bytes(const ModelPart& model, int64_t num_tokens) {
  return of_stage(model, bytes_of(model.request, ceil_div(num_tokens, model.key.parallelism.decode_context)));
}

memory::InFlight in_flight_of(const Scenario& scenario, int64_t num_tokens) {
  return {.max_num_batched_tokens = num_tokens, .max_concurrent_batches = scenario.profile->max_concurrent_batches};
}

// As the engine's version prints it, and what can be had.
void fill_printed(const Scenario& scenario, const Settings& settings, const ModelPart& model, Capacity& capacity) {
  const memory::InFlight in_flight = in_flight_of(scenario, settings.max_num_batched_tokens);
  const int64_t per_request = memory::blocks_per_request(model.layout, settings.max_model_len, in_flight);
  if (per_request < 1) return;
  const memory::KvCapacity printed =
      memory::kv_capacity(model.layout, capacity.num_blocks, settings.max_model_len, in_flight);
  capacity.printed_concurrency = printed.max_concurrency;
  capacity.printed_tokens =
      scenario.profile->prints_derived_tokens ? printed.size_tokens : printed.size_tokens_by_groups;
  capacity.usable_requests = std::max<int64_t>(0, capacity.num_blocks - reserved_blocks(scenario)) / per_request;
  capacity.usable_tokens = reserved_blocks(scenario) > 0 ? printed.usable_tokens : printed.size_tokens;
}

int64_t longest_asked(const Scenario& scenario, const Settings& settings, const ModelPart& model) {
  return model.loaded->shape.max_position_embeddings > 0
             ? std::max(model.loaded->shape.max_position_embeddings, scenario.max_model_len)
             : std::max(settings.max_model_len, int64_t{1} << 20);
}

int64_t whole(double tokens) {
  const auto floor = static_cast<int64_t>(tokens);
  return floor + (static_cast<double>(floor) < tokens);
}

}  // namespace

BudgetNumbers budget_numbers(const Scenario& scenario, const Stages::Found& parts) {
  const memory::MemoryBudget& budget = parts.budget->budget;
  BudgetNumbers out;
  out.capacity = budget.capacity;
  out.requested = budget.requested;
  out.weights = term(budget.weights);
  out.activations = term(budget.activations);
  out.graphs = term(budget.graphs);
  out.runtime = term(budget.runtime);
  out.are_graphs_subtracted = budget.are_graphs_subtracted;
  out.adapters = {.bytes = parts.model->adapters, .tier = Tier::kExact, .error = {}};
  out.kv_pool = term(budget.kv_pool);
  if (scenario.kv_memory) {
    out.kv_pool.tier = Tier::kGiven;
  } else {
    out.kv_pool.bytes = out.kv_pool.bytes - out.adapters.bytes;
  }
  if (scenario.num_blocks) {
    out.kv_pool = {.bytes = Bytes(saturating_mul(*scenario.num_blocks, parts.model->bytes_per_block)),
                   .tier = Tier::kGiven,
                   .error = {}};
  }
  const model::Parallelism& p = scenario.parallelism;
  const int64_t devices = saturating_mul(saturating_mul(p.tensor, p.pipeline), p.data);
  out.total_kv_pool = Bytes(saturating_mul(std::max<int64_t>(0, out.kv_pool.bytes.value), devices));
  return out;
}

int64_t cached_prefix_tokens(const Scenario& scenario, const ModelPart& model) {
  if (!model.key.has_prefix_caching) return 0;
  const auto shared = static_cast<int64_t>(scenario.shared_prefix_tokens);
  // Whole blocks are found, and a prompt's last token is always computed.
  const auto most = static_cast<int64_t>(scenario.prompt_tokens) - 1;
  const int64_t block = model.layout.block_size;
  return std::max<int64_t>(0, std::min(shared, most)) / block * block;
}

int64_t decoding_blocks(const Scenario& scenario, const ModelPart& model, int64_t num_tokens) {
  const int64_t drafted = model.key.num_speculative_tokens;
  return memory::blocks_per_request(model.layout, num_tokens + drafted, in_flight_of(scenario, 1 + drafted));
}

int64_t requests_in(const Scenario& scenario, const ModelPart& model, int64_t num_blocks, int64_t num_tokens,
                    int64_t shared_tokens) {
  int64_t shared_blocks = 0;
  if (shared_tokens > 0) {
    for (const memory::BlockGroup& group : model.layout.groups) {
      if (!keeps_every_token(group.spec) || group.block_size < 1) continue;
      shared_blocks += shared_tokens / model.key.parallelism.decode_context / group.block_size;
    }
  }
  const int64_t each = decoding_blocks(scenario, model, num_tokens) - shared_blocks;
  const int64_t free_blocks = num_blocks - reserved_blocks(scenario) - shared_blocks;
  if (each < 1 || free_blocks < 0) return 0;
  return free_blocks / each;
}

void shorten_to_pool(const Scenario& scenario, const Stages::Found& parts, Bytes kv_pool, Settings& settings) {
  if (scenario.profile->engine != memory::Engine::kUllage || scenario.max_model_len > 0 || kv_pool.value <= 0) return;
  memory::PoolRequest request;
  request.share = kv_pool;
  request.limit = kv_pool;
  request.num_blocks = scenario.num_blocks.value_or(0);
  request.max_num_seqs = settings.max_num_seqs;
  request.max_model_len = settings.max_model_len;
  request.may_shorten = true;
  if (const auto size = memory::size_pool(parts.model->layout, request)) settings.max_model_len = size->max_model_len;
}

Capacity capacity_of(const Scenario& scenario, const Settings& settings, const Stages::Found& parts, Bytes kv_pool) {
  const ModelPart& model = *parts.model;
  Capacity out;
  out.block_size = model.layout.block_size;
  out.bytes_per_block = model.bytes_per_block;
  out.num_groups = static_cast<int64_t>(model.layout.groups.size());
  out.fixed_bytes = of_stage(model, model.request.fixed_bytes);
  out.bytes_per_token = of_stage(model, model.request.bytes_per_token);
  out.request_bytes = rank_bytes(model, settings.mean_tokens);
  out.request_block_bytes = saturating_mul(decoding_blocks(scenario, model, settings.mean_tokens), out.bytes_per_block);
  if (kv_pool.value <= 0 || out.bytes_per_block <= 0) return out;

  out.num_blocks = scenario.num_blocks ? *scenario.num_blocks : kv_pool.value / out.bytes_per_block;
  if (scenario.profile->engine == memory::Engine::kUllage && !scenario.num_blocks) {
    // Too small a pool for one request of max_model_len is an answer here, where the engine refuses to start.
    const int64_t useful = saturating_add(
        saturating_mul(settings.max_num_seqs, memory::blocks_per_request(model.layout, settings.max_model_len)), 1);
    out.num_blocks = std::min(out.num_blocks, useful);
  }
  if (out.num_blocks < 1) return out;
  fill_printed(scenario, settings, model, out);
  const int64_t free_blocks = std::max<int64_t>(0, out.num_blocks - reserved_blocks(scenario));
  const int64_t shared = cached_prefix_tokens(scenario, model);
  out.shared_prefix_blocks = shared / out.block_size;
  out.expected_requests = requests_in(scenario, model, out.num_blocks, settings.mean_tokens, shared);
  out.expected_requests_p95 = requests_in(scenario, model, out.num_blocks, settings.p95_tokens, shared);
  const int64_t steady = std::max<int64_t>(1, whole(scenario.prompt_tokens + scenario.output_tokens / 2));
  out.steady_requests = requests_in(scenario, model, out.num_blocks, steady, shared);
  out.total_expected_requests = saturating_mul(out.expected_requests, scenario.parallelism.data);

  const auto contiguous = [&](int64_t num_tokens) {
    const int64_t bytes = rank_bytes(model, num_tokens);
    return bytes > 0 ? saturating_mul(out.num_blocks, out.bytes_per_block) / bytes : 0;
  };
  out.contiguous_max_len_requests = contiguous(settings.max_model_len);
  out.contiguous_requests = contiguous(settings.mean_tokens);
  out.largest_context =
      memory::max_model_len_that_fits(model.layout, free_blocks, longest_asked(scenario, settings, model),
                                      in_flight_of(scenario, settings.max_num_batched_tokens));
  out.largest_batch = std::min(out.expected_requests, settings.max_num_seqs);
  return out;
}

}  // namespace ullage::plan
