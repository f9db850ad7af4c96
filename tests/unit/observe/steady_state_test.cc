// Steady-state lines, scrapes, and what they are taken to mean.
#include "ullage/observe/steady_state.h"

#include <gtest/gtest.h>

#include <string>

#include "ullage/base/mapped_file.h"
#include "ullage/observe/diagnosis.h"

namespace ullage::observe {
namespace {

std::string vllm_line(int running, int waiting, double usage, const char* more = "") {
  return "INFO 08-07 21:00:00 [loggers.py:123] Engine 000: Avg prompt throughput: 512.0 tokens/s, Avg generation "
         "throughput: 820.5 tokens/s, Running: " +
         std::to_string(running) + " reqs, Waiting: " + std::to_string(waiting) + " reqs, " + more +
         "GPU KV cache usage: " + std::to_string(usage) + "%, Prefix cache hit rate: 12.5%\n";
}

SteadyState log_of(const std::string& text) {
  const auto state = read_steady_log(text, "x");
  EXPECT_TRUE(state) << state.error().to_string();
  return state ? *state : SteadyState{};
}

TEST(SteadyLog, OfVllm) {
  const SteadyState state =
      log_of("start\n" + vllm_line(10, 0, 40) + vllm_line(30, 4, 80, "Preemptions: 2, ") + vllm_line(0, 0, 0));
  EXPECT_EQ(state.engine, memory::Engine::kVllm);
  ASSERT_EQ(state.samples.size(), 3U);
  EXPECT_EQ(state.samples[0].line, 2);
  EXPECT_EQ(state.running, 20);  // the idle sample is left out
  EXPECT_EQ(state.waiting, 2);
  EXPECT_EQ(state.max_waiting, 4);
  EXPECT_NEAR(*state.kv_usage, 0.6, 1e-9);
  EXPECT_NEAR(*state.max_kv_usage, 0.8, 1e-9);
  EXPECT_EQ(*state.output_tokens_per_second, 820.5);
  EXPECT_EQ(*state.preemptions, 2);
  EXPECT_NEAR(*state.prefix_hit_rate, 0.125, 1e-9);
}

TEST(SteadyLog, OfSglang) {
  const SteadyState state = log_of(
      "[2025-09-03 18:33:18 TP0] Prefill batch. #new-seq: 1, #new-token: 100, #cached-token: 300, token usage: 0.90, "
      "#running-req: 8, #queue-req: 5, \n"
      "[2025-09-03 18:33:19 TP0] Decode batch. #running-req: 8, #token: 137, token usage: 0.94, cuda graph: True, gen "
      "throughput (token/s): 84.20, #queue-req: 7, \n");
  EXPECT_EQ(state.engine, memory::Engine::kSglang);
  EXPECT_EQ(state.running, 8);
  EXPECT_EQ(state.waiting, 6);
  EXPECT_NEAR(*state.kv_usage, 0.92, 1e-9);
  EXPECT_EQ(*state.output_tokens_per_second, 84.2);
  EXPECT_NEAR(*state.prefix_hit_rate, 0.75, 1e-9);
  EXPECT_EQ(diagnose(state).binding, Binding::kPoolFull);
}

TEST(SteadyLog, OfLlamaServer) {
  const SteadyState state = log_of(
      "slot launch_slot_: id  2 | task 35 | processing task, is_child = 0\n"
      "slot launch_slot_: id  1 | task 36 | processing task, is_child = 0\n"
      "prompt eval time =     838.38 ms /   128 tokens (    6.55 ms per token,   152.68 tokens per second)\n"
      "       eval time =     880.24 ms /     6 tokens (  146.71 ms per token,     6.82 tokens per second)\n"
      "slot      release: id  2 | task 17 | stop processing: n_tokens = 133, truncated = 0\n");
  EXPECT_EQ(state.engine, memory::Engine::kLlamaCpp);
  EXPECT_EQ(state.max_running, 2);
  EXPECT_EQ(*state.prompt_tokens_per_second, 152.68);
  EXPECT_EQ(*state.output_tokens_per_second, 6.82);
}

TEST(SteadyLog, SaysWhatItLookedFor) {
  const auto state = read_steady_log("nothing here\n", "x.log");
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(state.error().message.find("Decode batch"), std::string::npos);
}

std::string scrape() { return *read_text_file(ULLAGE_SOURCE_DIR "/tests/data/logs/steady.prom", 1 << 20); }

TEST(Metrics, OfVllmAndDcgm) {
  EXPECT_TRUE(is_metrics(scrape()));
  EXPECT_FALSE(is_metrics(vllm_line(1, 0, 1)));
  const auto state = read_metrics(scrape(), "scrape");
  ASSERT_TRUE(state) << state.error().to_string();
  EXPECT_EQ(state->running, 64);
  EXPECT_EQ(state->waiting, 12);
  EXPECT_NEAR(*state->kv_usage, 0.412, 1e-12);
  EXPECT_EQ(*state->num_blocks, 27306);
  EXPECT_EQ(*state->block_size, 16);
  EXPECT_NEAR(*state->prompt_tokens, 1234500, 1e-6);
  EXPECT_EQ(*state->prefix_hit_rate, 0.25);
  EXPECT_EQ(*state->mean_ttft_seconds, 0.5);
  EXPECT_NEAR(*state->dram_active, 0.71, 1e-12);
  EXPECT_NEAR(*state->tensor_active, 0.18, 1e-12);
  EXPECT_NEAR(*state->gpu_utilization, 0.98, 1e-12);
}

TEST(Metrics, EnginesAreSummedAndSharesAveraged) {
  const auto state = read_metrics(
      "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} 5\n"
      "vllm:kv_cache_usage_perc{engine=\"0\"} 0.2\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.4\n",
      "x");
  ASSERT_TRUE(state);
  EXPECT_EQ(state->running, 8);
  EXPECT_NEAR(*state->kv_usage, 0.3, 1e-12);
}

TEST(Metrics, BrokenLinesAreLocated) {
  for (const char* line : {"vllm:x{a=\"b\" 1", "vllm:x", "vllm:x abc", "{a=\"b\"} 1", "vllm:x 1e", "vllm:x ."}) {
    const auto state = read_metrics("vllm:num_requests_running 1\n" + std::string(line) + "\n", "m");
    ASSERT_FALSE(state) << line;
    EXPECT_EQ(state.error().code, ErrorCode::kCorrupt) << line;
    EXPECT_EQ(state.error().where, "m:2") << line;
  }
  const auto other = read_metrics("go_goroutines 12\n", "m");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kUnsupported);
}

TEST(Metrics, TwoScrapesGiveRates) {
  SteadyState earlier;
  earlier.output_tokens = 1000;
  earlier.preemptions = 5;
  SteadyState later = earlier;
  later.output_tokens = 4000;
  const auto state = between(earlier, later, 10);
  ASSERT_TRUE(state);
  EXPECT_EQ(*state->output_tokens_per_second, 300);
  EXPECT_EQ(*state->preemptions, 0);  // none in the time between
  EXPECT_FALSE(between(earlier, later, 0));
}

TEST(Diagnosis, EachBindingFromItsNumbers) {
  StartupLog startup;
  startup.max_num_seqs = Logged<int64_t>{64, 1};
  DiagnosisContext known;
  known.startup = &startup;
  const struct {
    std::string text;
    Binding binding;
    const char* knob;
  } rows[] = {
      {vllm_line(40, 9, 98), Binding::kPoolFull, "fp8"},
      {vllm_line(40, 9, 98, "Preemptions: 3, "), Binding::kPreemptions, "--max-num-seqs 36"},
      {vllm_line(64, 9, 45), Binding::kMaxNumSeqs, "--max-num-seqs 128"},
      {vllm_line(30, 9, 45), Binding::kCompute, "replica"},
      {vllm_line(3, 0, 5), Binding::kIdle, "nothing"},
  };
  for (const auto& row : rows) {
    const Diagnosis diagnosis = diagnose(log_of(row.text), known);
    EXPECT_EQ(diagnosis.binding, row.binding) << row.text << binding_name(diagnosis.binding);
    ASSERT_FALSE(diagnosis.findings.empty());
    EXPECT_NE(diagnosis.findings[0].knob.find(row.knob), std::string::npos) << diagnosis.findings[0].knob;
    EXPECT_NE(diagnosis.findings[0].evidence.find("running"), std::string::npos);
    EXPECT_FALSE(diagnosis.findings[0].meaning.empty());
  }
  // Without max_num_seqs a queue beside a pool with room has no certain cause.
  EXPECT_EQ(diagnose(log_of(vllm_line(64, 9, 45))).binding, Binding::kUnknown);
}

TEST(Diagnosis, PreemptionsComeBeforeTheFullPool) {
  const Diagnosis diagnosis = diagnose(log_of(vllm_line(40, 9, 98, "Preemptions: 3, ")));
  ASSERT_EQ(diagnosis.findings.size(), 2U);
  EXPECT_EQ(diagnosis.findings[1].binding, Binding::kPoolFull);
}

TEST(Diagnosis, ProfilingGaugesTellWhatUtilisationCannot) {
  const Diagnosis diagnosis = diagnose(*read_metrics(scrape(), "x"));
  EXPECT_NE(diagnosis.duty.find("DRAM active 71 %"), std::string::npos) << diagnosis.duty;
  EXPECT_NE(diagnosis.duty.find("memory bandwidth"), std::string::npos) << diagnosis.duty;
  EXPECT_NE(diagnosis.caveat.find("98 % here"), std::string::npos) << diagnosis.caveat;
  // Gauges alone.
  const auto gauges = read_metrics("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu=\"0\"} 0.8\n", "x");
  ASSERT_TRUE(gauges);
  EXPECT_EQ(diagnose(*gauges).binding, Binding::kCompute);
}

}  // namespace
}  // namespace ullage::observe
