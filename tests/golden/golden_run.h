// What the golden tests of whole models share: the goldens' form (scripts/goldens/golden_form.py), and a request's way
// through the real path: Checkpoint, CpuExecutor, Engine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ullage/base/check.h"
#include "ullage/base/clock.h"
#include "ullage/base/json.h"
#include "ullage/cpu/cpu_executor.h"
#include "ullage/cpu/kernels.h"
#include "ullage/engine/engine.h"
#include "ullage/model/checkpoint.h"

namespace ullage::golden {

inline std::string data_path(const std::string& name) { return std::string(ULLAGE_SOURCE_DIR) + "/" + name; }

struct GoldenRow {  // all logits at one output index
  int64_t index = 0;
  std::vector<float> values;  // [vocab_size]
};
struct GoldenPrompt {
  std::vector<TokenId> prompt;
  std::vector<TokenId> greedy;
  std::vector<double> gaps;  // [greedy.size()] the largest logit less the second
  std::vector<GoldenRow> logits;
  std::vector<std::vector<TokenId>> top_ids;   // [greedy.size()] or empty: the largest logits, and
  std::vector<std::vector<float>> top_values;  // their values
};
struct Golden {
  double reference_error = 0;  // of the golden itself, against fp64
  std::vector<GoldenPrompt> prompts;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  ULLAGE_CHECK_MSG(file.good(), path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

inline Golden read_golden(const std::string& path) {
  auto json = parse_json(read_file(path), path);
  ULLAGE_CHECK_MSG(json.has_value(), path);
  Golden golden;
  golden.reference_error = json->at("reference_error").get<double>();
  for (const Json& item : json->at("prompts")) {
    GoldenPrompt& p = golden.prompts.emplace_back();
    p.prompt = item.at("prompt").get<std::vector<TokenId>>();
    p.greedy = item.at("greedy").get<std::vector<TokenId>>();
    p.gaps = item.at("gaps").get<std::vector<double>>();
    if (item.contains("logits")) {
      for (const Json& row : item.at("logits")) {
        p.logits.push_back({row.at("index").get<int64_t>(), row.at("values").get<std::vector<float>>()});
      }
    }
    if (item.contains("top_ids")) {
      p.top_ids = item.at("top_ids").get<std::vector<std::vector<TokenId>>>();
      p.top_values = item.at("top_values").get<std::vector<std::vector<float>>>();
    }
  }
  return golden;
}

// Those that this processor has.
inline std::vector<cpu::Isa> instruction_sets() {
  std::vector<cpu::Isa> sets;
  for (const cpu::Isa isa : {cpu::Isa::kPortable, cpu::Isa::kAvx2, cpu::Isa::kAvx512}) {
    if (cpu::select_kernels(isa)) sets.push_back(isa);
  }
  return sets;
}
inline const char* name_of(cpu::Isa isa) {
  return isa == cpu::Isa::kPortable ? "portable" : isa == cpu::Isa::kAvx2 ? "AVX2" : "AVX-512";
}

// A model behind the real executor, for one request at a time.
class ModelUnderTest {
 public:
  static std::unique_ptr<ModelUnderTest> open(const std::string& path, cpu::Isa isa = cpu::Isa::kAuto,
                                              int64_t num_threads = 1) {
    auto checkpoint = model::Checkpoint::open(path);
    if (!checkpoint) {
      ADD_FAILURE() << checkpoint.error().to_string();
      return nullptr;
    }
    auto model = std::unique_ptr<ModelUnderTest>(new ModelUnderTest(*std::move(checkpoint)));
    cpu::CpuOptions& o = model->options_;
    o.num_threads = num_threads;
    o.isa = isa;
    o.kv_dtype = model::DType::kF32;
    o.block_size = 16;
    o.max_model_len = std::min<int64_t>(model->checkpoint_.shape().max_position_embeddings, 1024);
    o.num_blocks = ceil_div(o.max_model_len, o.block_size) + 1;
    o.max_num_batched_tokens = 256;
    o.max_num_seqs = 1;
    auto executor = cpu::CpuExecutor::create(model->checkpoint_, o);
    if (!executor) {
      ADD_FAILURE() << executor.error().to_string();
      return nullptr;
    }
    model->executor_ = *std::move(executor);
    return model;
  }

  // Greedy: calls visit(output index, token, logits) for every token.
  template <class Visit>
  void generate(const std::vector<TokenId>& prompt, int64_t num_tokens, Visit visit) {
    VirtualClock clock;
    engine::EngineOptions o;
    o.block_size = options_.block_size;
    o.num_blocks = options_.num_blocks;
    o.max_model_len = options_.max_model_len;
    o.max_num_seqs = options_.max_num_seqs;
    o.max_num_batched_tokens = options_.max_num_batched_tokens;
    o.is_paranoid = true;
    engine::Engine engine(o, *executor_, clock);
    TokenSink sink;
    engine.add_sink(sink);
    sched::RequestParams request;
    request.id = RequestId(1);
    request.prompt = prompt;
    request.sampling.temperature = 0;
    request.stop.max_tokens = num_tokens;
    request.stop.ignore_eos = true;
    auto added = engine.add_request(std::move(request));
    ASSERT_TRUE(added) << added.error().to_string();
    while (engine.has_work()) {
      auto stepped = engine.step();
      ASSERT_TRUE(stepped) << stepped.error().to_string();
      for (auto [index, token] : std::exchange(sink.tokens, {})) visit(index, token, executor_->last_logits());
    }
  }

 private:
  struct TokenSink final : engine::EventSink {
    std::vector<std::pair<int64_t, TokenId>> tokens;
    void on_events(std::span<const sched::Event> events) override {
      for (const auto& event : events) {
        if (const auto* t = std::get_if<sched::TokenEvent>(&event.body)) {
          tokens.emplace_back(t->output_index, t->sampled.token);
        }
      }
    }
  };

  explicit ModelUnderTest(model::Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}

  model::Checkpoint checkpoint_;
  cpu::CpuOptions options_;
  std::unique_ptr<cpu::CpuExecutor> executor_;
};

struct Comparison {
  int64_t num_tokens = 0;
  int64_t num_logits = 0;
  double largest_difference = 0;   // of a logit
  std::vector<std::string> ties;   // tokens that differ where the golden's gap is within the bound
  std::vector<std::string> wrong;  // tokens that differ and should not
};

// Generates as many tokens as the golden has and compares each, and the logits that the golden lists. A token may
// differ where the golden's two largest logits are within 2 * bound of each other (each may be off by the bound): it is
// listed, and the run goes on from the golden's own tokens.
inline void compare(ModelUnderTest& model, const GoldenPrompt& golden, double bound, const std::string& name,
                    Comparison& c) {
  int64_t done = 0;
  const auto num_greedy = static_cast<int64_t>(golden.greedy.size());
  while (done < num_greedy) {
    std::vector<TokenId> prompt = golden.prompt;
    prompt.insert(prompt.end(), golden.greedy.begin(), golden.greedy.begin() + done);
    const int64_t base = done;
    bool has_diverged = false;
    int64_t next = done;
    model.generate(prompt, num_greedy - base, [&](int64_t index, TokenId token, std::span<const float> logits) {
      if (has_diverged) return;  // from other tokens: nothing to compare with
      const int64_t k = base + index;
      const auto difference = [&](TokenId id, float expected) {
        ++c.num_logits;
        const double d = std::fabs(static_cast<double>(logits[static_cast<size_t>(id)]) - expected);
        c.largest_difference = std::max(c.largest_difference, std::isnan(d) ? HUGE_VAL : d);
      };
      for (const GoldenRow& row : golden.logits) {
        if (row.index != k) continue;
        ASSERT_EQ(row.values.size(), logits.size());
        for (size_t i = 0; i < logits.size(); ++i) difference(static_cast<TokenId>(i), row.values[i]);
      }
      if (!golden.top_ids.empty()) {
        const auto& ids = golden.top_ids[static_cast<size_t>(k)];
        for (size_t i = 0; i < ids.size(); ++i) difference(ids[i], golden.top_values[static_cast<size_t>(k)][i]);
      }
      ++c.num_tokens;
      next = k + 1;
      const TokenId expected = golden.greedy[static_cast<size_t>(k)];
      if (token == expected) return;
      has_diverged = true;
      const double gap = golden.gaps[static_cast<size_t>(k)];
      std::ostringstream line;
      line << name << ", output " << k << ": token " << token << " for " << expected << ", gap " << gap;
      (gap <= 2 * bound ? c.ties : c.wrong).push_back(line.str());
    });
    if (next == done) {
      ADD_FAILURE() << name << ": no token after output " << done;
      return;
    }
    done = next;
  }
}

inline void report(const std::string& name, const Comparison& c, double bound) {
  std::cout << name << ": " << c.num_tokens << " greedy tokens, " << c.num_logits << " logits, largest difference "
            << c.largest_difference << " (bound " << bound << "), ties " << c.ties.size() << "\n";
  for (const auto& line : c.ties) std::cout << "  tie: " << line << "\n";
  for (const auto& line : c.wrong) ADD_FAILURE() << "token differs: " << line;
  EXPECT_LE(c.largest_difference, bound) << name;
}

}  // namespace ullage::golden
