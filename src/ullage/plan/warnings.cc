// What someone with experience would remark on a plan.
#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "ullage/plan/inverse.h"

namespace ullage::plan {
namespace {

std::string gib(double bytes) { return fmt::format("{:.1f} GiB", bytes / static_cast<double>(kGiB)); }

// KV heads of the layer with the fewest; 0 when no layer has heads. `has_latent`: some layer keeps a latent.
struct Heads {
  int64_t fewest = 0;
  bool has_latent = false;
  bool has_window = false;
  bool has_state = false;
};
Heads heads_of(const model::ModelShape& shape, const Scenario& scenario) {
  Heads out;
  for (const model::LayerShape& layer : shape.layers) {
    if (std::holds_alternative<model::LatentAttention>(layer.mixer)) out.has_latent = true;
    if (std::holds_alternative<model::LinearAttention>(layer.mixer) ||
        std::holds_alternative<model::StateSpace>(layer.mixer)) {
      out.has_state = true;
    }
    const auto* attention = std::get_if<model::Attention>(&layer.mixer);
    if (attention == nullptr) continue;
    if (attention->sliding_window > 0 || attention->chunk > 0) out.has_window = true;
    int64_t heads = attention->num_kv_heads;
    if (scenario.force_mha) heads = attention->num_heads;
    if (scenario.num_kv_heads > 0) heads = scenario.num_kv_heads;
    if (out.fewest == 0 || heads < out.fewest) out.fewest = heads;
  }
  return out;
}

bool is_quantised(model::KvDType dtype) {
  return dtype != model::KvDType::kF32 && dtype != model::KvDType::kF16 && dtype != model::KvDType::kBF16;
}

class Warner {
 public:
  Warner(const Scenario& scenario, const Evaluation& evaluation) : s_(scenario), e_(evaluation) { out_.reserve(16); }

  std::vector<Warning> run() {
    memory();
    sizes();
    division();
    kernels();
    load();
    return std::move(out_);
  }

 private:
  template <class... Args>
  void add(const char* code, fmt::format_string<Args...> format, Args&&... args) {
    out_.push_back({.code = code, .sentence = fmt::format(format, std::forward<Args>(args)...)});
  }

  void memory() {
    const double utilization = e_.settings.gpu_memory_utilization;
    const BudgetNumbers& b = e_.budget;
    if (!s_.kv_memory && utilization > 0.955 && s_.profile->engine != memory::Engine::kLesson) {
      const auto left = static_cast<double>((b.capacity - b.requested).value);
      add("utilization-high",
          "utilisation {:.2f} leaves {} of the device for what is not measured at start (fragmentation, graphs, other "
          "processes); expect out-of-memory under load, and stay at 0.95 or below",
          utilization, gib(left));
    }
    if (!b.are_graphs_subtracted && b.graphs.bytes.value > 0 && !s_.kv_memory) {
      const auto left = static_cast<double>((b.capacity - b.requested).value);
      const auto graphs = static_cast<double>(b.graphs.bytes.value);
      if (graphs > left) {
        add("graphs-beyond-utilization",
            "this engine does not take its graphs ({}) from the pool, and utilisation {:.2f} leaves only {} beside it; "
            "capture may run out of memory",
            gib(graphs), utilization, gib(left));
      }
    }
    if (e_.fit == Fit::kFits && b.kv_pool.bytes < Bytes(b.requested.value / 20) && !s_.kv_memory && !s_.num_blocks) {
      add("pool-small",
          "the pool is only {:.0f} % of the granted memory; a little more activation, or another version, and it is "
          "gone",
          100.0 * static_cast<double>(b.kv_pool.bytes.value) / static_cast<double>(b.requested.value));
    }
    if (b.kv_pool.error.value > 0 && b.kv_pool.bytes.value > 0 && b.kv_pool.error.value * 5 > b.kv_pool.bytes.value) {
      add("pool-uncertain", "the pool's {} are known to +- {} only; give --kv-memory from a start-up log to be exact",
          gib(static_cast<double>(b.kv_pool.bytes.value)), gib(static_cast<double>(b.kv_pool.error.value)));
    }
  }

  void sizes() {
    const Capacity& c = e_.capacity;
    if (e_.fit != Fit::kFits) return;
    if (c.expected_requests >= 2 * e_.settings.max_num_seqs) {
      add("pool-above-max-num-seqs",
          "the pool holds {} requests of this length and max_num_seqs lets {} run; raise max_num_seqs, or leave the "
          "memory to prefix caching or another process",
          format_thousands(c.expected_requests), format_thousands(e_.settings.max_num_seqs));
    }
    if (c.usable_requests < 1) {
      add("max-model-len-beyond-pool",
          "one request of max_model_len {} is larger than the pool; vLLM refuses to start so, other engines hang on "
          "such "
          "a request; {} is the longest that fits",
          format_thousands(e_.settings.max_model_len), format_thousands(c.largest_context));
    }
    if (c.expected_requests_p95 < e_.running / std::max<int64_t>(1, s_.parallelism.data)) {
      add("p95-preempts",
          "{} requests of the mean length fit and only {} of the p95: when long ones meet, some are preempted and "
          "their "
          "prompts computed twice",
          format_thousands(c.expected_requests), format_thousands(c.expected_requests_p95));
    }
    if (e_.settings.max_num_batched_tokens < e_.settings.max_num_seqs) {
      add("batched-tokens-below-seqs",
          "max_num_batched_tokens {} is below max_num_seqs {}: not every running request gets its token in a step",
          format_thousands(e_.settings.max_num_batched_tokens), format_thousands(e_.settings.max_num_seqs));
    }
    if (s_.shape->max_position_embeddings > 0 && e_.settings.max_model_len > s_.shape->max_position_embeddings) {
      add("beyond-positions", "max_model_len {} is beyond the {} positions that the model was made for",
          format_thousands(e_.settings.max_model_len), format_thousands(s_.shape->max_position_embeddings));
    }
  }

  void division() {
    const Heads heads = heads_of(*s_.shape, s_);
    const int64_t tensor = s_.parallelism.tensor;
    if (heads.fewest > 0 && tensor > heads.fewest) {
      add("tp-beyond-kv-heads",
          "tensor parallelism of {} with {} KV heads keeps every head {} times: memory for weights grows with the "
          "devices, the cache's does not; use data parallelism beyond {}",
          tensor, heads.fewest, tensor / heads.fewest, heads.fewest);
    }
    if (heads.has_latent && tensor > 1 && s_.parallelism.decode_context == 1) {
      add("latent-replicated",
          "a latent (MLA) is not divided by tensor parallelism: all {} ranks keep the same cache; data-parallel "
          "attention "
          "or decode context parallelism would hold up to {} times as much",
          tensor, tensor);
    }
    if (tensor > 1 && s_.device->link_bandwidth <= 0) {
      add("pcie-all-reduce",
          "the {} has no link between devices: all-reduces of tensor parallelism {} go over PCIe and take {:.0f} % of "
          "a "
          "decode step; pipeline or data parallelism sends less",
          s_.device->name, tensor, 100 * e_.timing.decode.communication_share);
    } else if (e_.timing.decode.communication_share > 0.3) {
      add("communication-heavy", "communication takes {:.0f} % of a decode step; fewer ranks would give more a device",
          100 * e_.timing.decode.communication_share);
    }
    if (tensor > 8) {
      add("tp-beyond-node", "tensor parallelism of {} spans nodes of 8 devices; the link between nodes is far slower",
          tensor);
    }
  }

  void kernels() {
    if (is_quantised(e_.settings.kv_dtype)) {
      const bool has_hardware = s_.device->flops.fp8 > 0 && (e_.settings.kv_dtype == model::KvDType::kFP8E4M3 ||
                                                             e_.settings.kv_dtype == model::KvDType::kFP8E5M2);
      add("kv-kernel-risk",
          "a cache in {} halves bytes or better, but some attention kernels {}; measure the inter-token latency before "
          "trusting the plan's",
          model::kv_dtype_name(e_.settings.kv_dtype),
          has_hardware ? "convert on the way and lose part of the gain" : "have no fast path for it on this device");
    }
    const bool wants_fp8 = s_.weights == WeightPrecision::kFP8 || s_.shape->quantization.method == "fp8";
    if (wants_fp8 && s_.device->flops.fp8 <= 0) {
      add("no-fp8-units",
          "the {} multiplies no FP8: weights take half the memory and are widened on the way, compute-bound prefill "
          "gains nothing",
          s_.device->name);
    }
    if (s_.num_speculative_tokens > 0 && e_.timing.decode.bound == cost::Bound::kCompute) {
      add("speculation-compute-bound",
          "decoding is compute-bound at this batch: every drafted token that is refused costs a real one");
    }
  }

  void load() {
    if (e_.load && !e_.load->fits) {
      add("overload",
          "{:.1f} slots are needed and {} run at once: the queue grows without end above {:.2f} requests a second",
          e_.load->needed_slots, format_thousands(e_.load->ceiling_slots), e_.load->max_qps);
    }
    if (e_.timing.mixed_itl_seconds > 0.2 && e_.running > 1) {
      add("prefill-stalls-decode",
          "a step that carries a full chunk of {} tokens takes {:.0f} ms, which every stream feels; a smaller "
          "max_num_batched_tokens bounds it",
          format_thousands(e_.settings.max_num_batched_tokens), 1e3 * e_.timing.mixed_itl_seconds);
    }
  }

  const Scenario& s_;
  const Evaluation& e_;
  std::vector<Warning> out_;
};

}  // namespace

std::vector<Warning> warnings(const Scenario& scenario, const Evaluation& evaluation) {
  return Warner(scenario, evaluation).run();
}

}  // namespace ullage::plan
