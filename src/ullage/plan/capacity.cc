#include <algorithm>
#include <variant>

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

// Under decode context parallelism each rank keeps its part of a request's tokens.
int64_t tokens_a_rank(const ModelPart& model, int64_t num_tokens) {
  return ceil_div(num_tokens, model.key.parallelism.decode_context);
}

int64_t blocks_at_most(const Scenario& scenario, const Settings& settings, const ModelPart& model, int64_t num_tokens) {
  const memory::InFlight in_flight{.max_num_batched_tokens = settings.max_num_batched_tokens,
                                   .max_concurrent_batches = scenario.profile->max_concurrent_batches};
  return memory::blocks_per_request(model.layout, tokens_a_rank(model, num_tokens), in_flight);
}

// As the engine's version prints it.
void fill_printed(const Scenario& scenario, const Settings& settings, const ModelPart& model, Capacity& capacity) {
  const int64_t per_request = blocks_at_most(scenario, settings, model, settings.max_model_len);
  if (per_request < 1) return;
  // In double and in this order, as vLLM computes it.
  capacity.printed_concurrency = static_cast<double>(capacity.num_blocks) / static_cast<double>(per_request);
  capacity.usable_requests = std::max<int64_t>(0, capacity.num_blocks - reserved_blocks(scenario)) / per_request;
  if (scenario.profile->prints_derived_tokens) {
    capacity.printed_tokens =
        static_cast<int64_t>(capacity.printed_concurrency * static_cast<double>(settings.max_model_len));
    return;
  }
  int64_t smallest_block = model.layout.block_size;
  for (const memory::BlockGroup& group : model.layout.groups) {
    smallest_block = std::min(smallest_block, group.block_size);
  }
  capacity.printed_tokens =
      capacity.num_blocks / capacity.num_groups * smallest_block * model.key.parallelism.decode_context;
}

// The longest request that the pool holds alone: blocks grow with tokens, so halving finds it.
int64_t largest_context(const Scenario& scenario, const Settings& settings, const ModelPart& model,
                        int64_t free_blocks) {
  const int64_t most = model.shape.max_position_embeddings > 0
                           ? std::max(model.shape.max_position_embeddings, scenario.max_model_len)
                           : settings.max_model_len;
  if (blocks_at_most(scenario, settings, model, most) <= free_blocks) return most;
  int64_t fits = 0;
  int64_t too_long = most;
  while (too_long - fits > 1) {
    const int64_t middle = fits + (too_long - fits) / 2;
    if (blocks_at_most(scenario, settings, model, middle) <= free_blocks) {
      fits = middle;
    } else {
      too_long = middle;
    }
  }
  return fits;
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
    out.kv_pool = {
        .bytes = Bytes(*scenario.num_blocks * parts.model->bytes_per_block), .tier = Tier::kGiven, .error = {}};
  }
  out.total_kv_pool = Bytes(std::max<int64_t>(0, out.kv_pool.bytes.value)) * scenario.parallelism.num_devices();
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
  const memory::InFlight in_flight{.max_num_batched_tokens = 1 + model.key.num_speculative_tokens,
                                   .max_concurrent_batches = scenario.profile->max_concurrent_batches};
  return memory::blocks_per_request(model.layout, tokens_a_rank(model, num_tokens + model.key.num_speculative_tokens),
                                    in_flight);
}

int64_t requests_in(const Scenario& scenario, const ModelPart& model, int64_t num_blocks, int64_t num_tokens,
                    int64_t shared_tokens) {
  int64_t shared_blocks = 0;
  if (shared_tokens > 0) {
    for (const memory::BlockGroup& group : model.layout.groups) {
      if (keeps_every_token(group.spec)) shared_blocks += tokens_a_rank(model, shared_tokens) / group.block_size;
    }
  }
  const int64_t each = decoding_blocks(scenario, model, num_tokens) - shared_blocks;
  const int64_t free_blocks = num_blocks - reserved_blocks(scenario) - shared_blocks;
  if (each < 1 || free_blocks < 0) return 0;
  return free_blocks / each;
}

Capacity capacity_of(const Scenario& scenario, const Settings& settings, const Stages::Found& parts, Bytes kv_pool) {
  const ModelPart& model = *parts.model;
  Capacity out;
  out.block_size = model.layout.block_size;
  out.bytes_per_block = model.bytes_per_block;
  out.num_groups = static_cast<int64_t>(model.layout.groups.size());
  out.fixed_bytes = model.fullest_stage.fixed_bytes;
  out.bytes_per_token = model.fullest_stage.bytes_per_token;
  out.request_bytes = bytes_of(model.fullest_stage, tokens_a_rank(model, settings.mean_tokens));
  out.request_block_bytes = decoding_blocks(scenario, model, settings.mean_tokens) * out.bytes_per_block;
  if (kv_pool.value <= 0 || out.bytes_per_block <= 0) return out;

  out.num_blocks = scenario.num_blocks ? *scenario.num_blocks : kv_pool.value / out.bytes_per_block;
  if (scenario.profile->engine == memory::Engine::kUllage && !scenario.num_blocks) {
    // This engine takes no more than its requests can use (cli/engine_setup.cc), one block for the null block beside.
    const int64_t useful =
        settings.max_num_seqs * blocks_at_most(scenario, settings, model, settings.max_model_len) + 1;
    out.num_blocks = std::min(out.num_blocks, useful);
  }
  if (out.num_blocks < 1) return out;
  fill_printed(scenario, settings, model, out);
  const int64_t free_blocks = std::max<int64_t>(0, out.num_blocks - reserved_blocks(scenario));
  const memory::KvCapacity printed = memory::kv_capacity(model.layout, out.num_blocks, settings.max_model_len);
  out.usable_tokens =
      reserved_blocks(scenario) == 0 ? out.num_blocks / out.num_groups * out.block_size : printed.usable_tokens;
  out.usable_tokens *= scenario.parallelism.decode_context;
  const int64_t shared = cached_prefix_tokens(scenario, model);
  out.shared_prefix_blocks = shared / out.block_size;
  out.expected_requests = requests_in(scenario, model, out.num_blocks, settings.mean_tokens, shared);
  out.expected_requests_p95 = requests_in(scenario, model, out.num_blocks, settings.p95_tokens, shared);
  const int64_t steady = std::max<int64_t>(1, whole(scenario.prompt_tokens + scenario.output_tokens / 2));
  out.steady_requests = requests_in(scenario, model, out.num_blocks, steady, shared);
  out.total_expected_requests = out.expected_requests * scenario.parallelism.data;

  const auto contiguous = [&](int64_t num_tokens) {
    const int64_t bytes = bytes_of(model.fullest_stage, tokens_a_rank(model, num_tokens));
    return bytes > 0 ? out.num_blocks * out.bytes_per_block / bytes : 0;
  };
  out.contiguous_max_len_requests = contiguous(settings.max_model_len);
  out.contiguous_requests = contiguous(settings.mean_tokens);
  out.largest_context = largest_context(scenario, settings, model, free_blocks);
  out.largest_batch = std::min(out.expected_requests, settings.max_num_seqs);
  return out;
}

}  // namespace ullage::plan
