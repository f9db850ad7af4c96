#include "ullage/plan/explain.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>

#include "tests/unit/plan/worlds.h"

namespace ullage::plan {
namespace {

const WaterfallTerm* named(const Explanation& e, std::string_view name) {
  const auto found =
      std::find_if(e.terms.begin(), e.terms.end(), [&](const WaterfallTerm& t) { return t.name == name; });
  return found == e.terms.end() ? nullptr : &*found;
}

TEST(Explain, NamesTheKvDtype) {
  Planner planner;
  World world;
  Scenario after = world.scenario;
  after.kv_dtype = model::KvDType::kFP8E4M3;

  const auto e = explain(planner, world.scenario, after);

  ASSERT_TRUE(e) << e.error().to_string();
  ASSERT_EQ(e->terms.size(), 1u);
  EXPECT_EQ(e->terms[0].name, "KV dtype");
  EXPECT_GT(e->terms[0].tokens, 0);
  EXPECT_NE(e->sentence.find("KV dtype"), std::string::npos) << e->sentence;
  EXPECT_NE(e->sentence.find("more tokens"), std::string::npos) << e->sentence;
}

// An engine's version is not one term: what it takes for graphs and activations is told apart.
TEST(Explain, SplitsAnEngineIntoItsTerms) {
  Planner planner;
  World world("vllm-0.19");
  Scenario after = world.scenario;
  after.profile = *memory::find_engine_profile("vllm-0.22");

  const auto e = explain(planner, world.scenario, after);

  ASSERT_TRUE(e) << e.error().to_string();
  const WaterfallTerm* graphs = named(*e, "graphs");
  ASSERT_NE(graphs, nullptr) << e->sentence;
  EXPECT_LT(graphs->tokens, 0);
  EXPECT_NE(named(*e, "granted memory"), nullptr) << e->sentence;
}

// Steps that are illegal by themselves are told with the next: a longer prompt needs the longer max_model_len.
TEST(Explain, JoinsStepsThatCannotStandAlone) {
  Planner planner;
  World world;
  world.scenario.max_model_len = 40000;
  world.scenario.prompt_tokens = 39000;
  Scenario after = world.scenario;
  after.max_model_len = 5000;
  after.prompt_tokens = 4000;

  const auto e = explain(planner, world.scenario, after);

  ASSERT_TRUE(e) << e.error().to_string();
  EXPECT_NE(named(*e, "max_model_len and requests' length"), nullptr) << e->sentence;
}

TEST(Explain, TermsSumToTheDifference) {
  Planner planner;
  World world;
  model::ModelShape windows = hybrid(512);
  const hardware::Device h200 = *hardware::find_device("h200");
  const auto draw = [&] {
    Scenario s = world.scenario;
    s.shape = *rc::gen::arbitrary<bool>() ? &world.shape : &windows;
    s.device = *rc::gen::arbitrary<bool>() ? &world.device : &h200;
    s.profile = *memory::find_engine_profile(*rc::gen::element<std::string>("vllm-0.19", "vllm-0.29", "sglang"));
    if (*rc::gen::arbitrary<bool>()) s.kv_dtype = model::KvDType::kFP8E4M3;
    if (*rc::gen::arbitrary<bool>()) s.weights = WeightPrecision::kFP8;
    s.gpu_memory_utilization = *rc::gen::element(0.0, 0.8, 0.95);
    s.max_num_seqs = *rc::gen::element<int64_t>(0, 16, 256);
    s.has_graphs = *rc::gen::arbitrary<bool>();
    s.parallelism.tensor = *rc::gen::element<int64_t>(1, 2, 4);
    s.parallelism.data = *rc::gen::element<int64_t>(1, 2);
    s.prompt_tokens = *rc::gen::element(100.0, 4096.0, 30000.0);
    s.max_model_len = *rc::gen::element<int64_t>(0, 32768);
    return s;
  };
  rc::check("sums", [&] {
    const Scenario a = draw();
    const Scenario b = draw();

    const auto e = explain(planner, a, b);

    RC_ASSERT(e.has_value());
    int64_t tokens = 0;
    int64_t users = 0;
    double itl = 0;
    for (const WaterfallTerm& term : e->terms) {
      tokens += term.tokens;
      users += term.users;
      itl += term.itl_seconds;
    }
    RC_ASSERT(tokens == e->after.capacity.usable_tokens * b.parallelism.data -
                            e->before.capacity.usable_tokens * a.parallelism.data);
    RC_ASSERT(users == e->after.capacity.total_expected_requests - e->before.capacity.total_expected_requests);
    const double difference = e->after.timing.itl_seconds - e->before.timing.itl_seconds;
    RC_ASSERT(itl - difference < 1e-12 && difference - itl < 1e-12);
    RC_ASSERT(!e->sentence.empty());
  });
}

TEST(Explain, AlikeScenariosDifferInNothing) {
  Planner planner;
  World world;
  const model::ModelShape again = world.shape;
  Scenario after = world.scenario;
  after.shape = &again;

  const auto e = explain(planner, world.scenario, after);

  ASSERT_TRUE(e) << e.error().to_string();
  EXPECT_TRUE(e->terms.empty());
  EXPECT_EQ(e->sentence, "Both hold the same and are as fast.");
}

}  // namespace
}  // namespace ullage::plan
