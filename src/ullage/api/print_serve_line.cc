// A plan's levers as a server's command line.
#include <utility>

#include <fmt/format.h>

#include "ullage/api/serve_line.h"
#include "ullage/api/shell_words.h"
#include "ullage/base/quote.h"
#include "ullage/base/units.h"

namespace ullage::api {
namespace {

struct PrintedFlag {
  std::string_view lever;
  std::string_view flag;
};

constexpr PrintedFlag kVllm[] = {
    {"tensor_parallel", "--tensor-parallel-size"},
    {"pipeline_parallel", "--pipeline-parallel-size"},
    {"data_parallel", "--data-parallel-size"},
    {"expert_parallel", "--enable-expert-parallel"},
    {"decode_context_parallel", "--decode-context-parallel-size"},
    {"gpu_memory_utilization", "--gpu-memory-utilization"},
    {"kv_memory", "--kv-cache-memory-bytes"},
    {"dtype", "--dtype"},
    {"kv_cache_dtype", "--kv-cache-dtype"},
    {"block_size", "--block-size"},
    {"num_blocks", "--num-gpu-blocks-override"},
    {"enforce_eager", "--enforce-eager"},
    {"disable_hybrid_kv_cache_manager", "--disable-hybrid-kv-cache-manager"},
    {"max_model_len", "--max-model-len"},
    {"max_num_seqs", "--max-num-seqs"},
    {"max_num_batched_tokens", "--max-num-batched-tokens"},
    {"no_prefix_caching", "--no-enable-prefix-caching"},
    {"max_loras", "--enable-lora --max-loras"},
    {"max_lora_rank", "--max-lora-rank"},
};

constexpr PrintedFlag kSglang[] = {
    {"tensor_parallel", "--tp-size"},
    {"pipeline_parallel", "--pp-size"},
    {"data_parallel", "--dp-size"},
    {"gpu_memory_utilization", "--mem-fraction-static"},
    {"dtype", "--dtype"},
    {"kv_cache_dtype", "--kv-cache-dtype"},
    {"block_size", "--page-size"},
    {"enforce_eager", "--disable-cuda-graph"},
    {"max_model_len", "--context-length"},
    {"max_num_seqs", "--max-running-requests"},
    {"max_num_batched_tokens", "--chunked-prefill-size"},
    {"no_prefix_caching", "--disable-radix-cache"},
    {"max_loras", "--max-loras-per-batch"},
    {"max_lora_rank", "--max-lora-rank"},
};

constexpr PrintedFlag kLlamaCpp[] = {
    {"kv_cache_dtype", "-ctk"},
    {"max_num_batched_tokens", "-ub"},
    {"disable_hybrid_kv_cache_manager", "--swa-full"},
};

constexpr PrintedFlag kUllage[] = {
    {"gpu_memory_utilization", "--gpu-memory-utilization"},
    {"kv_memory", "--kv-cache-memory"},
    {"kv_cache_dtype", "--kv-cache-dtype"},
    {"block_size", "--block-size"},
    {"num_blocks", "--num-gpu-blocks-override"},
    {"max_model_len", "--max-model-len"},
    {"max_num_seqs", "--max-num-seqs"},
    {"max_num_batched_tokens", "--max-num-batched-tokens"},
    {"no_prefix_caching", "--no-enable-prefix-caching"},
};

// Not an engine's to set: the question, not the answer.
bool is_question(const Lever& lever) {
  return lever.group != "Memory" && lever.group != "Engine" && lever.group != "Changes to the model" &&
         !lever.key.ends_with("_parallel");
}

std::string value_text(const LeverSetting& setting) {
  switch (setting.lever->kind) {
    case LeverKind::kCount:
    case LeverKind::kBytes:
      return fmt::format("{}", setting.value.integer);
    case LeverKind::kWord:
      return setting.value.text;
    default:
      return fmt::format("{}", setting.value.number);
  }
}

// Builds one line.
class LinePrinter {
 public:
  LinePrinter(std::string start, const LeverSettings& levers) : levers_(levers) { printed_.line = std::move(start); }

  void add(std::string_view text) {
    printed_.line += ' ';
    printed_.line += text;
  }

  // Every lever that the table has; those it lacks are named.
  void add_levers(std::span<const PrintedFlag> table) {
    for (const LeverSetting& setting : levers_.all()) {
      if (is_question(*setting.lever) || setting.lever->key == "policy" || is_done(setting.lever->key)) continue;
      const PrintedFlag* flag = find(table, setting.lever->key);
      if (setting.lever->kind == LeverKind::kFlag) {
        if (!setting.value.flag) continue;
        flag != nullptr ? add(flag->flag) : add_missing(setting);
      } else if (flag != nullptr) {
        add(fmt::format("{} {}", flag->flag, quote_shell_word(value_text(setting))));
      } else {
        add_missing(setting);
      }
    }
  }

  const LeverSetting* take(std::string_view key) {
    done_.push_back(std::string(key));
    return levers_.find(key);
  }

  void add_note(std::string note) { printed_.notes.push_back(std::move(note)); }
  PrintedLine finish() { return std::move(printed_); }

 private:
  static const PrintedFlag* find(std::span<const PrintedFlag> table, std::string_view key) {
    for (const PrintedFlag& flag : table) {
      if (flag.lever == key) return &flag;
    }
    return nullptr;
  }
  bool is_done(std::string_view key) const {
    for (const std::string& done : done_) {
      if (done == key) return true;
    }
    return false;
  }
  void add_missing(const LeverSetting& setting) {
    printed_.notes.push_back(fmt::format("{} has no flag of that server and was left out", main_flag(*setting.lever)));
  }

  const LeverSettings& levers_;
  std::vector<std::string> done_;
  PrintedLine printed_;
};

// vLLM and SGLang quantise a plain checkpoint to fp8 while they load it; other formats are another checkpoint.
void add_weights(LinePrinter& printer) {
  const LeverSetting* weights = printer.take("weights");
  if (weights == nullptr) return;
  if (weights->value.text == "fp8") {
    printer.add("--quantization fp8");
  } else {
    printer.add_note(fmt::format("weights in {} are another checkpoint: name it as the model", weights->value.text));
  }
}

PrintedLine vllm_line(std::string_view model, const LeverSettings& levers) {
  LinePrinter printer(fmt::format("vllm serve {}", quote_shell_word(model)), levers);
  add_weights(printer);
  printer.take("acceptance_rate");
  if (const LeverSetting* tokens = printer.take("speculative_tokens")) {
    printer.add(fmt::format("--speculative-config '{{\"method\": \"mtp\", \"num_speculative_tokens\": {}}}'",
                            tokens->value.integer));
  }
  printer.add_levers(kVllm);
  return printer.finish();
}

PrintedLine sglang_line(std::string_view model, const LeverSettings& levers) {
  LinePrinter printer(fmt::format("python -m sglang.launch_server --model-path {}", quote_shell_word(model)), levers);
  add_weights(printer);
  printer.take("acceptance_rate");
  if (const LeverSetting* tokens = printer.take("speculative_tokens")) {
    printer.add(
        fmt::format("--speculative-algorithm EAGLE --speculative-num-steps {0} --speculative-eagle-topk 1 "
                    "--speculative-num-draft-tokens {1}",
                    tokens->value.integer, tokens->value.integer + 1));
  }
  const LeverSetting* blocks = printer.take("num_blocks");
  const LeverSetting* page = levers.find("block_size");
  if (blocks != nullptr) {
    printer.add(
        fmt::format("--max-total-tokens {}", blocks->value.integer * (page != nullptr ? page->value.integer : 1)));
  }
  printer.add_levers(kSglang);
  return printer.finish();
}

PrintedLine llama_cpp_line(std::string_view model, const LeverSettings& levers) {
  const bool is_file = model.ends_with(".gguf");
  LinePrinter printer(fmt::format("llama-server {} {}", is_file ? "-m" : "-hf", quote_shell_word(model)), levers);
  const LeverSetting* slots = printer.take("max_num_seqs");
  const LeverSetting* length = printer.take("max_model_len");
  const LeverSetting* cells = printer.take("num_blocks");
  const int64_t num_slots = slots != nullptr ? slots->value.integer : 1;
  if (cells != nullptr && levers.find("block_size") == nullptr) {
    printer.add(fmt::format("-c {}", cells->value.integer));
  } else if (length != nullptr) {
    printer.add(fmt::format("-c {}", length->value.integer * num_slots));
  }
  if (slots != nullptr || length != nullptr) printer.add(fmt::format("-np {}", num_slots));
  // One request may have all: the slots share one cache.
  const bool is_unified = cells != nullptr && length != nullptr && length->value.integer == cells->value.integer;
  if (is_unified && num_slots > 1) printer.add("-kvu");
  if (const LeverSetting* dtype = printer.take("kv_cache_dtype")) {
    printer.add(fmt::format("-ctk {0} -ctv {0}", quote_shell_word(dtype->value.text)));
  }
  printer.add("-ngl 99");
  printer.add_levers(kLlamaCpp);
  return printer.finish();
}

PrintedLine ullage_line(std::string_view model, const LeverSettings& levers) {
  LinePrinter printer(fmt::format("ullage serve {}", quote_shell_word(model)), levers);
  printer.take("expert_parallel");
  printer.add_levers(kUllage);
  return printer.finish();
}

}  // namespace

Result<PrintedLine> print_serve_line(std::string_view policy, std::string_view model, const LeverSettings& levers) {
  if (policy.starts_with("vllm")) return vllm_line(model, levers);
  if (policy.starts_with("sglang")) return sglang_line(model, levers);
  if (policy.starts_with("llama")) return llama_cpp_line(model, levers);
  if (policy == "ullage") return ullage_line(model, levers);
  return Error{ErrorCode::kUnsupported,
               fmt::format("is {}; lines can be printed for vllm, sglang, llama-server and ullage", quote(policy)),
               "--print-line"};
}

}  // namespace ullage::api
