#include "ullage/cli/engine_args.h"

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "ullage/cli/flag_checks.h"

namespace ullage::cli {
namespace {

const std::vector<std::string> kKvDtypes = {"auto", "bf16", "f16", "f32", "bfloat16", "float16", "float32"};

}  // namespace

void add_engine_options(CLI::App& command, EngineArgs& args) {
  const char* const model_help =
      "A .gguf file, a Hugging Face directory, a name in the Hugging Face cache (Qwen/Qwen3-0.6B), or stories260K "
      "(bundled). With --executor modelled, a config.json is enough";
  command.add_option("model,-m,--model", args.model, model_help)->type_name("MODEL")->required();

  const char* const memory = "Memory";
  command
      .add_option("--kv-cache-memory,--kv-cache-memory-bytes", args.kv_cache_memory,
                  "Bytes for the KV pool, at most (2GiB, 500MB)")
      ->check(size_between(1, INT64_MAX))
      ->type_name("SIZE")
      ->group(memory);
  command
      .add_option("--gpu-memory-utilization,--memory-utilization", args.memory_utilization,
                  "Share of the device's memory to use: on the CPU, of what is available for the pool (0.5); on a "
                  "modelled device, of the whole (0.92)")
      ->check(number_between(0.01, 1, "from 0.01 to 1"))
      ->group(memory);
  command
      .add_option("--kv-cache-dtype,--cache-type-k", args.kv_cache_dtype,
                  "How keys and values are stored: auto (bf16), bf16, f16, f32")
      ->check(CLI::IsMember(kKvDtypes))
      ->group(memory);
  command.add_option("--cache-type-v", args.value_cache_dtype, "Must equal the keys'")
      ->check(CLI::IsMember(kKvDtypes))
      ->group("");
  command.add_option("--block-size", args.block_size, "Tokens in a block of the cache")
      ->check(count_between(1, 1024))
      ->capture_default_str()
      ->group(memory);
  command
      .add_option("--num-gpu-blocks-override,--num-blocks", args.num_blocks_override,
                  "Exactly this many blocks in the pool; more than memory holds is refused")
      ->check(count_between(2, INT32_MAX))
      ->group(memory);
  command
      .add_option("-c,--max-model-len,--ctx-size", args.max_model_len,
                  "Longest request, prompt and output together (8k, 8192, auto = the model's own, less if the pool is "
                  "smaller)")
      ->check(count_or_auto(2, int64_t{1} << 30))
      ->capture_default_str()
      ->group(memory);
  command
      .add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", args.has_prefix_caching,
                "Reuse blocks of equal prefixes (on)")
      ->group(memory);
  command
      .add_option("--prefix-match", args.prefix_match,
                  "How fine a prefix hit is: token (a part of a block is reused by copying it), or block (whole blocks "
                  "only, as vLLM)")
      ->check(CLI::IsMember({"token", "block"}))
      ->capture_default_str()
      ->group(memory);

  const char* const scheduling = "Scheduling";
  command.add_option("--max-num-seqs,--parallel", args.max_num_seqs, "Requests that run at once (128)")
      ->check(count_between(1, 65536))
      ->group(scheduling);
  command
      .add_option("-b,--max-num-batched-tokens,--batch-size,--ubatch-size", args.max_num_batched_tokens,
                  "Tokens in a step, prefill chunks and decode together (512 on the CPU, 8192 modelled)")
      ->check(count_between(1, int64_t{1} << 20))
      ->take_last()  // llama-server's command lines have both -b and -ub
      ->group(scheduling);
  command
      .add_flag("--enable-chunked-prefill,!--no-enable-chunked-prefill", args.has_chunked_prefill,
                "Split long prompts over steps (on)")
      ->group(scheduling);
  command.add_option("--scheduling-policy", args.scheduling_policy, "fcfs, or priority (lower is more important)")
      ->check(CLI::IsMember({"fcfs", "priority"}))
      ->capture_default_str()
      ->group(scheduling);
  command.add_option("--max-queue-len", args.max_queue_len, "Requests that may wait; one more is answered 429")
      ->check(count_between(1, int64_t{1} << 30))
      ->capture_default_str()
      ->group(scheduling);

  const char* const running = "Running";
  command.add_option("-t,--threads", args.threads, "Threads of the CPU executor (0 = every core)")
      ->check(integer_between(0, 1024))
      ->capture_default_str()
      ->group(running);
  command.add_option("--executor", args.executor, "cpu (real), or modelled (a device's clock and filler text)")
      ->check(CLI::IsMember({"cpu", "modelled"}))
      ->capture_default_str()
      ->group(running);
  command
      .add_option("--dtype", args.dtype,
                  "auto or float32: weights are read as stored, activations are computed in 32-bit floats")
      ->check(CLI::IsMember({"auto", "float32", "float"}))
      ->capture_default_str()
      ->group(running);
  command.add_option("--device", args.device, "The modelled device")->capture_default_str()->group(running);
  command
      .add_option(
          "--tokenizer", args.tokenizer,
          "A .gguf, a tokenizer.json or a directory with one; default: the model's own, or the bundled one when "
          "only a config.json is given")
      ->group(running);
  command.add_option("--seed", args.seed, "Seed for requests that give none")
      ->check(seed_text())
      ->capture_default_str()
      ->group(running);
  command
      .add_option("--tensor-parallel-size,--tp", args.tensor_parallel_size, "Only 1: this engine runs on one device")
      ->check(integer_between(1, 1))
      ->group(running);
  command
      .add_option("--decision-log", args.decision_log,
                  "Write every step's decisions to this file, one JSON object a line")
      ->group(running);
  command.add_flag("--paranoid", args.is_paranoid, "Check every invariant after every step (slow)")->group(running);
}

}  // namespace ullage::cli
