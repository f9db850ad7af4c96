#include "ullage/api/serve_line.h"

#include <gtest/gtest.h>

#include "ullage/api/plan_words.h"
#include "ullage/api/shell_words.h"

namespace ullage::api {
namespace {

using Words = std::vector<std::string>;

ServeLine read(const char* line) {
  auto parsed = parse_serve_line(line, "--line");
  EXPECT_TRUE(parsed) << line << ": " << (parsed ? "" : parsed.error().to_string());
  return parsed ? *parsed : ServeLine{};
}

int64_t count(const ServeLine& line, const char* key) {
  const LeverSetting* setting = line.levers.find(key);
  return setting == nullptr ? -1 : setting->value.integer;
}
bool flag(const ServeLine& line, const char* key) {
  const LeverSetting* setting = line.levers.find(key);
  return setting != nullptr && setting->value.flag;
}

TEST(ShellWords, SplitsAsAShellDoes) {
  EXPECT_EQ(*split_shell_words("a 'b c' \"d \\\" e\" f\\ g ''", ""), (Words{"a", "b c", "d \" e", "f g", ""}));
  EXPECT_EQ(*split_shell_words("a \\\n  b \\\r\n c", ""), (Words{"a", "b", "c"}));
  EXPECT_EQ(*split_shell_words("a b # c\n d", ""), (Words{"a", "b"}));
  EXPECT_EQ(*split_shell_words("a b > log 2>&1 &", ""), (Words{"a", "b"}));
  EXPECT_EQ(*split_shell_words("a --x='{\"k\": 1}' | tee f", ""), (Words{"a", "--x={\"k\": 1}"}));
  EXPECT_EQ(*split_shell_words("\n\n a", ""), (Words{"a"}));
  EXPECT_TRUE(split_shell_words("", "")->empty());
  const auto open = split_shell_words("a 'b", "--line");
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().where, "--line");
}

TEST(ShellWords, QuotingIsUndoneBySplitting) {
  for (const char* word : {"a", "a b", "it's", "\"", "$x", "", "a\\b", "{\"k\": [1, 2]}"}) {
    EXPECT_EQ(*split_shell_words(quote_shell_word(word), ""), Words{word});
  }
}

TEST(ServeLine, Vllm) {
  const ServeLine line = read(
      "CUDA_VISIBLE_DEVICES=0,1 nohup vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --max_model_len=32768 "
      "--gpu-memory-utilization 0.95 --kv-cache-dtype fp8 --enforce-eager --trust-remote-code --port 8001 "
      "--served-model-name a b c --max-num-seqs 64 -q fp8 > log.txt 2>&1 &");
  EXPECT_EQ(line.policy, "vllm");
  EXPECT_EQ(line.model, "Qwen/Qwen3-8B");
  EXPECT_EQ(count(line, "tensor_parallel"), 2);
  EXPECT_EQ(count(line, "max_model_len"), 32768);
  EXPECT_EQ(count(line, "max_num_seqs"), 64);
  EXPECT_DOUBLE_EQ(line.levers.find("gpu_memory_utilization")->value.number, 0.95);
  EXPECT_EQ(line.levers.find("kv_cache_dtype")->value.text, "fp8");
  EXPECT_EQ(line.levers.find("weights")->value.text, "fp8");
  EXPECT_TRUE(flag(line, "enforce_eager"));
  EXPECT_TRUE(line.notes.empty());
}

TEST(ServeLine, ShortNamesAndJson) {
  const ServeLine line = read(
      "python3 -m vllm.entrypoints.openai.api_server --model deepseek-ai/DeepSeek-V3 -tp 8 -dp=2 "
      "--enable-expert-parallel --speculative-config '{\"method\": \"mtp\", \"num_speculative_tokens\": 1}' -O0 "
      "--max-model-len -1 --kv-cache-dtype auto --no-enable-prefix-caching");
  EXPECT_EQ(line.model, "deepseek-ai/DeepSeek-V3");
  EXPECT_EQ(count(line, "tensor_parallel"), 8);
  EXPECT_EQ(count(line, "data_parallel"), 2);
  EXPECT_TRUE(flag(line, "expert_parallel"));
  EXPECT_EQ(count(line, "speculative_tokens"), 1);
  EXPECT_TRUE(flag(line, "enforce_eager"));
  EXPECT_TRUE(flag(line, "no_prefix_caching"));
  EXPECT_EQ(line.levers.find("max_model_len"), nullptr);
  EXPECT_EQ(line.levers.find("kv_cache_dtype"), nullptr);
}

TEST(ServeLine, Containers) {
  const ServeLine vllm = read(
      "docker run --runtime nvidia --gpus all -v ~/.cache/huggingface:/root/.cache/huggingface -p 8000:8000 --ipc=host "
      "vllm/vllm-openai:latest --model mistralai/Mistral-7B-v0.1 --max-model-len 4096");
  EXPECT_EQ(vllm.policy, "vllm");
  EXPECT_EQ(vllm.model, "mistralai/Mistral-7B-v0.1");
  EXPECT_EQ(count(vllm, "max_model_len"), 4096);
  const ServeLine sglang = read(
      "docker run --gpus all --shm-size 32g lmsysorg/sglang:latest python3 -m sglang.launch_server --model-path "
      "Qwen/Qwen3-8B --tp 2 --mem-fraction-static 0.85 --context-length 8192 --page-size 16 --max-total-tokens 65536");
  EXPECT_EQ(sglang.policy, "sglang");
  EXPECT_EQ(count(sglang, "tensor_parallel"), 2);
  EXPECT_EQ(count(sglang, "num_blocks"), 4096);
  EXPECT_DOUBLE_EQ(sglang.levers.find("gpu_memory_utilization")->value.number, 0.85);
}

TEST(ServeLine, LlamaCppDividesItsContextOverSlots) {
  const ServeLine split =
      read("./llama-server -m model.gguf -c 32768 -np 4 -ngl 99 -ctk q8_0 -ctv q8_0 -fa on --jinja");
  EXPECT_EQ(split.policy, "llama.cpp");
  EXPECT_EQ(split.model, "model.gguf");
  EXPECT_EQ(count(split, "max_model_len"), 8192);
  EXPECT_EQ(count(split, "max_num_seqs"), 4);
  EXPECT_EQ(count(split, "num_blocks"), 32768);
  EXPECT_EQ(split.levers.find("kv_cache_dtype")->value.text, "q8_0");
  ASSERT_EQ(split.notes.size(), 1u);
  EXPECT_NE(split.notes[0].find("8,192"), std::string::npos);
  const ServeLine unified = read("llama-server -m model.gguf -c 32768 -np 4 -kvu");
  EXPECT_EQ(count(unified, "max_model_len"), 32768);
  const ServeLine automatic = read("llama-server -hf ggml-org/gemma-3-1b-it-GGUF:Q8_0 -c 32768");
  EXPECT_EQ(count(automatic, "max_model_len"), 32768);
  EXPECT_EQ(count(automatic, "max_num_seqs"), 4);
  EXPECT_EQ(automatic.model, "ggml-org/gemma-3-1b-it-GGUF:Q8_0");
}

TEST(ServeLine, SaysWhatItLeavesOut) {
  const ServeLine line = read("vllm serve m --cpu-offload-gb 10 --no-such-flag 5 --another-one --max-model-len 1k");
  ASSERT_EQ(line.notes.size(), 3u);
  EXPECT_NE(line.notes[0].find("--cpu-offload-gb"), std::string::npos);
  EXPECT_NE(line.notes[1].find("--no-such-flag"), std::string::npos);
  EXPECT_NE(line.notes[2].find("--another-one"), std::string::npos);
  EXPECT_EQ(count(line, "max_model_len"), 1000);
}

TEST(ServeLine, BadInput) {
  const struct {
    const char* line;
    const char* where;
    const char* part;
  } cases[] = {
      {"", "--line", "starts no server"},
      {"ls -l", "--line", "starts no server"},
      {"vllm serve", "--line", "names no model"},
      {"vllm serve m --max-model-len", "--line: --max-model-len", "no value"},
      {"vllm serve m --max-model-len --port 1", "--line: --max-model-len", "no value"},
      {"vllm serve m --gpu-memory-utilization 90", "--line: --gpu-memory-utilization", "0.01 to 1"},
      {"vllm serve m -tp x", "--line: -tp", "not a number"},
      {"vllm serve m --speculative-config '{'", "", ""},
      {"vllm serve m --speculative-config '[1]'", "--line: --speculative-config", "object"},
      {"llama-server -m m.gguf -np 0", "--line: -np", "1 to 65,536"},
      {"vllm serve 'm", "--line", "quote"},
  };
  for (const auto& [line, where, part] : cases) {
    const auto parsed = parse_serve_line(line, "--line");
    ASSERT_FALSE(parsed) << line;
    if (*where != '\0') {
      EXPECT_EQ(parsed.error().where, where) << line;
    }
    EXPECT_NE(parsed.error().message.find(part), std::string::npos) << parsed.error().message;
  }
}

// What is printed reads back as the same levers.
TEST(ServeLine, PrintedLinesReadBack) {
  const char* lines[] = {
      "vllm serve Qwen/Qwen3-8B --quantization fp8 --tensor-parallel-size 2 --max-model-len 32768 --enforce-eager "
      "--kv-cache-memory-bytes 32212254720 --gpu-memory-utilization 0.85",
      "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp-size 2 --mem-fraction-static 0.85 "
      "--disable-radix-cache --context-length 8192",
      "llama-server -m model.gguf -c 32768 -np 4 -ctk q8_0 -ctv q8_0 -ngl 99",
      "ullage serve stories260K --kv-cache-memory 1048576 --max-model-len 512 --no-enable-prefix-caching",
  };
  for (const char* text : lines) {
    const ServeLine line = read(text);
    const auto printed = print_serve_line(line.policy, line.model, line.levers);
    ASSERT_TRUE(printed) << text;
    const ServeLine again = read(printed->line.c_str());
    EXPECT_EQ(again.model, line.model);
    ASSERT_EQ(again.levers.all().size(), line.levers.all().size()) << printed->line;
    for (const LeverSetting& setting : line.levers.all()) {
      const LeverSetting* same = again.levers.find(setting.lever->key);
      ASSERT_NE(same, nullptr) << setting.lever->key << " of " << printed->line;
      EXPECT_EQ(same->value.integer, setting.value.integer) << setting.lever->key;
      EXPECT_EQ(same->value.number, setting.value.number) << setting.lever->key;
      EXPECT_EQ(same->value.flag, setting.value.flag) << setting.lever->key;
    }
  }
}

TEST(ServeLine, PrintsForAnotherServerAndSaysWhatItLacks) {
  const ServeLine line =
      read("vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --max-model-len 8192 --max-num-seqs 4");
  const auto llama = print_serve_line("llama.cpp", line.model, line.levers);
  ASSERT_TRUE(llama);
  EXPECT_EQ(llama->line, "llama-server -hf Qwen/Qwen3-8B -c 32768 -np 4 -ngl 99");
  ASSERT_EQ(llama->notes.size(), 1u);
  EXPECT_NE(llama->notes[0].find("--tensor-parallel-size"), std::string::npos);
  const auto none = print_serve_line("lesson", "m", line.levers);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnsupported);
}

TEST(PlanWords, ReadsArgumentsOrALine) {
  const auto plain = parse_plan_line("Qwen/Qwen3-8B --device h100 --kv fp8 --force-mha --prompt=4k", "A");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->model, "Qwen/Qwen3-8B");
  EXPECT_EQ(plain->levers.find("device")->value.text, "h100");
  EXPECT_EQ(plain->levers.find("prompt")->value.integer, 4000);
  EXPECT_TRUE(plain->levers.find("force_mha")->value.flag);
  const auto line = parse_plan_line("vllm serve m --max-model-len 1k", "A");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->levers.find("policy")->value.text, "vllm");
  const auto unknown = parse_plan_line("m --no-such 1", "A");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().where, "A: --no-such");
  EXPECT_FALSE(parse_plan_line("m n", "A"));
  EXPECT_FALSE(parse_plan_line("m --prompt", "A"));
}

}  // namespace
}  // namespace ullage::api
