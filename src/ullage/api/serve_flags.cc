#include "ullage/api/serve_flags.h"

#include <algorithm>

namespace ullage::api {
namespace {

using enum FlagUse;

constexpr ServerFlag kVllm[] = {
    {"--model", kModel},
    {"--quantization,-q", kQuantization},
    {"--speculative-config,-sc", kSpeculativeConfig},
    {"--speculative-config.num-speculative-tokens,--num-speculative-tokens", kLever, "speculative_tokens"},
    {"--compilation-config,-cc", kCompilationConfig},
    {"-O,--optimization-level", kCompilationLevel},
    {"--enable-lora", kEnableLora},
    {"--enable-prefix-caching", kClearFlag, "no_prefix_caching"},
    {"--no-enforce-eager", kClearFlag, "enforce_eager"},
    {"--no-enable-expert-parallel", kClearFlag, "expert_parallel"},
    {"-tp", kLever, "tensor_parallel"},
    {"-pp", kLever, "pipeline_parallel"},
    {"-dp", kLever, "data_parallel"},
    {"-ep", kSetFlag, "expert_parallel"},
    {"-dcp", kLever, "decode_context_parallel"},
    {"--cpu-offload-gb", kNote, "weights kept in the host's memory are not modelled"},
    {"--kv-offloading-size", kNote, "a second tier for the cache is not modelled"},
    {"--kv-transfer-config", kNote, "a second tier for the cache, or separate prefill, is not modelled"},
    {"--hf-overrides", kNote, "changes to the config are not read; edit a copy of config.json"},
    {"--config", kNote, "the flags in that file are not read; write them on the line"},
    {"--limit-mm-per-prompt", kNote, "the memory of images and videos in flight is not modelled"},
    {"--mm-processor-kwargs", kNote, "the memory of images and videos in flight is not modelled"},
    {"--language-model-only", kNoteNone, "the vision tower's weights are counted all the same"},
    {"--dtype", kLever, "dtype"},
    {"--load-format,--download-dir,--revision,--tokenizer,--tokenizer-mode,--tokenizer-revision,--code-revision",
     kSkip},
    {"--host,--port,--api-server-count,--uvicorn-log-level,--root-path,--ssl-keyfile,--ssl-certfile,--log-level",
     kSkip},
    {"--chat-template,--chat-template-content-format,--response-role,--tool-call-parser,--tool-parser-plugin", kSkip},
    {"--reasoning-parser,--guided-decoding-backend,--structured-outputs-config,--generation-config", kSkip},
    {"--override-generation-config,--logits-processor-pattern,--max-logprobs,--seed,--swap-space", kSkip},
    {"--max-seq-len-to-capture,--max-cudagraph-capture-size,--attention-backend,--attention-config", kSkip},
    {"--distributed-executor-backend,--worker-cls,--max-parallel-loading-workers,--scheduling-policy", kSkip},
    {"--data-parallel-address,--data-parallel-rpc-port,--data-parallel-size-local,--data-parallel-rank", kSkip},
    {"--data-parallel-start-rank,--data-parallel-backend,--nnodes,--node-rank,--master-addr,--master-port", kSkip},
    {"--long-prefill-token-threshold,--max-num-partial-prefills,--max-long-partial-prefills", kSkip},
    {"--mm-encoder-tp-mode,--mm-processor-cache-gb,--mm-cache-preprocessor,--media-io-kwargs", kSkip},
    {"--allowed-local-media-path,--rope-scaling,--rope-theta,--hf-token,--runner,--task,--convert", kSkip},
    {"--all2all-backend,--expert-placement-strategy,--eplb-config,--num-redundant-experts,--prefix-caching-hash-algo",
     kSkip},
    {"--additional-config,--profiler-config,--observability-config,--otlp-traces-endpoint,--kv-events-config", kSkip},
    {"--mamba-ssm-cache-dtype,--mamba-cache-dtype,--mamba-cache-mode,--mamba-block-size,--stream-interval", kSkip},
    {"--served-model-name,--api-key,--allowed-origins,--allowed-methods,--allowed-headers,--middleware", kSkipMany},
    {"--lora-modules,--prompt-adapters,--cuda-graph-sizes,--cudagraph-capture-sizes,--ignore-patterns", kSkipMany},
    {"--trust-remote-code,--enable-auto-tool-choice,--enable-reasoning,--disable-log-requests", kSkipNone},
    {"--no-enable-log-requests,--enable-log-requests,--disable-log-stats,--disable-uvicorn-access-log", kSkipNone},
    {"--enable-chunked-prefill,--no-enable-chunked-prefill,--async-scheduling,--no-async-scheduling", kSkipNone},
    {"--disable-custom-all-reduce,--disable-frontend-multiprocessing,--enable-sleep-mode,--headless", kSkipNone},
    {"--disable-sliding-window,--disable-cascade-attn,--skip-tokenizer-init,--enable-prompt-tokens-details", kSkipNone},
    {"--enable-server-load-tracking,--enable-force-include-usage,--enable-log-outputs,--enable-eplb", kSkipNone},
    {"--enable-dbo,--use-v2-block-manager,--disable-mm-preprocessor-cache,--skip-mm-profiling", kSkipNone},
    {"--mm-encoder-only,--interleave-mm-strings,--enable-lora-bias,--fully-sharded-loras,--calculate-kv-scales",
     kSkipNone},
    {"--data-parallel-hybrid-lb,--data-parallel-external-lb,--ray-workers-use-nsight,--no-disable-cascade-attn",
     kSkipNone},
};

constexpr ServerFlag kSglang[] = {
    {"--model-path,--model", kModel},
    {"--quantization", kQuantization},
    {"--tp-size,--tensor-parallel-size,--tp", kLever, "tensor_parallel"},
    {"--pp-size,--pipeline-parallel-size,--pp", kLever, "pipeline_parallel"},
    {"--dp-size,--data-parallel-size,--dp", kLever, "data_parallel"},
    {"--ep-size,--expert-parallel-size,--ep", kSkip},
    {"--mem-fraction-static", kLever, "gpu_memory_utilization"},
    {"--context-length", kLever, "max_model_len"},
    {"--max-running-requests", kLever, "max_num_seqs"},
    {"--chunked-prefill-size", kLever, "max_num_batched_tokens"},
    {"--page-size", kLever, "block_size"},
    {"--speculative-num-steps", kLever, "speculative_tokens"},
    {"--disable-cuda-graph", kSetFlag, "enforce_eager"},
    {"--disable-radix-cache", kSetFlag, "no_prefix_caching"},
    {"--max-loras-per-batch", kLever, "max_loras"},
    {"--max-total-tokens", kTotalTokens},
    {"--enable-dp-attention", kNoteNone, "attention under data parallelism is planned as --data-parallel-size says"},
    {"--enable-hierarchical-cache", kNoteNone, "a second tier for the cache is not modelled"},
    {"--cpu-offload-gb", kNote, "weights kept in the host's memory are not modelled"},
    {"--swa-full-tokens-ratio", kNote, "the ratio of the pools for windows and full attention is not modelled"},
    {"--mamba-full-memory-ratio", kNote, "the ratio of the pools for states and attention is not modelled"},
    {"--speculative-draft-model-path,--speculative-draft-model", kNote,
     "the draft model's own weights are not counted"},
    {"--speculative-algorithm,--speculative-algo,--speculative-eagle-topk,--speculative-num-draft-tokens", kSkip},
    {"--dtype", kLever, "dtype"},
    {"--host,--port,--tokenizer-path,--load-format,--revision,--device,--served-model-name,--api-key", kSkip},
    {"--max-prefill-tokens,--schedule-policy,--schedule-conservativeness,--cuda-graph-max-bs,--stream-interval", kSkip},
    {"--attention-backend,--prefill-attention-backend,--decode-attention-backend,--moe-runner-backend", kSkip},
    {"--sampling-backend,--grammar-backend,--mm-attention-backend,--reasoning-parser,--tool-call-parser", kSkip},
    {"--chat-template,--log-level,--random-seed,--watchdog-timeout,--dist-init-addr,--nnodes,--node-rank", kSkip},
    {"--nccl-port,--base-gpu-id,--moe-a2a-backend,--deepep-mode,--ep-num-redundant-experts,--dist-timeout", kSkip},
    {"--disaggregation-mode,--disaggregation-transfer-backend,--disaggregation-ib-device,--max-queued-requests", kSkip},
    {"--num-continuous-decode-steps,--moe-dense-tp-size,--max-mamba-cache-size,--fp8-gemm-backend", kSkip},
    {"--cuda-graph-bs,--lora-paths,--lora-target-modules", kSkipMany},
    {"--trust-remote-code,--enable-metrics,--enable-mixed-chunk,--enable-torch-compile,--disable-overlap-schedule",
     kSkipNone},
    {"--disable-custom-all-reduce,--enable-p2p-check,--enable-ep-moe,--enable-deepep-moe,--enable-eplb", kSkipNone},
    {"--enable-multimodal,--enable-cache-report,--enable-dp-lm-head,--skip-server-warmup,--log-requests", kSkipNone},
    {"--disable-shared-experts-fusion,--enable-two-batch-overlap,--enable-lora,--enable-metrics-for-all-schedulers",
     kSkipNone},
};

constexpr ServerFlag kLlamaCpp[] = {
    {"-m,--model", kModel},
    {"-hf,-hfr,--hf-repo", kModel},
    {"-c,--ctx-size", kContext},
    {"-np,--parallel", kSlots},
    {"-kvu,--kv-unified", kUnified},
    {"-ngl,--gpu-layers,--n-gpu-layers", kGpuLayers},
    {"-ctk,--cache-type-k", kLever, "kv_cache_dtype"},
    {"-b,--batch-size", kSkip},
    {"-ub,--ubatch-size", kLever, "max_num_batched_tokens"},
    {"--swa-full", kSetFlag, "disable_hybrid_kv_cache_manager"},
    {"-nkvo,--no-kv-offload", kNoteNone, "a cache in the host's memory is not modelled"},
    {"-md,--model-draft,-hfd,--hf-repo-draft", kNote, "the draft model is not counted"},
    {"-ot,--override-tensor", kNote, "tensors placed elsewhere are counted on the device all the same"},
    {"-ncmoe,--n-cpu-moe", kNote, "experts left on the CPU are counted on the device all the same"},
    {"-cmoe,--cpu-moe", kNoteNone, "experts left on the CPU are counted on the device all the same"},
    {"-mm,--mmproj,-mmu,--mmproj-url", kNote, "the projector's weights are not counted"},
    {"-ts,--tensor-split", kNote, "layers split over devices are not modelled; give --pipeline-parallel-size"},
    {"-ctv,--cache-type-v,-fa,--flash-attn", kSkipMaybe},
    {"-t,--threads,-tb,--threads-batch,-n,--predict,--n-predict,-s,--seed,--host,--port,-a,--alias", kSkip},
    {"--api-key,--api-key-file,-hff,--hf-file,-hft,--hf-token,-mu,--model-url,-sm,--split-mode,-mg,--main-gpu", kSkip},
    {"-cram,--cache-ram,--cache-reuse,--slot-save-path,--chat-template,--chat-template-file,--temp,--top-k,--top-p",
     kSkip},
    {"--min-p,--repeat-penalty,--rope-scaling,--rope-scale,--rope-freq-base,--rope-freq-scale,--yarn-orig-ctx", kSkip},
    {"-dev,--device,--numa,-to,--timeout,--threads-http,--reasoning-format,--reasoning-budget,--keep,-lv,--log-file",
     kSkip},
    {"-ctxcp,--ctx-checkpoints,-p,--prompt,-f,--file,--draft-max,--draft-min,-ngld,--lora,--grammar", kSkip},
    {"--mlock,--no-mmap,--jinja,--no-jinja,-cb,--cont-batching,-nocb,--no-cont-batching,--metrics,--slots", kSkipNone},
    {"--no-slots,--no-webui,--webui,--embedding,--embeddings,--reranking,--no-warmup,--warmup,--context-shift",
     kSkipNone},
    {"--no-context-shift,--verbose,-v,--offline,--no-perf,--special,-cnv,--conversation,--no-kv-unified,--props",
     kSkipNone},
    {"--check-tensors,--no-host,--no-repack,--log-disable,--log-prefix,--log-timestamps,--color", kSkipNone},
};

constexpr ServerFlag kUllageFlags[] = {
    {"--model,-m", kModel},
    {"--enable-prefix-caching", kClearFlag, "no_prefix_caching"},
    {"--enable-chunked-prefill,--no-enable-chunked-prefill,--paranoid", kSkipNone},
    {"--cache-type-v,--prefix-match,--scheduling-policy,--max-queue-len,-t,--threads,--executor,--dtype", kSkip},
    {"--tokenizer,--seed,--decision-log,--host,--port,--api-key,--served-model-name,--chat-template", kSkip},
    {"--idle-timeout,--max-body-size,--max-header-size,--ubatch-size", kSkip},
};

std::string_view without_dashes(std::string_view name) {
  const size_t first = name.find_first_not_of('-');
  return first == std::string_view::npos ? std::string_view() : name.substr(first);
}

// Short names count their dashes: -c is not --c.
bool is_same_flag(std::string_view known, std::string_view given) {
  if (known.starts_with("--") != given.starts_with("--")) return false;
  const std::string_view a = without_dashes(known);
  const std::string_view b = without_dashes(given);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return (x == '_' ? '-' : x) == (y == '_' ? '-' : y); });
}

}  // namespace

std::span<const ServerFlag> server_flags(Server server) {
  switch (server) {
    case Server::kVllm:
      return kVllm;
    case Server::kSglang:
      return kSglang;
    case Server::kLlamaCpp:
      return kLlamaCpp;
    case Server::kUllage:
      return kUllageFlags;
  }
  return {};
}

const ServerFlag* find_server_flag(Server server, std::string_view name) {
  for (const ServerFlag& flag : server_flags(server)) {
    std::string_view rest = flag.names;
    while (!rest.empty()) {
      const size_t comma = rest.find(',');
      if (is_same_flag(rest.substr(0, comma), name)) return &flag;
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
  }
  return nullptr;
}

}  // namespace ullage::api
