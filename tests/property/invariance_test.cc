// Invariant 7 through the real executor: what a request gets does not depend on what else is in the batch, on chunking,
// on prefix hits or on preemption. Random sessions (arrivals, shared prefixes, cancels, tiny pools, chunk sizes, block
// sizes, threads, KV dtypes, instruction sets) are compared with each request run alone: token ids, and logprobs bit
// for bit.
//
// A failure prints its session's seed; ULLAGE_INVARIANCE_SEED runs that session alone, ULLAGE_INVARIANCE_SESSIONS more
// of them than the default.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/property/random_session.h"
#include "ullage/base/clock.h"
#include "ullage/cpu/cpu_executor.h"
#include "ullage/engine/engine.h"
#include "ullage/model/checkpoint.h"

namespace ullage {
namespace {

using model::DType;
using property::draw_session;
using property::make_executor;
using property::Session;

// What happened, over all sessions: a run without preemptions or hits would prove nothing.
struct Counts {
  int64_t num_requests = 0;
  int64_t num_finished = 0;
  int64_t num_preemptions = 0;
  int64_t num_hits = 0;           // admissions with cached tokens
  int64_t num_partial_hits = 0;   // of them, ending inside a block
  int64_t num_resumed_hits = 0;   // of them, after a preemption
  int64_t num_chunked = 0;        // admissions whose prompt took several steps
  int64_t num_cancels = 0;        // of live requests
  int64_t num_batched_steps = 0;  // steps of several requests
};

struct Output {
  std::vector<sched::SampledToken> tokens;
  bool is_cancelled = false;
};

class Collector final : public engine::EventSink {
 public:
  Collector(int64_t block_size, Counts* counts) : block_size_(block_size), counts_(counts) {}

  void on_events(std::span<const sched::Event> events) override {
    int64_t num_chunks = 0;
    for (const auto& event : events) {
      const RequestId id = event.request;
      if (const auto* token = std::get_if<sched::TokenEvent>(&event.body)) {
        auto& tokens = outputs[id].tokens;
        EXPECT_EQ(token->output_index, static_cast<int64_t>(tokens.size()));
        tokens.push_back(token->sampled);
      } else if (std::holds_alternative<sched::CancelledEvent>(event.body)) {
        outputs[id].is_cancelled = true;
      } else if (counts_ == nullptr) {
        continue;
      } else if (const auto* admitted = std::get_if<sched::AdmittedEvent>(&event.body)) {
        num_prompt_chunks_[id] = 0;
        if (admitted->num_cached_tokens == 0) continue;
        ++counts_->num_hits;
        counts_->num_partial_hits += admitted->num_cached_tokens % block_size_ != 0;
        counts_->num_resumed_hits += admitted->is_resumed;
      } else if (std::holds_alternative<sched::PreemptedEvent>(event.body)) {
        ++counts_->num_preemptions;
      } else if (const auto* chunk = std::get_if<sched::ChunkComputedEvent>(&event.body)) {
        ++num_chunks;
        if (chunk->is_prompt && ++num_prompt_chunks_[id] == 2) ++counts_->num_chunked;
      } else if (std::holds_alternative<sched::FinishedEvent>(event.body)) {
        ++counts_->num_finished;
      }
    }
    if (counts_ != nullptr) counts_->num_batched_steps += num_chunks > 1;
  }

  std::map<RequestId, Output> outputs;

 private:
  int64_t block_size_ = 0;
  Counts* counts_ = nullptr;
  std::map<RequestId, int64_t> num_prompt_chunks_;
};

// One model, and every request's output alone.
class Model {
 public:
  explicit Model(const std::string& path) {
    auto opened = model::Checkpoint::open(std::string(ULLAGE_SOURCE_DIR) + "/" + path);
    EXPECT_TRUE(opened) << opened.error().to_string();
    if (opened) checkpoint_.emplace(*std::move(opened));
  }
  bool is_open() const { return checkpoint_.has_value(); }
  const model::Checkpoint& checkpoint() const { return *checkpoint_; }

  // Alone: one request, the whole prompt in one step, nothing cached, one thread.
  std::vector<sched::SampledToken> run_alone(sched::RequestParams request, DType kv_dtype, cpu::Isa isa) {
    engine::EngineOptions o;
    o.block_size = 16;
    o.num_blocks = 33;
    o.max_model_len = 512;
    o.max_num_seqs = 1;
    o.max_num_batched_tokens = 512;
    o.enable_prefix_caching = false;
    auto& executor = alone_[{kv_dtype, isa}];
    if (executor == nullptr) executor = make_executor(*checkpoint_, o, kv_dtype, 1, isa);
    VirtualClock clock;
    engine::Engine engine(o, *executor, clock);
    Collector collector(o.block_size, nullptr);
    engine.add_sink(collector);
    const RequestId id = request.id;
    const auto added = engine.add_request(std::move(request));
    EXPECT_TRUE(added) << added.error().to_string();
    while (engine.has_work()) {
      const auto stepped = engine.step();
      if (!stepped) {
        ADD_FAILURE() << stepped.error().to_string();
        break;
      }
    }
    return collector.outputs[id].tokens;
  }

 private:
  std::optional<model::Checkpoint> checkpoint_;
  std::map<std::pair<DType, cpu::Isa>, std::unique_ptr<cpu::CpuExecutor>> alone_;
};

void expect_same(const sched::SampledToken& got, const sched::SampledToken& alone, int64_t k) {
  EXPECT_EQ(got.token, alone.token) << "output " << k;
  EXPECT_EQ(std::bit_cast<uint32_t>(got.logprob), std::bit_cast<uint32_t>(alone.logprob))
      << "output " << k << ": logprob " << got.logprob << ", alone " << alone.logprob;
  EXPECT_EQ(got.rank, alone.rank) << "output " << k;
  ASSERT_EQ(got.top.size(), alone.top.size()) << "output " << k;
  for (size_t i = 0; i < got.top.size(); ++i) {
    EXPECT_EQ(got.top[i].token, alone.top[i].token) << "output " << k;
    EXPECT_EQ(std::bit_cast<uint32_t>(got.top[i].logprob), std::bit_cast<uint32_t>(alone.top[i].logprob))
        << "output " << k;
  }
}

void run_session(Model& model, uint64_t seed, Counts& counts) {
  const Session s = draw_session(seed, model.checkpoint().shape());
  auto executor = make_executor(model.checkpoint(), s.options, s.kv_dtype, s.num_threads, s.isa);
  ASSERT_NE(executor, nullptr);
  VirtualClock clock;
  engine::Engine engine(s.options, *executor, clock);
  Collector collector(s.options.block_size, &counts);
  engine.add_sink(collector);

  size_t next = 0;
  for (int64_t step = 0; next < s.requests.size() || engine.has_work(); ++step) {
    ASSERT_LT(step, 20000) << "the session does not end";
    for (; next < s.requests.size() && s.arrival_steps[next] <= step; ++next) {
      const auto added = engine.add_request(s.requests[next]);
      ASSERT_TRUE(added) << added.error().to_string();
      ++counts.num_requests;
    }
    for (size_t i = 0; i < next; ++i) {
      if (s.cancel_steps[i] == step) counts.num_cancels += engine.cancel(s.requests[i].id);
    }
    const auto stepped = engine.step();
    ASSERT_TRUE(stepped) << stepped.error().to_string();
    clock.advance(1000);
  }
  EXPECT_EQ(engine.num_free_blocks(), engine.num_usable_blocks()) << "a block stayed in use";

  for (const auto& request : s.requests) {
    const Output& output = collector.outputs[request.id];
    const auto alone = model.run_alone(request, s.kv_dtype, s.isa);
    SCOPED_TRACE("request " + std::to_string(request.id.value));
    if (output.is_cancelled) {  // what it got until then
      ASSERT_LE(output.tokens.size(), alone.size());
    } else {
      ASSERT_EQ(output.tokens.size(), alone.size());
    }
    for (size_t k = 0; k < output.tokens.size(); ++k) {
      expect_same(output.tokens[k], alone[k], static_cast<int64_t>(k));
      if (testing::Test::HasFailure()) return;
    }
  }
}

std::optional<uint64_t> environment_number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

constexpr uint64_t kNumSessions = 60;

class Invariance : public testing::TestWithParam<const char*> {};

TEST_P(Invariance, OutputEqualsTheRequestAlone) {
  Model model(GetParam());
  ASSERT_TRUE(model.is_open());
  const auto only = environment_number("ULLAGE_INVARIANCE_SEED");
  const uint64_t num_sessions = environment_number("ULLAGE_INVARIANCE_SESSIONS").value_or(kNumSessions);
  const uint64_t first = only.value_or(1);
  Counts counts;
  for (uint64_t seed = first; seed < (only ? first + 1 : first + num_sessions); ++seed) {
    SCOPED_TRACE("ULLAGE_INVARIANCE_SEED=" + std::to_string(seed));
    run_session(model, seed, counts);
    if (HasFailure()) break;
  }
  std::cout << GetParam() << ": " << counts.num_requests << " requests, " << counts.num_finished << " finished, "
            << counts.num_cancels << " cancelled, " << counts.num_preemptions << " preemptions, " << counts.num_hits
            << " prefix hits (" << counts.num_partial_hits << " partial, " << counts.num_resumed_hits
            << " after a preemption), " << counts.num_chunked << " chunked, " << counts.num_batched_steps
            << " steps of several requests\n";
  if (only || num_sessions < kNumSessions || HasFailure()) return;  // fewer need not meet everything
  EXPECT_GT(counts.num_preemptions, 20);
  EXPECT_GT(counts.num_hits, 20);
  EXPECT_GT(counts.num_partial_hits, 5);
  EXPECT_GT(counts.num_resumed_hits, 5);
  EXPECT_GT(counts.num_chunked, 20);
  EXPECT_GT(counts.num_cancels, 5);
  EXPECT_GT(counts.num_batched_steps, 100);
}

std::string case_name(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  name = name.substr(name.find_last_of('/') + 1);
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, Invariance,
                         testing::Values("data/stories260K.gguf", "tests/data/models/hf/qwen3-tied",
                                         "tests/data/models/hf/mistral-window",
                                         "tests/data/models/gguf/llama-q4_1.gguf",
                                         "tests/data/models/gguf/llama-q6_k.gguf"),
                         case_name);

}  // namespace
}  // namespace ullage
