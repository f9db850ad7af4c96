// The executor's promises: a token's logits are the same bits whatever is computed with it, memory adds up, and a bad
// plan is an Error. That the numbers are right is checked against another implementation in tests/golden.
#include <algorithm>
#include <cmath>

#include "tests/unit/cpu/cpu_test_util.h"
#include "ullage/model/checkpoint.h"

namespace ullage::cpu {
namespace {

constexpr int64_t kBlockSize = 4;

model::Checkpoint open_model(const std::string& name) {
  auto checkpoint = model::Checkpoint::open(model_path(name));
  EXPECT_TRUE(checkpoint) << checkpoint.error().to_string();
  return *std::move(checkpoint);
}

std::unique_ptr<CpuExecutor> make_executor(const model::Checkpoint& checkpoint, int64_t threads = 1,
                                           Isa isa = Isa::kAuto, int64_t num_blocks = 400) {
  CpuOptions options;
  options.num_threads = threads;
  options.block_size = kBlockSize;
  options.num_blocks = num_blocks;
  options.max_num_batched_tokens = 700;
  options.max_num_seqs = 16;
  options.max_model_len = 1024;
  options.isa = isa;
  auto executor = CpuExecutor::create(checkpoint, options);
  EXPECT_TRUE(executor) << executor.error().to_string();
  return *std::move(executor);
}

TestRequest make_request(int64_t id, int64_t length, int64_t vocab, int32_t first_block) {
  TestRequest r(id);
  RandomStream random(static_cast<uint64_t>(id));
  for (int64_t i = 0; i < length; ++i)
    r.tokens.push_back(static_cast<TokenId>(random.below(static_cast<uint64_t>(vocab))));
  r.num_prompt = length;
  for (int64_t i = 0; i < ceil_div(length, kBlockSize); ++i)
    r.blocks.push_back(BlockId(first_block + static_cast<int32_t>(i)));
  return r;
}

std::vector<float> run(CpuExecutor& executor, const sched::StepPlan& plan) {
  const auto result = executor.execute(plan);
  EXPECT_TRUE(result) << result.error().to_string();
  return {executor.last_logits().begin(), executor.last_logits().end()};
}

// Logits at every position, one token a step.
std::vector<std::vector<float>> run_one_by_one(CpuExecutor& executor, TestRequest& r) {
  std::vector<std::vector<float>> logits;
  for (int64_t p = 0; p < static_cast<int64_t>(r.tokens.size()); ++p)
    logits.push_back(run(executor, plan_of({r.share(p, 1)})));
  return logits;
}

class Invariance : public testing::TestWithParam<std::tuple<const Kernels*, const char*>> {
 protected:
  model::Checkpoint checkpoint_ = open_model(std::get<1>(GetParam()));
  Isa isa_ = std::get<0>(GetParam())->isa;
  int64_t vocab_ = checkpoint_.shape().vocab_size;
};

TEST_P(Invariance, ChunksOfEverySizeGiveTheSameBits) {
  const auto executor = make_executor(checkpoint_, 1, isa_);
  TestRequest alone = make_request(1, 37, vocab_, 1);
  const auto expected = run_one_by_one(*executor, alone);
  for (int64_t chunk = 2; chunk <= 37; ++chunk) {
    TestRequest r = make_request(1, 37, vocab_, 100);
    for (int64_t p = 0; p < 37; p += chunk) {
      const int64_t n = std::min<int64_t>(chunk, 37 - p);
      const auto logits = run(*executor, plan_of({r.share(p, n)}));
      EXPECT_TRUE(is_same_bits(logits, expected[static_cast<size_t>(p + n - 1)]))
          << "chunks of " << chunk << " at " << p;
    }
  }
}

TEST_P(Invariance, BatchMatesDoNotMatter) {
  const auto executor = make_executor(checkpoint_, 2, isa_);
  std::vector<TestRequest> requests;
  std::vector<std::vector<std::vector<float>>> expected;
  for (int64_t id = 1; id <= 3; ++id) {
    requests.push_back(make_request(id, 30, vocab_, static_cast<int32_t>(10 * id)));
    expected.push_back(run_one_by_one(*executor, requests.back()));
  }
  RandomStream random(5);
  std::vector<int64_t> done(3, 0);
  for (;;) {
    std::vector<sched::ScheduledRequest> shares;
    size_t last = 0;
    for (size_t i = 0; i < 3; ++i) {
      if (done[i] == 30 || random.below(4) == 0) continue;
      const int64_t n = std::min<int64_t>(30 - done[i], 1 + static_cast<int64_t>(random.below(9)));
      shares.push_back(requests[i].share(done[i], n));
      done[i] += n;
      last = i;
    }
    if (!shares.empty()) {
      const auto logits = run(*executor, plan_of(shares));
      EXPECT_TRUE(is_same_bits(logits, expected[last][static_cast<size_t>(done[last] - 1)]));
    }
    if (done == std::vector<int64_t>(3, 30)) break;
  }
}

TEST_P(Invariance, BlocksSharedAndCopiedWithinTheStepGiveTheSameBits) {
  const auto executor = make_executor(checkpoint_, 2, isa_);
  TestRequest alone = make_request(1, 22, vocab_, 1);
  const auto expected = run_one_by_one(*executor, alone);
  // Another request with the same tokens finds its first 4 blocks, and 2 slots of the fifth, in the one that computes
  // them.
  TestRequest first = make_request(1, 22, vocab_, 50);
  TestRequest second = make_request(1, 22, vocab_, 60);
  second.id = RequestId(2);
  std::copy(first.blocks.begin(), first.blocks.begin() + 4, second.blocks.begin());
  const sched::BlockCopy copy{first.blocks[4], second.blocks[4], 2};
  const auto logits = run(*executor, plan_of({first.share(0, 22), second.share(18, 4)}, {copy}));
  EXPECT_TRUE(is_same_bits(logits, expected.back()));
}

TEST_P(Invariance, LongContextsAndThreadsGiveTheSameBits) {
  TestRequest r = make_request(9, 601, vocab_, 1);  // three partitions; decoding is split among threads
  std::vector<std::vector<float>> all;
  for (const int64_t threads : {1, 2, 3}) {
    const auto executor = make_executor(checkpoint_, threads, isa_);
    all.push_back(run(*executor, plan_of({r.share(0, 601)})));
    run(*executor, plan_of({r.share(0, 600)}));
    all.push_back(run(*executor, plan_of({r.share(600, 1)})));
  }
  for (const auto& logits : all) EXPECT_TRUE(is_same_bits(logits, all.front()));
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, Invariance,
                         testing::Combine(testing::ValuesIn(runnable_kernels()),
                                          testing::Values("gguf/llama-q4_1.gguf", "gguf/llama-q5_k.gguf",
                                                          "hf/qwen3-tied", "hf/mistral-window", "hf/llama-mha-f16")),
                         [](const auto& param) {
                           std::string name =
                               std::string(std::get<0>(param.param)->name) + "_" + std::get<1>(param.param);
                           std::replace_if(name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

TEST(CpuExecutor, MemoryRolesSumToWhatWasAllocated) {
  const auto checkpoint = open_model("gguf/llama-q4_1.gguf");
  const auto small = make_executor(checkpoint, 2, Isa::kAuto, 10);
  const auto large = make_executor(checkpoint, 2, Isa::kAuto, 20);
  const auto& attention = std::get<model::Attention>(checkpoint.shape().layers.front().mixer);
  const int64_t block_bytes = 2 * static_cast<int64_t>(checkpoint.shape().layers.size()) * attention.num_kv_heads *
                              attention.head_dim * kBlockSize * 2;  // BF16
  EXPECT_EQ(small->memory().kv_pool_bytes, 10 * block_bytes);
  EXPECT_EQ(large->memory().kv_pool_bytes - small->memory().kv_pool_bytes, 10 * block_bytes);
  EXPECT_EQ(large->memory().workspace_bytes, small->memory().workspace_bytes);
  EXPECT_EQ(large->memory().repacked_bytes, small->memory().repacked_bytes);
  EXPECT_EQ(small->memory().total_allocated(), small->allocated_bytes());
  EXPECT_EQ(large->memory().total_allocated(), large->allocated_bytes());
  // Every matrix is read in place once; vectors become padded floats.
  int64_t matrix_bytes = 0;
  for (const model::TensorView& t : checkpoint.tensors()) {
    if (t.shape.size() == 2) matrix_bytes += static_cast<int64_t>(t.data.size());
  }
  EXPECT_EQ(small->memory().weights_bytes, matrix_bytes);
  EXPECT_GE(small->memory().repacked_bytes,
            (2 * static_cast<int64_t>(checkpoint.shape().layers.size()) + 1) * checkpoint.shape().hidden_size * 4);
}

TEST(CpuExecutor, RefusesABadPlanAndGoesOn) {
  const auto checkpoint = open_model("gguf/llama-q4_1.gguf");
  const auto executor = make_executor(checkpoint);
  const int64_t vocab = checkpoint.shape().vocab_size;
  TestRequest good = make_request(1, 10, vocab, 1);
  const auto expected = run(*executor, plan_of({good.share(0, 10)}));
  const auto expect_refused = [&](TestRequest r, int64_t first, int64_t count, const char* what) {
    const auto result = executor->execute(plan_of({r.share(first, count)}));
    ASSERT_FALSE(result) << what;
    EXPECT_EQ(result.error().code, ErrorCode::kInternal);
  };
  expect_refused(good, 0, 11, "more tokens than known");
  expect_refused(good, -1, 2, "a negative position");
  expect_refused(good, 0, 0, "no tokens");
  TestRequest bad = good;
  bad.tokens[3] = static_cast<TokenId>(vocab);
  expect_refused(bad, 0, 10, "a token outside the vocabulary");
  bad = good;
  bad.blocks[1] = BlockId(400);
  expect_refused(bad, 0, 10, "a block outside the pool");
  bad = good;
  bad.blocks.resize(2);
  expect_refused(bad, 0, 10, "too few blocks");
  EXPECT_FALSE(executor->execute(plan_of({make_request(1, 701, vocab, 1).share(0, 701)}))) << "over the workspace";
  EXPECT_TRUE(is_same_bits(run(*executor, plan_of({good.share(0, 10)})), expected));
}

TEST(CpuExecutor, RefusesBadOptions) {
  const auto checkpoint = open_model("gguf/llama-q4_1.gguf");
  CpuOptions options;
  EXPECT_FALSE(CpuExecutor::create(checkpoint, options)) << "no blocks";
  options.num_blocks = 4;
  options.kv_dtype = model::DType::kQ8_0;
  EXPECT_FALSE(CpuExecutor::create(checkpoint, options)) << "no such cache format";
  options.kv_dtype = model::DType::kF16;
  options.num_threads = -1;
  EXPECT_FALSE(CpuExecutor::create(checkpoint, options)) << "negative threads";
  options.num_threads = 1;
  EXPECT_TRUE(CpuExecutor::create(checkpoint, options));
}

TEST(CpuExecutor, SamplesEachRequestByItsOwnParameters) {
  const auto checkpoint = open_model("gguf/llama-q4_1.gguf");
  const auto executor = make_executor(checkpoint, 2);
  const int64_t vocab = checkpoint.shape().vocab_size;
  TestRequest greedy = make_request(1, 5, vocab, 1);
  TestRequest silent = make_request(2, 6, vocab, 10);
  TestRequest forced = make_request(3, 7, vocab, 20);
  forced.sampling.logit_bias = {{7, 1000.0f}};
  forced.sampling.num_logprobs = 3;
  const auto result = executor->execute(plan_of({greedy.share(0, 5), silent.share(0, 6, false), forced.share(0, 7)}));
  ASSERT_TRUE(result);
  ASSERT_EQ(result->tokens.size(), 2u);
  EXPECT_EQ(result->tokens[0].id, RequestId(1));
  EXPECT_TRUE(result->tokens[0].top.empty());
  EXPECT_EQ(result->tokens[1].id, RequestId(3));
  EXPECT_EQ(result->tokens[1].token, 7);
  EXPECT_EQ(result->tokens[1].top.size(), 3u);
  EXPECT_GT(result->duration, 0);
}

}  // namespace
}  // namespace ullage::cpu
