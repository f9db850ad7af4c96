#include "ullage/plan/evaluate.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "tests/unit/plan/worlds.h"
#include "ullage/memory/kv_layout.h"
#include "ullage/plan/plan.h"

namespace ullage::plan {
namespace {

// vLLM's own answers (its get_kv_cache_configs and printed capacity), recorded by running it.
TEST(Evaluate, PrintsWhatVllmPrints) {
  World world;
  world.scenario.kv_memory = Bytes(50 * kGiB);

  const auto e = evaluate(world.scenario);

  ASSERT_TRUE(e) << e.error().to_string();
  EXPECT_EQ(e->capacity.num_blocks, 25600);
  EXPECT_EQ(e->capacity.printed_tokens, 409600);
  EXPECT_DOUBLE_EQ(e->capacity.printed_concurrency, 3.125);
  EXPECT_EQ(e->capacity.bytes_per_token, 131072);
  EXPECT_EQ(e->budget.kv_pool.tier, Tier::kGiven);
}

// The reserved block is nobody's: 25,599 blocks hold 94 requests of 272, where the printed 25,600 do as well; of 25,600
// blocks for one request of all tokens none is left.
TEST(Evaluate, KnowsPrintedFromUsable) {
  World world;
  world.scenario.num_blocks = 8192;
  world.scenario.max_model_len = 131072;

  const auto e = evaluate(world.scenario);

  ASSERT_TRUE(e) << e.error().to_string();
  EXPECT_DOUBLE_EQ(e->capacity.printed_concurrency, 1.0);
  EXPECT_EQ(e->capacity.usable_requests, 0);
  EXPECT_EQ(e->capacity.usable_tokens, 8191 * 16);
  EXPECT_EQ(e->capacity.expected_requests, 8191 / 272);
  EXPECT_EQ(e->capacity.largest_context, 8191 * 16);
}

TEST(Evaluate, SaysWhatStopsTheBatch) {
  World world;
  world.scenario.num_blocks = 1 + 10 * 272;
  world.scenario.concurrency = 64;
  Planner planner;

  const auto by_memory = planner.evaluate(world.scenario);
  world.scenario.max_num_seqs = 4;
  const auto by_setting = planner.evaluate(world.scenario);
  world.scenario.concurrency = 3;
  const auto by_arrivals = planner.evaluate(world.scenario);

  EXPECT_EQ(by_memory->running, 10);
  EXPECT_EQ(by_memory->waiting, 54);
  EXPECT_EQ(by_memory->limit, Limit::kMemory);
  EXPECT_EQ(verdict(world.scenario, *by_memory), "10 users fit; the 11th waits for memory.");
  EXPECT_EQ(by_setting->running, 4);
  EXPECT_EQ(by_setting->limit, Limit::kMaxNumSeqs);
  EXPECT_EQ(by_arrivals->running, 3);
  EXPECT_EQ(by_arrivals->limit, Limit::kArrivals);
}

TEST(Evaluate, SharedPrefixIsKeptOnceAndComputedOnce) {
  World world;
  world.scenario.num_blocks = 1 + 128 + 10 * 144;  // 2,048 tokens shared; 2,304 of each
  world.scenario.shared_prefix_tokens = 2048;
  world.scenario.concurrency = 64;

  const auto e = evaluate(world.scenario);

  ASSERT_TRUE(e) << e.error().to_string();
  EXPECT_EQ(e->capacity.expected_requests, 10);
  EXPECT_EQ(e->capacity.shared_prefix_blocks, 128);
  EXPECT_LT(e->timing.ttft_seconds, e->timing.ttft_uncached_seconds);
}

TEST(Evaluate, WeightsThatDoNotFitAreAnAnswer) {
  World world;
  world.device = *hardware::find_device("t4");

  const auto e = evaluate(world.scenario);

  ASSERT_TRUE(e) << e.error().to_string();
  EXPECT_EQ(e->fit, Fit::kWeightsTooLarge);
  EXPECT_EQ(e->limit, Limit::kNothingFits);
  EXPECT_EQ(e->running, 0);
  EXPECT_EQ(e->short_by.value, -e->budget.kv_pool.bytes.value);
  EXPECT_NE(verdict(world.scenario, *e).find("does not fit"), std::string::npos);
}

TEST(Evaluate, RequestLargerThanThePoolIsAnAnswer) {
  World world;
  world.scenario.num_blocks = 100;

  const auto e = evaluate(world.scenario);

  ASSERT_TRUE(e) << e.error().to_string();
  EXPECT_EQ(e->fit, Fit::kRequestTooLarge);
  EXPECT_EQ(e->short_by.value, (272 + 1 - 100) * e->capacity.bytes_per_block);
  EXPECT_EQ(e->capacity.largest_context, 99 * 16);
}

TEST(Evaluate, BudgetsTermsSum) {
  for (const char* policy : {"vllm-0.19", "vllm-0.22", "vllm-0.29", "sglang", "llama.cpp", "lesson"}) {
    World world(policy);

    const auto e = evaluate(world.scenario);

    ASSERT_TRUE(e) << policy << e.error().to_string();
    const BudgetNumbers& b = e->budget;
    const Bytes graphs = b.are_graphs_subtracted ? b.graphs.bytes : Bytes(0);
    EXPECT_EQ(
        b.requested.value,
        (b.weights.bytes + b.adapters.bytes + b.activations.bytes + graphs + b.runtime.bytes + b.kv_pool.bytes).value)
        << policy;
  }
}

// A plan of tensor parallelism that copies heads, of windows, of adapters: each against what its definition says.
TEST(Evaluate, CountsByDefinition) {
  World world;
  world.scenario.kv_memory = Bytes(20 * kGiB);
  Planner planner;

  world.scenario.parallelism.tensor = 8;
  EXPECT_EQ(planner.evaluate(world.scenario)->capacity.bytes_per_token, 131072 / 8);
  world.scenario.parallelism.tensor = 16;  // two ranks keep the same head
  EXPECT_EQ(planner.evaluate(world.scenario)->capacity.bytes_per_token, 131072 / 8);
  world.scenario.parallelism.tensor = 1;
  world.scenario.force_mha = true;
  EXPECT_EQ(planner.evaluate(world.scenario)->capacity.bytes_per_token, 131072 * 4);
  world.scenario.force_mha = false;
  world.scenario.num_kv_heads = 2;
  EXPECT_EQ(planner.evaluate(world.scenario)->capacity.bytes_per_token, 131072 / 4);
  world.scenario.num_kv_heads = 0;
  world.scenario.kv_dtype = model::KvDType::kFP8E4M3;
  EXPECT_EQ(planner.evaluate(world.scenario)->capacity.bytes_per_token, 131072 / 2);
  // LoRA: A [rank, in] and B [out, rank] of q, k, v, o, gate, up, down, in 16 bits.
  world.scenario.adapters = {.max_loras = 3, .max_rank = 16};
  const int64_t numbers = 32 * ((4096 + 4096) * 2 + (4096 + 1024) * 2 + (4096 + 14336) * 3);
  EXPECT_EQ(planner.evaluate(world.scenario)->budget.adapters.bytes.value, 3 * 16 * numbers * 2);
}

TEST(Evaluate, RequestsWithWindowsStopGrowing) {
  World world;
  world.shape = hybrid(1024);
  world.scenario.kv_memory = Bytes(20 * kGiB);

  const auto e = evaluate(world.scenario);

  ASSERT_TRUE(e) << e.error().to_string();
  // 4 full layers of 4,096 bytes a token; 20 windows of 1,024 tokens.
  EXPECT_EQ(e->capacity.bytes_per_token, 4 * 4096);
  EXPECT_EQ(e->capacity.request_bytes, 4 * 4096 * 4352 + 20 * 4096 * 1024);
}

// Requests admitted one by one against an allocator that counts blocks: the plan's number is where the next fails.
TEST(Evaluate, ExpectedIsWhereTheNextFails) {
  rc::check("requests fit one by one", [] {
    World world;
    const int64_t blocks = *rc::gen::inRange<int64_t>(2, 100000);
    const int64_t prompt = *rc::gen::inRange<int64_t>(1, 30000);
    const int64_t output = *rc::gen::inRange<int64_t>(0, 3000);
    const int64_t block_size = *rc::gen::element<int64_t>(1, 8, 16, 32, 128);
    world.scenario.num_blocks = blocks;
    world.scenario.block_size = block_size;
    world.scenario.prompt_tokens = static_cast<double>(prompt);
    world.scenario.output_tokens = static_cast<double>(output);
    world.scenario.concurrency = 1000000;

    const auto e = evaluate(world.scenario);

    int64_t free_blocks = blocks - 1;
    int64_t admitted = 0;
    const int64_t each = (prompt + output + block_size - 1) / block_size;
    while (free_blocks >= each) {
      free_blocks -= each;
      ++admitted;
    }
    RC_ASSERT(e.has_value());
    RC_ASSERT(e->capacity.expected_requests == admitted);
    RC_ASSERT(e->running == std::min(admitted, e->settings.max_num_seqs));
  });
}

// More memory or fewer bits never hold fewer; a longer request never fits more often.
TEST(Evaluate, MoreNeverHoldsFewer) {
  Planner planner;
  World world;
  model::ModelShape windows = hybrid(512);
  rc::check("monotone in memory, dtype, length", [&] {
    Scenario s = world.scenario;
    s.shape = *rc::gen::arbitrary<bool>() ? &world.shape : &windows;
    s.kv_memory = Bytes(*rc::gen::inRange<int64_t>(kGiB / 8, 200 * kGiB));
    s.prompt_tokens = static_cast<double>(*rc::gen::inRange<int64_t>(1, 60000));
    s.concurrency = 100000;
    const Evaluation base = *planner.evaluate(s);

    Scenario more = s;
    more.kv_memory = Bytes(s.kv_memory->value + *rc::gen::inRange<int64_t>(0, kGiB));
    Scenario fewer_bits = s;
    fewer_bits.kv_dtype = model::KvDType::kFP8E4M3;
    Scenario longer = s;
    longer.prompt_tokens += static_cast<double>(*rc::gen::inRange<int64_t>(0, 5000));

    RC_ASSERT(planner.evaluate(more)->running >= base.running);
    RC_ASSERT(planner.evaluate(fewer_bits)->running >= base.running);
    RC_ASSERT(planner.evaluate(longer)->running <= base.running);
    RC_ASSERT(base.capacity.largest_context <= 131072);
    RC_ASSERT(base.capacity.contiguous_max_len_requests <= base.capacity.contiguous_requests);
  });
}

// What a planner was asked before does not matter, however much it has seen.
TEST(Evaluate, AnswersDoNotDependOnTheQuestionsBefore) {
  Planner old;
  World world;
  for (int64_t n = 1; n <= 200; ++n) {
    world.scenario.max_num_seqs = n;
    world.scenario.block_size = 1 + n % 90;
    world.scenario.prompt_tokens = static_cast<double>(100 * n);
    const Evaluation seasoned = *old.evaluate(world.scenario);
    const Evaluation fresh = *evaluate(world.scenario);
    ASSERT_EQ(seasoned.capacity.num_blocks, fresh.capacity.num_blocks);
    ASSERT_EQ(seasoned.running, fresh.running);
    ASSERT_EQ(seasoned.timing.itl_seconds, fresh.timing.itl_seconds);
    ASSERT_EQ(seasoned.timing.ttft_seconds, fresh.timing.ttft_seconds);
  }
}

TEST(Evaluate, TimesHangTogether) {
  World world;
  world.scenario.concurrency = 16;
  world.scenario.price_per_hour = 3.6;
  world.scenario.qps = 1;

  const auto e = evaluate(world.scenario);

  ASSERT_TRUE(e) << e.error().to_string();
  const Timing& t = e->timing;
  EXPECT_GT(t.ttft_seconds, 0);
  EXPECT_GE(t.mixed_itl_seconds, t.step_seconds);
  EXPECT_NEAR(t.decode_tokens_per_second, 16 / t.itl_seconds, 1e-9);
  EXPECT_LE(t.output_tokens_per_second, t.decode_tokens_per_second);
  EXPECT_NEAR(t.requests_per_second * t.request_seconds, 16, 1e-9);
  EXPECT_NEAR(t.decode.weight_share + t.decode.kv_share, 1, 1e-12);
  EXPECT_GE(t.decode.margin, 1);
  // A dollar a thousand seconds: input and output pay for all of it together.
  ASSERT_TRUE(e->money);
  EXPECT_NEAR(e->money->per_million_input * t.input_tokens_per_second / 1e6 +
                  e->money->per_million_output * t.output_tokens_per_second / 1e6,
              3.6 / 3600, 1e-12);
  ASSERT_TRUE(e->load);
  EXPECT_NEAR(e->load->needed_slots, t.request_seconds, 1e-12);
}

// A prompt's chunks beyond the first dozen are priced between sampled ones: against the whole sum.
TEST(Evaluate, LongPromptsArePricedNearlyAsEachChunk) {
  World world;
  world.scenario.efficiency = cost::Efficiency{.bandwidth = 0.8, .matmul = 0.5};
  world.scenario.prompt_tokens = 120000;
  world.scenario.max_num_batched_tokens = 512;
  Planner planner;

  const auto e = planner.evaluate(world.scenario);

  double sum = 0;
  for (int64_t first = 0; first < 120000; first += 512) {
    const cost::WorkItem item{.first_position = first,
                              .num_tokens = std::min<int64_t>(512, 120000 - first),
                              .is_sampled = first + 512 >= 120000,
                              .count = 1};
    sum += planner.step(world.scenario, {&item, 1})->cost.seconds;
  }
  ASSERT_TRUE(e) << e.error().to_string();
  EXPECT_NEAR(e->timing.ttft_seconds / sum, 1, 1e-3);
}

TEST(PlanLibrary, AnswersWithoutAScenario) {
  const model::ModelShape shape = llama_8b();

  EXPECT_EQ(*kv_bytes_per_token(shape, model::KvDType::kBF16), 131072);
  EXPECT_EQ(*request_bytes(shape, model::KvDType::kFP8E4M3, 1000), 65536000);
  EXPECT_EQ(max_concurrent(Bytes(64 * kGiB), 131072, 8192), 64);
  EXPECT_EQ(*max_concurrent(shape, model::KvDType::kBF16, Bytes(64 * kGiB), 8192), 63);
  EXPECT_EQ(max_concurrent(Bytes(-1), 131072, 8192), 0);
  EXPECT_FALSE(max_concurrent(shape, model::KvDType::kBF16, Bytes(kGiB), 0));
}

}  // namespace
}  // namespace ullage::plan
