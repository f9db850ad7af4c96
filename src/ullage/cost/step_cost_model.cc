// Makes a StepCostModel: divides a model's kinds of layers over ranks and meets them with a device's figures.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ullage/base/units.h"
#include "ullage/cost/step_cost.h"

namespace ullage::cost {
namespace {

using Compute = model::WeightFormat::Compute;
using hardware::FlopsPerSecond;

constexpr double kActivationBytes = 2;  // of an element that ranks exchange: bf16

// Where a device lacks a format's unit, the weights are widened as they are read and multiplied in bf16 (Marlin's
// kernels; Frantar et al. 2024).
double peak_flops(Compute compute, const FlopsPerSecond& flops) {
  const double wide = flops.bf16 > 0 ? flops.bf16 : flops.fp32;
  switch (compute) {
    case Compute::kF32:
      return flops.fp32 > 0 ? flops.fp32 : wide;
    case Compute::kBF16:
      return wide;
    case Compute::kFP8:
      return flops.fp8 > 0 ? flops.fp8 : wide;
    case Compute::kINT8:
      return flops.int8 > 0 ? flops.int8 : wide;
    case Compute::kFP4:
      return flops.fp4 > 0 ? flops.fp4 : wide;
  }
  return wide;
}

struct Builder {
  const ModelCosts& costs;
  const hardware::Device& device;
  const StepCostOptions& options;
  StepCostModel out = {};

  double attention_peak() const { return peak_flops(costs.is_f32 ? Compute::kF32 : Compute::kBF16, device.flops); }
  double matrix_peak(const model::WeightMatrix& matrix) const {
    return peak_flops(options.counts_all_parameters ? Compute::kBF16 : matrix.format.compute, device.flops);
  }

  void add_linear(const model::WeightMatrix& matrix, double times) {
    const model::WeightMatrix part = model::rank_part(matrix, options.parallelism);
    const double bytes = times * static_cast<double>(model::stored_bytes(part));
    const bool is_counted = part.is_multiplied || options.counts_all_parameters;
    const double flops = is_counted ? times * 2.0 * static_cast<double>(model::num_parameters(part)) : 0;
    const double peak = matrix_peak(matrix);
    for (LinearTraffic& linear : out.linear) {
      if (linear.flops_per_second != peak) continue;
      linear.weight_bytes += bytes;
      linear.flops_per_token += flops;
      return;
    }
    out.linear.push_back(LinearTraffic{bytes, flops, peak});
  }

  void add_expert(const LayerKind& kind, const model::WeightMatrix& matrix, double times) {
    const model::WeightMatrix part = model::rank_part(matrix, options.parallelism);
    const auto count = static_cast<double>(std::max<int64_t>(1, part.count));
    const auto total = static_cast<double>(kind.num_experts);
    const double bytes = times * static_cast<double>(model::stored_bytes(part)) / count;
    const double flops =
        part.is_multiplied ? times * 2.0 * static_cast<double>(model::num_parameters(part)) / count : 0;
    const auto per_token = static_cast<double>(kind.num_experts_per_token);
    const double peak = matrix_peak(matrix);
    for (ExpertTraffic& expert : out.experts) {
      if (expert.flops_per_second != peak || expert.num_experts != count || expert.total_experts != total ||
          expert.num_per_token != per_token) {
        continue;
      }
      expert.bytes_per_expert += bytes;
      expert.flops_per_pick += flops;
      return;
    }
    out.experts.push_back(ExpertTraffic{bytes, count, per_token, total, flops, peak});
  }

  void add_kv(const KvTraffic& kv) {
    for (KvTraffic& known : out.kv) {
      if (known.reach != kv.reach || known.is_chunked != kv.is_chunked || known.is_sparse != kv.is_sparse ||
          known.flops_per_second != kv.flops_per_second) {
        continue;
      }
      known.bytes_per_token += kv.bytes_per_token;
      known.write_bytes += kv.write_bytes;
      known.fixed_read_bytes += kv.fixed_read_bytes;
      known.fixed_write_bytes += kv.fixed_write_bytes;
      known.flops_per_pair += kv.flops_per_pair;
      known.prefill_flops_per_pair += kv.prefill_flops_per_pair;
      known.prefill_flops_per_past += kv.prefill_flops_per_past;
      known.flops_per_token += kv.flops_per_token;
      return;
    }
    out.kv.push_back(kv);
  }

  // What a token of one layer takes in the cache, on one rank.
  double cache_bytes(const MixerWork& work) const {
    const auto context_ranks = static_cast<double>(std::max<int64_t>(1, options.parallelism.decode_context));
    if (work.kind == MixerWork::Kind::kLatent) {
      // kFP8DsMla: the latent in fp8 with a scale of 4 bytes for each 128, the rotated part in bf16 (DeepSeek's
      // FlashMLA).
      const int64_t bytes = options.kv_dtype == model::KvDType::kFP8DsMla
                                ? work.key_dim + 4 * ((work.key_dim + 127) / 128) + 2 * work.rope_dim
                                : model::kv_head_bytes(options.kv_dtype, work.key_dim + work.rope_dim);
      return static_cast<double>(bytes) / context_ranks;
    }
    if (work.kind == MixerWork::Kind::kIndexer) {
      const int64_t bytes = work.key_dim + 4 * ((work.key_dim + 127) / 128);
      return static_cast<double>(bytes) / context_ranks;
    }
    const int64_t heads = std::max<int64_t>(1, work.num_kv_heads / options.parallelism.tensor);
    return static_cast<double>(heads * (model::kv_head_bytes(options.kv_dtype, work.key_dim) +
                                        model::kv_head_bytes(options.kv_dtype, work.value_dim))) /
           context_ranks;
  }

  void add_mixer(const MixerWork& work, double times) {
    KvTraffic kv;
    kv.flops_per_second = attention_peak();
    kv.reach = work.reach;
    kv.is_chunked = work.is_chunked;
    kv.is_sparse = work.is_sparse;
    const double heads = times * static_cast<double>(ceil_div(work.num_heads, options.parallelism.tensor));
    const auto key = static_cast<double>(work.key_dim);
    const auto value = static_cast<double>(work.value_dim);
    switch (work.kind) {
      case MixerWork::Kind::kHeads: {
        // Scores q.k and the weighted sum over v: a multiply and an add for each head and element of both.
        kv.bytes_per_token = times * cache_bytes(work);
        kv.write_bytes = work.has_own_kv ? kv.bytes_per_token : 0;
        kv.flops_per_pair = kv.prefill_flops_per_pair = 2.0 * heads * (key + value);
        break;
      }
      case MixerWork::Kind::kLatent: {
        // Decoding, the projections of keys and values are absorbed into query and output (DeepSeek-V2, 2.1.2): one
        // latent, read once for all heads, serves as key and value. A prompt expands it to heads; not so when sparse.
        const auto rope = static_cast<double>(work.rope_dim);
        const auto nope = static_cast<double>(work.nope_dim);
        kv.bytes_per_token = kv.write_bytes = times * cache_bytes(work);
        kv.flops_per_pair = kv.prefill_flops_per_pair = 2.0 * heads * (2 * key + rope);
        if (!work.is_sparse) {
          kv.prefill_flops_per_pair = 2.0 * heads * (nope + rope + value);
          kv.prefill_flops_per_past = 2.0 * heads * key * (nope + value);
        }
        break;
      }
      case MixerWork::Kind::kIndexer:
        // Every rank scores all past tokens, in fp8, whatever the KV dtype.
        kv.bytes_per_token = kv.write_bytes = times * cache_bytes(work);
        kv.flops_per_pair = kv.prefill_flops_per_pair = 2.0 * times * static_cast<double>(work.num_heads) * key;
        kv.flops_per_second = peak_flops(Compute::kFP8, device.flops);
        break;
      case MixerWork::Kind::kState:
        kv.fixed_read_bytes = kv.fixed_write_bytes =
            heads * work.state_bytes + times * work.conv_bytes / static_cast<double>(options.parallelism.tensor);
        kv.flops_per_token = heads * work.state_flops;
        break;
      case MixerWork::Kind::kCross: {
        const auto length = static_cast<double>(work.encoder_len);
        kv.fixed_read_bytes = times * cache_bytes(work) * length;
        kv.flops_per_token = 2.0 * heads * (key + value) * length;
        break;
      }
    }
    add_kv(kv);
  }

  // Ring all-reduce: 2 (n-1)/n of the bytes leave each rank (Patarasuk, Yuan 2009). Experts over replicas: what they
  // get and give back goes to other ranks instead.
  void add_communication(const LayerKind& kind, double times) {
    const model::Parallelism& ranks = options.parallelism;
    const auto hidden = static_cast<double>(costs.hidden_size);
    const auto tensor = static_cast<double>(ranks.tensor);
    double reduces = static_cast<double>(kind.num_reduces);
    if (ranks.data > 1 && kind.num_experts > 0) {
      const double all = tensor * static_cast<double>(ranks.data);
      const double copies = std::min(static_cast<double>(kind.num_experts_per_token), all);
      out.reduce_bytes_per_token += times * 2 * copies * hidden * kActivationBytes * (all - 1) / all / tensor;
      out.num_reduces += times * 2;
      reduces -= 1;
    }
    if (ranks.tensor > 1) {
      out.reduce_bytes_per_token += times * reduces * hidden * kActivationBytes * 2 * (tensor - 1) / tensor;
      out.num_reduces += times * reduces;
    }
  }

  double rank_bytes(const LayerKind& kind) const {
    double bytes = 0;
    for (const model::WeightMatrix& matrix : kind.matrices) {
      bytes += static_cast<double>(model::stored_bytes(model::rank_part(matrix, options.parallelism)));
    }
    return bytes;
  }

  // Layers of each kind in the stage that reads most, and whether it is the last.
  std::vector<double> heaviest_stage(double head_bytes) const {
    std::vector<double> bytes_of_kind;
    bytes_of_kind.reserve(costs.kinds.size());
    for (const LayerKind& kind : costs.kinds) bytes_of_kind.push_back(rank_bytes(kind));
    std::vector<double> best(costs.kinds.size(), 0.0);
    double most = -1;
    const int64_t stages = options.parallelism.pipeline;
    for (int64_t stage = 0; stage < stages; ++stage) {
      const model::LayerRange range =
          model::stage_layers(static_cast<int64_t>(costs.kind_of_layer.size()), stages, stage);
      std::vector<double> counts(costs.kinds.size(), 0.0);
      double bytes = stage + 1 == stages ? head_bytes : 0;
      for (int64_t layer = range.begin; layer < range.end; ++layer) {
        const uint16_t kind = costs.kind_of_layer[static_cast<size_t>(layer)];
        counts[kind] += 1;
        bytes += bytes_of_kind[kind];
      }
      if (bytes > most) {
        most = bytes;
        best = std::move(counts);
      }
    }
    return best;
  }

  void add_head() {
    const model::WeightMatrix part = model::rank_part(costs.head, options.parallelism);
    out.head_weight_bytes = static_cast<double>(model::stored_bytes(part));
    out.head_flops_per_sample = 2.0 * static_cast<double>(model::num_parameters(part));
    out.head_flops_per_second = matrix_peak(costs.head);
    out.embedding_row_bytes = static_cast<double>(model::stored_bytes(costs.embedding.format, 1, costs.hidden_size)) /
                              static_cast<double>(options.parallelism.tensor);
  }

  void add_layers() {
    std::vector<double> stage;
    if (options.parallelism.pipeline > 1) stage = heaviest_stage(out.head_weight_bytes);
    for (size_t i = 0; i < costs.kinds.size(); ++i) {
      const LayerKind& kind = costs.kinds[i];
      const double times = stage.empty() ? static_cast<double>(kind.num_layers) : stage[i];
      if (times == 0) continue;
      out.num_layers += times;
      for (const model::WeightMatrix& matrix : kind.matrices) {
        if (matrix.role == model::WeightRole::kExperts && kind.num_experts > 0) {
          add_expert(kind, matrix, times);
        } else {
          add_linear(matrix, times);
        }
      }
      for (const MixerWork& work : kind.mixers) add_mixer(work, times);
      add_communication(kind, times);
    }
    for (const model::WeightMatrix& matrix : costs.once) add_linear(matrix, 1);
  }
};

Result<void> check_efficiency(const Efficiency& efficiency) {
  const auto is_share = [](double value) { return std::isfinite(value) && value > 0 && value <= 1; };
  const auto is_share_or_none = [&](double value) { return value == 0 || is_share(value); };
  const auto is_time = [](double value) { return std::isfinite(value) && value >= 0 && value <= 3600; };
  const auto refuse = [](const char* what, double value) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("found {} for {}; {}", value, what, "expected a share above 0 and up to 1, or a time from 0 s"),
        "efficiency"};
  };
  if (!is_share(efficiency.bandwidth)) return refuse("bandwidth", efficiency.bandwidth);
  if (!is_share(efficiency.matmul)) return refuse("matmul", efficiency.matmul);
  if (!is_share_or_none(efficiency.attention)) return refuse("attention", efficiency.attention);
  if (!is_share_or_none(efficiency.kv_bandwidth)) return refuse("kv_bandwidth", efficiency.kv_bandwidth);
  if (!is_share_or_none(efficiency.expert_bandwidth)) return refuse("expert_bandwidth", efficiency.expert_bandwidth);
  if (!is_share_or_none(efficiency.expert_matmul)) return refuse("expert_matmul", efficiency.expert_matmul);
  if (!is_share(efficiency.link)) return refuse("link", efficiency.link);
  if (!is_time(efficiency.link_latency)) return refuse("link_latency", efficiency.link_latency);
  if (!is_time(efficiency.layer_overhead)) return refuse("layer_overhead", efficiency.layer_overhead);
  if (!is_time(efficiency.step_overhead)) return refuse("step_overhead", efficiency.step_overhead);
  return {};
}

}  // namespace

Efficiency resolved(Efficiency efficiency) {
  if (efficiency.attention <= 0) efficiency.attention = efficiency.matmul;
  if (efficiency.kv_bandwidth <= 0) efficiency.kv_bandwidth = efficiency.bandwidth;
  if (efficiency.expert_bandwidth <= 0) efficiency.expert_bandwidth = efficiency.bandwidth;
  if (efficiency.expert_matmul <= 0) efficiency.expert_matmul = efficiency.matmul;
  return efficiency;
}

Result<StepCostModel> make_step_cost_model(const ModelCosts& costs, const hardware::Device& device,
                                           const StepCostOptions& options) {
  ULLAGE_TRY_VOID(check_efficiency(options.efficiency));
  Builder builder{costs, device, options};
  if (!(builder.attention_peak() > 0) || !(device.bandwidth > 0)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("device \"{}\" states no memory bandwidth or no FLOP/s; a step's time follows from both",
                             device.id),
                 "--device"};
  }
  StepCostModel& out = builder.out;
  out.attention_flops_per_second = builder.attention_peak();
  out.bytes_per_second = device.bandwidth;
  out.is_causal_prefill_masked = options.is_causal_prefill_masked;
  out.efficiency = resolved(options.efficiency);
  const model::Parallelism& ranks = options.parallelism;
  out.num_stages = static_cast<double>(ranks.pipeline);
  out.num_replicas = static_cast<double>(ranks.data);
  builder.add_head();
  builder.add_layers();
  if (ranks.pipeline > 1) {
    out.hop_bytes_per_token =
        static_cast<double>(costs.hidden_size) * kActivationBytes / static_cast<double>(ranks.tensor);
  }
  if (options.counts_all_parameters) {
    builder.add_linear(costs.embedding, 1);
    if (costs.has_own_head) builder.add_linear(costs.head, 1);
    out.head_weight_bytes = out.head_flops_per_sample = out.embedding_row_bytes = 0;
  }
  for (LinearTraffic& linear : out.linear) {
    out.layer_weight_bytes += linear.weight_bytes;
    out.layer_flops_per_token += linear.flops_per_token;
    out.layer_seconds_per_token += linear.flops_per_token / linear.flops_per_second;
  }
  out.link_bytes_per_second = device.link_bandwidth > 0 ? device.link_bandwidth : device.host_bandwidth;
  const bool is_alone = out.reduce_bytes_per_token == 0 && out.hop_bytes_per_token == 0;
  if (!is_alone && !(out.link_bytes_per_second > 0)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("device \"{}\" states no link and no PCIe bandwidth, which several ranks need; state one",
                             device.id),
                 "--device"};
  }
  return out;
}

Result<StepCostModel> make_step_cost_model(const model::ModelShape& shape, const hardware::Device& device,
                                           const StepCostOptions& options) {
  ULLAGE_TRY_VOID(model::check_parallelism(shape, options.parallelism));
  ULLAGE_TRY(const ModelCosts costs, make_model_costs(shape));
  return make_step_cost_model(costs, device, options);
}

}  // namespace ullage::cost
