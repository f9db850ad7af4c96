// The sampler against brute force in binary64, and its draws against the distribution they should have.
#include "ullage/cpu/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "tests/unit/cpu/cpu_test_util.h"

namespace ullage::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Bench {
  TestRequest request;
  std::vector<float> logits;
  std::vector<float> work, weights;
  std::vector<int32_t> ids;

  explicit Bench(std::vector<float> values)
      : logits(std::move(values)), work(logits.size()), weights(logits.size()), ids(logits.size(), 0) {
    request.tokens = {0};
    request.num_prompt = 1;
    request.blocks = {BlockId(1)};
  }
  sched::SampledToken sample() {
    const auto share = request.share(0, static_cast<int64_t>(request.tokens.size()));
    const auto token = sample_token(**select_kernels(Isa::kAuto), logits, share, {work, weights, ids});
    EXPECT_TRUE(std::all_of(ids.begin(), ids.end(), [](int32_t i) { return i == 0; })) << "the scratch was left dirty";
    return token;
  }
};

// What vLLM's order of steps gives, in binary64: the probability of each token.
std::vector<double> reference_distribution(const std::vector<float>& logits, const sched::SamplingParams& p) {
  std::vector<double> x(logits.begin(), logits.end());
  for (double& v : x) v /= p.temperature;
  const auto softmax = [](const std::vector<double>& v) {
    const double top = *std::max_element(v.begin(), v.end());
    std::vector<double> out;
    double sum = 0;
    for (const double e : v) sum += std::exp(e - top);
    for (const double e : v) out.push_back(std::exp(e - top) / sum);
    return out;
  };
  if (p.min_p > 0) {
    const auto probability = softmax(x);
    const double limit = p.min_p * *std::max_element(probability.begin(), probability.end());
    for (size_t i = 0; i < x.size(); ++i) x[i] = probability[i] < limit ? -INFINITY : x[i];
  }
  if (p.top_k > 0) {
    std::vector<double> sorted = x;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const double limit = sorted[std::min(sorted.size(), static_cast<size_t>(p.top_k)) - 1];
    for (double& v : x) v = v < limit ? -INFINITY : v;
  }
  if (p.top_p < 1) {
    const auto probability = softmax(x);
    std::vector<size_t> order(x.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return probability[a] > probability[b]; });
    double before = 0;
    for (const size_t i : order) {
      if (before >= p.top_p) x[i] = -INFINITY;
      before += probability[i];
    }
  }
  return softmax(x);
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowestOfTies) {
  EXPECT_EQ(Bench({0.5f, 2.0f, -1.0f, 2.0f}).sample().token, 1);
  Bench nearly_zero({0.0f, 1.0f});
  nearly_zero.request.sampling.temperature = 1e-6;
  EXPECT_EQ(nearly_zero.sample().token, 1);
}

TEST(Sampler, OddLogitsHaveADefinedAnswer) {
  const float nan = std::nanf("");
  EXPECT_EQ(Bench({nan, 1.0f, nan}).sample().token, 1);
  EXPECT_EQ(Bench({nan, nan}).sample().token, 0);
  EXPECT_EQ(Bench({-kInf, -kInf, -kInf}).sample().token, 0);
  EXPECT_EQ(Bench({3.0f, kInf, kInf}).sample().token, 1);
  for (const std::vector<float>& row :
       {std::vector<float>{nan, nan}, {-kInf, -kInf}, {kInf, 1.0f, nan}, {nan, 5.0f, -kInf}}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Bench bench(row);
      bench.request.sampling = {.temperature = 0.7,
                                .top_p = 0.9,
                                .top_k = 2,
                                .min_p = 0.05,
                                .repetition_penalty = 1.3,
                                .seed = seed,
                                .num_logprobs = 2};
      const auto token = bench.sample();
      ASSERT_GE(token.token, 0);
      ASSERT_LT(token.token, static_cast<TokenId>(row.size()));
      EXPECT_TRUE(std::isfinite(token.logprob));
      if (row.size() == 3 && row[0] == kInf) {
        EXPECT_EQ(token.token, 0);
      }
      if (row.size() == 3 && row[1] == 5.0f) {
        EXPECT_EQ(token.token, 1);
      }
    }
  }
}

TEST(Sampler, DrawsFollowTheReferenceDistribution) {
  RandomStream random(21);
  std::vector<sched::SamplingParams> settings = {
      {.temperature = 1.0},
      {.temperature = 0.6, .top_p = 0.8},
      {.temperature = 1.7, .top_k = 5},
      {.temperature = 1.0, .min_p = 0.1},
      {.temperature = 0.9, .top_p = 0.95, .top_k = 20, .min_p = 0.02},
  };
  for (const sched::SamplingParams& params : settings) {
    Bench bench(random_floats(random, 40));
    for (float& v : bench.logits) v *= 2.0f;
    const auto expected = reference_distribution(bench.logits, params);
    std::map<TokenId, int64_t> counts;
    constexpr int64_t kDraws = 20000;
    bench.request.sampling = params;
    for (int64_t i = 0; i < kDraws; ++i) {
      bench.request.sampling.seed = static_cast<uint64_t>(i);
      counts[bench.sample().token]++;
    }
    // Pearson's statistic over the cells expected at least 5 times; 6 standard deviations above its mean is far out.
    double statistic = 0, cells = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double mean = expected[i] * kDraws;
      const double seen = static_cast<double>(counts[static_cast<TokenId>(i)]);
      if (expected[i] == 0) {
        EXPECT_EQ(seen, 0) << "token " << i << " should be cut off";
      }
      if (mean < 5) continue;
      statistic += (seen - mean) * (seen - mean) / mean;
      cells += 1;
    }
    EXPECT_LT(statistic, cells + 6 * std::sqrt(2 * cells)) << "top_p " << params.top_p << " top_k " << params.top_k;
    EXPECT_GE(cells, 1);
  }
}

TEST(Sampler, TopPOfAFlatRowGoesBeyondTheFirstSort) {
  Bench bench(std::vector<float>(5000, 1.0f));
  bench.request.sampling = {.temperature = 1.0, .top_p = 0.5};
  TokenId highest = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    bench.request.sampling.seed = seed;
    highest = std::max(highest, bench.sample().token);
  }
  EXPECT_LT(highest, 2501);  // equal tokens are taken by id
  EXPECT_GT(highest, 2300);
}

TEST(Sampler, TheDrawDependsOnSeedAndOutputIndexAlone) {
  RandomStream random(4);
  const std::vector<float> logits = random_floats(random, 100);
  const auto draw = [&](uint64_t seed, size_t num_prompt, size_t num_output) {
    Bench bench(logits);
    bench.request.sampling = {.temperature = 1.0, .seed = seed};
    bench.request.tokens.assign(num_prompt + num_output, 1);
    bench.request.num_prompt = static_cast<int64_t>(num_prompt);
    return bench.sample().token;
  };
  int different = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(draw(seed, 3, 5), draw(seed, 8, 5));
    different += draw(seed, 3, 5) != draw(seed, 3, 6) ? 1 : 0;
  }
  EXPECT_GT(different, 25);
}

TEST(Sampler, PenaltiesFollowVllm) {
  // Token 1 is in the prompt; token 2 once, token 3 twice in the output; token 0 never.
  const std::vector<float> logits = {1.0f, 1.0f, 1.0f, 1.0f, -1.0f};
  const auto chosen_when = [&](sched::SamplingParams p, std::vector<std::pair<TokenId, float>> bias) {
    Bench bench(logits);
    bench.request.tokens = {1, 4, 2, 3, 3};
    bench.request.num_prompt = 2;
    p.temperature = 0;
    p.logit_bias = std::move(bias);
    bench.request.sampling = p;
    return bench.sample().token;
  };
  // Repetition 2: tokens 1, 2 and 3 halve to 0.5, token 4 doubles to -2. Their order shows in what a bias must add.
  EXPECT_EQ(chosen_when({.repetition_penalty = 2.0}, {}), 0);
  EXPECT_EQ(chosen_when({.repetition_penalty = 2.0}, {{0, -0.49f}}), 0);  // 0.51 against 0.5
  EXPECT_EQ(chosen_when({.repetition_penalty = 2.0}, {{0, -0.51f}}), 1);  // 0.49
  EXPECT_EQ(chosen_when({.repetition_penalty = 2.0}, {{4, 3.1f}}), 4);    // (-1 + 3.1) / 2 = 1.05
  // Presence: output tokens only, once. Frequency: by count.
  EXPECT_EQ(chosen_when({.presence_penalty = 0.5}, {{0, -0.2f}, {1, -0.3f}}), 0);
  EXPECT_EQ(chosen_when({.presence_penalty = 0.5}, {{0, -2.0f}, {1, -0.6f}}), 2);
  EXPECT_EQ(chosen_when({.presence_penalty = 0.5}, {{0, -2.0f}, {1, -2.0f}, {2, -0.1f}}), 3);
  EXPECT_EQ(chosen_when({.frequency_penalty = 0.5}, {{0, -2.0f}, {1, -2.0f}, {2, -0.4f}}),
            2);  // 0.1 against 1 - 2 * 0.5
  EXPECT_EQ(chosen_when({.frequency_penalty = 0.5}, {{0, -2.0f}, {1, -2.0f}, {2, -0.6f}}), 3);
}

TEST(Sampler, StopTokensAreBarredBeforeMinTokens) {
  Bench bench({1.0f, 5.0f, 4.0f, 3.0f});
  bench.request.tokens = {0, 3};
  bench.request.num_prompt = 1;  // the next token is output 1
  bench.request.stop.eos_token_ids = {1};
  bench.request.stop.stop_token_ids = {2, 99};
  bench.request.stop.min_tokens = 2;
  EXPECT_EQ(bench.sample().token, 3);
  bench.request.stop.min_tokens = 1;
  EXPECT_EQ(bench.sample().token, 1);
}

TEST(Sampler, LogprobsAreOfTheRawLogits) {
  RandomStream random(8);
  Bench bench(random_floats(random, 50));
  bench.logits[10] = bench.logits[20] = 4.0f;  // a tie at the top
  bench.logits[30] = 6.0f;
  bench.request.sampling = {.temperature = 0, .num_logprobs = 3, .logit_bias = {{30, -100.0f}}};
  const auto token = bench.sample();
  double sum = 0;
  for (const float v : bench.logits) sum += std::exp(static_cast<double>(v));
  EXPECT_EQ(token.token, 10);
  EXPECT_NEAR(token.logprob, 4.0 - std::log(sum), 1e-5);
  EXPECT_EQ(token.rank, 3);  // tokens at least as likely: 30, 10 and 20
  ASSERT_EQ(token.top.size(), 3u);
  EXPECT_EQ(token.top[0].token, 30);
  EXPECT_NEAR(token.top[0].logprob, 6.0 - std::log(sum), 1e-5);
  EXPECT_EQ(token.top[1].token, 10);
  EXPECT_EQ(token.top[2].token, 20);
  bench.request.sampling.num_logprobs = 0;
  EXPECT_TRUE(bench.sample().top.empty());
  EXPECT_EQ(bench.sample().rank, 3);
  bench.request.sampling.num_logprobs = 60;
  EXPECT_EQ(bench.sample().top.size(), 50u);
}

}  // namespace
}  // namespace ullage::cpu
