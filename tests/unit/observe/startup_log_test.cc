// Start-up logs in the wordings of several versions (tests/data/logs).
#include "ullage/observe/startup_log.h"

#include <gtest/gtest.h>

#include <string>

#include "ullage/base/mapped_file.h"
#include "ullage/observe/log_text.h"

namespace ullage::observe {
namespace {

StartupLog read(const std::string& name) {
  const std::string path = ULLAGE_SOURCE_DIR "/tests/data/logs/" + name;
  const auto text = read_text_file(path, 1 << 20);
  EXPECT_TRUE(text) << path;
  const auto log = read_startup_log(*text, name);
  EXPECT_TRUE(log) << log.error().to_string();
  return log ? *log : StartupLog{};
}

double gib(const std::optional<LoggedBytes>& bytes) {
  return bytes ? static_cast<double>(bytes->bytes.value) / static_cast<double>(kGiB) : -1;
}

template <class T>
T value(const std::optional<Logged<T>>& logged) {
  EXPECT_TRUE(logged.has_value());
  return logged ? logged->value : T{};
}

TEST(StartupLog, OfVllmWithSeveralRanks) {
  const StartupLog log = read("vllm-0.19.log");
  EXPECT_EQ(log.engine, memory::Engine::kVllm);
  EXPECT_EQ(value(log.version), "0.19.0");
  EXPECT_EQ(value(log.model), "example/Model-8B");
  EXPECT_EQ(value(log.dtype), "bfloat16");
  EXPECT_EQ(value(log.kv_dtype), "fp8_e4m3");
  EXPECT_FALSE(log.quantization.has_value());
  EXPECT_EQ(value(log.tensor_parallel), 2);
  EXPECT_EQ(value(log.max_model_len), 32768);
  EXPECT_EQ(value(log.max_num_seqs), 64);
  EXPECT_EQ(value(log.num_speculative_tokens), 3);
  EXPECT_EQ(value(log.gpu_memory_utilization), 0.85);
  EXPECT_FALSE(value(log.is_eager));
  EXPECT_TRUE(value(log.has_prefix_caching));
  EXPECT_NEAR(gib(log.weights), 7.81, 1e-6);
  EXPECT_NEAR(gib(log.graphs), -0.05, 1e-6);
  // The rank with the least sets the blocks.
  ASSERT_EQ(log.ranks.size(), 2U);
  EXPECT_EQ(log.ranks[0].rank, "Worker_TP0");
  EXPECT_NEAR(gib(log.kv_memory), 14.70, 1e-6);
  EXPECT_EQ(log.kv_memory->half_step.value, kGiB / 200);
  EXPECT_EQ(log.kv_memory->line, 10);
  EXPECT_EQ(value(log.kv_tokens), 1429328);
  EXPECT_EQ(value(log.max_concurrency), 43.62);
  EXPECT_EQ(value(log.concurrency_len), 32768);
  EXPECT_EQ(value(log.attention_block_size), 1056);
  EXPECT_EQ(value(log.state_padding_percent), 0.76);
  EXPECT_EQ(value(log.padding_layers), 3);
}

TEST(StartupLog, OfVllmWithItsSummary) {
  const StartupLog log = read("vllm-0.26.log");
  EXPECT_EQ(value(log.kv_tokens), 151216);  // on one line with the concurrency
  EXPECT_EQ(value(log.max_concurrency), 1.15);
  EXPECT_NEAR(gib(log.graphs_estimated), 0.15, 1e-6);
  EXPECT_NEAR(gib(log.graphs), 0.11, 1e-6);
  EXPECT_NEAR(gib(log.device_memory), 79.25, 1e-6);
  EXPECT_NEAR(gib(log.free_memory), 78.84, 1e-6);
  EXPECT_NEAR(gib(log.requested), 71.33, 1e-6);
  EXPECT_NEAR(gib(log.activations), 0.23, 1e-6);
  EXPECT_EQ(value(log.gpu_memory_utilization), 0.9);
}

TEST(StartupLog, OfVllmBeforeV1) {
  const StartupLog log = read("vllm-v0.log");
  EXPECT_EQ(value(log.version), "0.6.6.post1");
  EXPECT_EQ(value(log.quantization), "awq");
  EXPECT_TRUE(value(log.is_eager));
  EXPECT_NEAR(gib(log.weights), 21.6682, 1e-6);  // it prints "GB" and divides by 2^30
  EXPECT_NEAR(gib(log.activations), 15.73, 1e-6);
  EXPECT_NEAR(gib(log.non_torch), 0.36, 1e-6);
  EXPECT_NEAR(gib(log.kv_memory), 3.09, 1e-6);
  EXPECT_NEAR(gib(log.device_memory), 44.39, 1e-6);
  EXPECT_NEAR(gib(log.requested), 40.84, 1e-6);
  EXPECT_EQ(value(log.num_blocks), 5065);
  EXPECT_EQ(value(log.max_concurrency), 9.89);
}

TEST(StartupLog, OfARefusedStart) {
  const auto log = read_startup_log(
      "ValueError: To serve at least one request with the models's max seq len (262144), (24.0 GiB KV cache is needed, "
      "which is larger than the available KV cache memory (3.18 GiB). Based on the available memory, the estimated "
      "maximum model length is 34736.\n",
      "x");
  ASSERT_TRUE(log);
  EXPECT_NEAR(gib(log->refused_needed), 24.0, 1e-6);
  EXPECT_NEAR(gib(log->kv_memory), 3.18, 1e-6);
  EXPECT_EQ(value(log->max_model_len), 262144);
  EXPECT_EQ(value(log->refused_longest), 34736);
}

TEST(StartupLog, TheLastStartCounts) {
  const std::string first =
      "INFO Initializing a V1 LLM engine (v0.10.0) with config: model='a', max_seq_len=8192\n"
      "INFO Available KV cache memory: 10.00 GiB\nINFO GPU KV cache size: 100 tokens\n";
  const std::string second =
      "INFO Initializing a V1 LLM engine (v0.10.0) with config: model='b', max_seq_len=4096\n"
      "INFO Available KV cache memory: 12.00 GiB\nINFO GPU KV cache size: 200 tokens\n";
  const auto log = read_startup_log(first + second, "x");
  ASSERT_TRUE(log);
  EXPECT_EQ(value(log->model), "b");
  EXPECT_EQ(value(log->max_model_len), 4096);
  EXPECT_EQ(value(log->kv_tokens), 200);
  EXPECT_NEAR(gib(log->kv_memory), 12.0, 1e-6);
  EXPECT_EQ(log->ranks.size(), 1U);
}

TEST(StartupLog, OfSglang) {
  const StartupLog log = read("sglang.log");
  EXPECT_EQ(log.engine, memory::Engine::kSglang);
  EXPECT_EQ(value(log.model), "example/Model-235B");
  EXPECT_EQ(value(log.quantization), "fp8");
  EXPECT_EQ(value(log.kv_dtype), "torch.bfloat16");
  EXPECT_EQ(value(log.tensor_parallel), 2);
  EXPECT_EQ(value(log.gpu_memory_utilization), 0.88);
  EXPECT_EQ(value(log.max_num_seqs), 2048);
  EXPECT_EQ(value(log.max_num_batched_tokens), 8192);
  EXPECT_EQ(value(log.max_model_len), 40960);
  EXPECT_TRUE(value(log.has_prefix_caching));
  EXPECT_FALSE(log.speculative.has_value());
  EXPECT_NEAR(gib(log.weights), 112.33, 1e-6);
  EXPECT_NEAR(gib(log.graphs), 1.44, 1e-6);
  EXPECT_NEAR(gib(log.kv_memory), 20.42, 1e-6);  // keys and values; SGLang's GB are GiB
  EXPECT_EQ(log.ranks.size(), 2U);
  EXPECT_EQ(value(log.kv_tokens), 148717);
}

TEST(StartupLog, OfLlamaCpp) {
  const StartupLog log = read("llama.cpp.log");
  EXPECT_EQ(log.engine, memory::Engine::kLlamaCpp);
  EXPECT_EQ(value(log.version), "b6789");
  EXPECT_EQ(value(log.model), "Example 8B Instruct");
  EXPECT_EQ(value(log.kv_dtype), "f16");
  EXPECT_NEAR(gib(log.weights) * 1024, 4455.34, 1e-3);  // the host's part is not on the device
  EXPECT_NEAR(gib(log.kv_memory) * 1024, 1152.0, 1e-3);
  EXPECT_NEAR(gib(log.activations) * 1024, 304.75, 1e-3);
  EXPECT_EQ(value(log.kv_tokens), 8192);
  EXPECT_EQ(value(log.max_model_len), 2048);
  EXPECT_EQ(value(log.num_slots), 4);
}

TEST(StartupLog, OfLlamaCppBefore2025) {
  const StartupLog log = read("llama.cpp-2024.log");
  EXPECT_EQ(log.engine, memory::Engine::kLlamaCpp);
  EXPECT_NEAR(gib(log.weights) * 1024, 4155.99, 1e-3);
  EXPECT_NEAR(gib(log.kv_memory) * 1024, 1024.0, 1e-3);
  EXPECT_EQ(value(log.kv_dtype), "f16");
  EXPECT_EQ(value(log.concurrency_len), 8192);
}

TEST(StartupLog, SaysWhatItLookedForInOtherTexts) {
  for (const char* text : {"", "hello\nworld\n", "{\"a\": 1}", "# HELP x\nx 1\n"}) {
    const auto log = read_startup_log(text, "some.log");
    ASSERT_FALSE(log) << text;
    EXPECT_EQ(log.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(log.error().where, "some.log");
    for (const char* word : {"vLLM", "SGLang", "llama.cpp", "GPU KV cache size"}) {
      EXPECT_NE(log.error().message.find(word), std::string::npos) << word;
    }
  }
}

TEST(LogText, NumbersAsPrinted) {
  EXPECT_EQ(parse_decimal("456,816 tokens")->digits, 456816);
  EXPECT_EQ(parse_decimal("1,23")->digits, 1);  // no thousands
  EXPECT_EQ(parse_decimal("12.20 GiB")->decimals, 2);
  EXPECT_EQ(parse_decimal("-0.07")->value(), -0.07);
  EXPECT_EQ(parse_decimal("3.")->digits, 3);
  EXPECT_FALSE(parse_decimal("x1"));
  EXPECT_FALSE(parse_decimal(""));
  EXPECT_FALSE(parse_decimal("99999999999999999999999"));
}

TEST(LogText, FieldsOfLists) {
  const std::string line = "config: model='a,b', nested=Spec(x=1, y=2), max_x=3, list=[1, 2], last=5)";
  EXPECT_EQ(field(line, "model"), "a,b");
  EXPECT_EQ(field(line, "nested"), "Spec(x=1, y=2)");
  EXPECT_EQ(count_field(line, "last"), 5);
  EXPECT_EQ(field(line, "list"), "[1, 2]");
  EXPECT_FALSE(field(line, "mod"));
  EXPECT_EQ(field("{'tensor_parallel_size': 2, 'model': 'm'}", "model"), "m");
  EXPECT_EQ(plain_text("\x1b[32mgreen\x1b[0m\rover"), "green over");
}

}  // namespace
}  // namespace ullage::observe
