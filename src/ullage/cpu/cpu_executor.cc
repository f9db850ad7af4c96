#include "ullage/cpu/cpu_executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "ullage/base/check.h"
#include "ullage/base/clock.h"
#include "ullage/cpu/kv_pool.h"
#include "ullage/cpu/step_layout.h"
#include "ullage/cpu/thread_pool.h"
#include "ullage/cpu/weights.h"
#include "ullage/cpu/workspace.h"
#include "ullage/model/dequant.h"

namespace ullage::cpu {
namespace {

// Work below this many multiplications is done by the calling thread: waking another costs more.
constexpr int64_t kMinParallelWork = 32 * 1024;

// One matrix of a region of several.
struct Product {
  const Matrix* matrix = nullptr;
  const float* bias = nullptr;
  Rows out;
  bool is_added = false;
};

Rows columns_from(const Rows& rows, int64_t first) { return Rows{rows.data + first, rows.stride}; }

}  // namespace

struct CpuExecutor::State {
  CpuOptions options;
  std::string device_kind = "CPU";
  Dimensions d;
  float norm_eps = 0;
  float attention_scale = 0;
  int64_t window = 0;
  model::RopePairing pairing = model::RopePairing::kHalves;
  const Kernels* kernels = nullptr;
  MemoryLedger ledger;
  Weights weights;
  KvPool kv;
  Workspace work;
  CpuMemory memory;
  std::unique_ptr<ThreadPool> threads;
  StepLayout step;
  RealClock clock;
  std::span<const float> last_logits;

  int64_t num_tokens() const { return static_cast<int64_t>(step.rows.size()); }

  StepLimits limits() const {
    return {
        options.max_num_batched_tokens, options.max_num_seqs, options.num_blocks, options.block_size, d.vocab, window,
        threads->num_threads(),         work.partial_floats};
  }

  // Calls work(row, thread) for all rows; `cost` is multiplications a row, about.
  template <class Work>
  void for_rows(int64_t num_rows, int64_t cost, const Work& body) {
    const int64_t rows_an_item = std::max<int64_t>(1, kMinParallelWork / std::max<int64_t>(cost, 1));
    threads->run(ceil_div(num_rows, rows_an_item), [&](int64_t item, int64_t thread) {
      const int64_t end = std::min(num_rows, (item + 1) * rows_an_item);
      for (int64_t row = item * rows_an_item; row < end; ++row) body(row, thread);
    });
  }

  // Rows a work item takes of matrices with `total_rows` in all.
  int64_t rows_an_item(int64_t total_rows, int64_t columns, int64_t tokens) const {
    if (total_rows * columns * tokens < kMinParallelWork) return total_rows;
    const int64_t share = ceil_div(total_rows, 8 * threads->num_threads());
    const int64_t most = tokens == 1 ? 512 : 64;
    return ceil_div(std::clamp<int64_t>(share, 4, most), 4) * 4;
  }

  void multiply_part(const Product& p, const Rows& x, int64_t tokens, int64_t row_begin, int64_t row_end,
                     int64_t thread) {
    MatmulArgs args;
    args.matrix = p.matrix;
    args.row_begin = row_begin;
    args.row_end = row_end;
    args.x = x.data;
    args.x_stride = x.stride;
    args.num_tokens = tokens;
    args.out = p.out.data;
    args.out_stride = p.out.stride;
    args.bias = p.bias;
    args.is_added = p.is_added;
    args.scratch = work.threads[static_cast<size_t>(thread)].matmul;
    kernels->matmul(args);
  }

  // All products of x in one parallel region.
  void multiply(std::span<const Product> products, const Rows& x, int64_t tokens) {
    int64_t total_rows = 0;
    for (const Product& p : products) total_rows += p.matrix->rows;
    const int64_t share = rows_an_item(total_rows, products[0].matrix->columns, tokens);
    int64_t num_items = 0;
    for (const Product& p : products) num_items += ceil_div(p.matrix->rows, share);
    threads->run(num_items, [&](int64_t item, int64_t thread) {
      const Product* p = products.data();
      for (; item >= ceil_div(p->matrix->rows, share); ++p) item -= ceil_div(p->matrix->rows, share);
      multiply_part(*p, x, tokens, item * share, std::min(p->matrix->rows, (item + 1) * share), thread);
    });
  }

  void embed() {
    const Matrix& m = weights.embedding;
    for_rows(num_tokens(), d.hidden, [&](int64_t row, int64_t) {
      const TokenRow& t = step.rows[static_cast<size_t>(row)];
      model::dequantize_row(m.dtype, m.data + t.token * m.row_bytes, work.hidden.row(row), d.hidden);
      rope_angles(weights.rope, t.position, work.angles.row(row));
    });
  }

  void normalise(const Rows& x, const float* weight, const Rows& out, int64_t rows) {
    for_rows(rows, d.hidden * 2,
             [&](int64_t row, int64_t) { kernels->rms_norm(x.row(row), weight, norm_eps, out.row(row), d.hidden); });
  }

  void project_qkv(const LayerWeights& w) {
    normalise(work.hidden, w.attention_norm, work.normed, num_tokens());
    const Product products[] = {{&w.query, w.query_bias, work.qkv},
                                {&w.key, w.key_bias, columns_from(work.qkv, d.q_dim)},
                                {&w.value, w.value_bias, columns_from(work.qkv, d.q_dim + d.kv_dim)}};
    multiply(products, work.normed, num_tokens());
  }

  void turn_heads(float* heads, int64_t num_heads, const float* norm, const float* angles, float scale) {
    for (int64_t h = 0; h < num_heads; ++h) {
      float* head = heads + h * d.head_dim;
      if (norm != nullptr) kernels->rms_norm(head, norm, norm_eps, head, d.head_dim);
      rotate_head(head, angles, d.rotary_dim, pairing);
      if (scale == 1.0f) continue;
      for (int64_t i = 0; i < d.head_dim; ++i) head[i] *= scale;
    }
  }

  // Norms and rotates queries and keys, and writes keys and values of all tokens before any is read.
  void store_kv(const LayerWeights& w, int64_t layer, std::span<const sched::BlockCopy> copies) {
    for_rows(num_tokens(), (d.q_dim + d.kv_dim) * 4, [&](int64_t row, int64_t) {
      const TokenRow& t = step.rows[static_cast<size_t>(row)];
      float* q = work.qkv.row(row);
      float* k = q + d.q_dim;
      turn_heads(q, d.num_heads, w.query_norm, work.angles.row(row), attention_scale);
      turn_heads(k, d.num_kv_heads, w.key_norm, work.angles.row(row), 1.0f);
      kv.write(layer, t.block, t.slot, k, k + d.kv_dim);
    });
    for (const sched::BlockCopy& c : copies) kv.copy(layer, c.source, c.destination, c.num_tokens);
  }

  AttentionArgs attention_args(const AttentionTile& tile, int64_t layer, int64_t kv_head, int64_t thread) const {
    AttentionArgs args;
    args.q = work.qkv.row(tile.first_row) + kv_head * d.group * d.head_dim;
    args.q_stride = work.qkv.stride;
    args.num_tokens = tile.num_tokens;
    args.group = d.group;
    args.head_dim = d.head_dim;
    args.first_position = tile.first_position;
    args.window = window;
    args.block_table = tile.block_table;
    args.keys = kv.keys(layer, kv_head);
    args.values = kv.values(layer, kv_head);
    args.block_bytes = kv.block_bytes();
    args.block_size = options.block_size;
    args.kv_dtype = options.kv_dtype;
    args.scratch = work.threads[static_cast<size_t>(thread)].attention;
    return args;
  }

  float* attended_head(const AttentionTile& tile, int64_t kv_head, int64_t query_row) const {
    return work.attended.row(tile.first_row + query_row / d.group) +
           (kv_head * d.group + query_row % d.group) * d.head_dim;
  }

  float* partial_state(const AttentionTile& tile, int64_t kv_head, int64_t partition) const {
    const int64_t partitions = tile.end_partition - tile.first_partition;
    const int64_t index = (kv_head * partitions + partition - tile.first_partition) * d.group;
    return work.partials + tile.partials_offset + index * attention_state_floats(d.head_dim);
  }

  void attend_tile(const AttentionTile& tile, int64_t layer, int64_t kv_head, int64_t thread) {
    const AttentionArgs args = attention_args(tile, layer, kv_head, thread);
    const ThreadScratch& scratch = work.threads[static_cast<size_t>(thread)];
    const int64_t state_floats = attention_state_floats(d.head_dim);
    const int64_t query_rows = tile.num_tokens * d.group;
    kernels->attend_partition(args, tile.first_partition, scratch.running_states);
    for (int64_t p = tile.first_partition + 1; p < tile.end_partition; ++p) {
      kernels->attend_partition(args, p, scratch.next_states);
      for (int64_t i = 0; i < query_rows; ++i) {
        kernels->merge_states(scratch.running_states + i * state_floats, scratch.next_states + i * state_floats,
                              d.head_dim);
      }
    }
    for (int64_t i = 0; i < query_rows; ++i) {
      kernels->finish_state(scratch.running_states + i * state_floats, attended_head(tile, kv_head, i), d.head_dim);
    }
  }

  void merge_partials(const AttentionTile& tile, int64_t kv_head) {
    const int64_t state_floats = attention_state_floats(d.head_dim);
    float* running = partial_state(tile, kv_head, tile.first_partition);
    for (int64_t p = tile.first_partition + 1; p < tile.end_partition; ++p) {
      const float* next = partial_state(tile, kv_head, p);
      for (int64_t i = 0; i < d.group; ++i)
        kernels->merge_states(running + i * state_floats, next + i * state_floats, d.head_dim);
    }
    for (int64_t i = 0; i < d.group; ++i) {
      kernels->finish_state(running + i * state_floats, attended_head(tile, kv_head, i), d.head_dim);
    }
  }

  void attend(int64_t layer) {
    const auto num_items = static_cast<int64_t>(step.items.size()) * d.num_kv_heads;
    const auto run_item = [&](int64_t i, int64_t thread) {
      const AttentionItem& item = step.items[static_cast<size_t>(i / d.num_kv_heads)];
      const AttentionTile& tile = step.tiles[static_cast<size_t>(item.tile)];
      const int64_t kv_head = i % d.num_kv_heads;
      if (item.partition < 0) {
        attend_tile(tile, layer, kv_head, thread);
      } else {
        kernels->attend_partition(attention_args(tile, layer, kv_head, thread), item.partition,
                                  partial_state(tile, kv_head, item.partition));
      }
    };
    threads->run(num_items, run_item);
    for (const int64_t tile : step.split_tiles) {
      for (int64_t h = 0; h < d.num_kv_heads; ++h) merge_partials(step.tiles[static_cast<size_t>(tile)], h);
    }
  }

  void feed_forward(const LayerWeights& w) {
    normalise(work.hidden, w.ffn_norm, work.normed, num_tokens());
    const int64_t tokens = num_tokens();
    const int64_t share = rows_an_item(2 * d.inner, d.hidden, tokens);
    threads->run(ceil_div(d.inner, share), [&](int64_t item, int64_t thread) {
      const int64_t begin = item * share;
      const int64_t end = std::min(d.inner, begin + share);
      multiply_part({&w.gate, nullptr, work.gate}, work.normed, tokens, begin, end, thread);
      multiply_part({&w.up, nullptr, work.up}, work.normed, tokens, begin, end, thread);
      for (int64_t t = 0; t < tokens; ++t) {
        kernels->silu_multiply(work.gate.row(t) + begin, work.up.row(t) + begin, end - begin);
      }
    });
    const Product down[] = {{&w.down, nullptr, work.hidden, true}};
    multiply(down, work.gate, tokens);
  }

  void compute_layer(int64_t layer, std::span<const sched::BlockCopy> copies) {
    const LayerWeights& w = weights.layers[static_cast<size_t>(layer)];
    project_qkv(w);
    store_kv(w, layer, copies);
    attend(layer);
    const Product output[] = {{&w.attention_output, w.output_bias, work.hidden, true}};
    multiply(output, work.attended, num_tokens());
    feed_forward(w);
  }

  // Logits of the sampled rows, some at a time, and their tokens.
  void sample(sched::StepResult* result) {
    const auto count = static_cast<int64_t>(step.sampled.size());
    result->tokens.resize(step.sampled.size());
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = step.sampled_rows[static_cast<size_t>(i)];
      kernels->rms_norm(work.hidden.row(row), weights.output_norm, norm_eps, work.sampled.row(i), d.hidden);
    }
    for (int64_t begin = 0; begin < count; begin += kLogitRows) {
      const int64_t n = std::min(kLogitRows, count - begin);
      const Product head[] = {{&weights.head, nullptr, work.logits}};
      multiply(head, Rows{work.sampled.row(begin), work.sampled.stride}, n);
      threads->run(n, [&](int64_t i, int64_t thread) {
        const auto index = static_cast<size_t>(begin + i);
        result->tokens[index] = sample_token(*kernels, {work.logits.row(i), static_cast<size_t>(d.vocab)},
                                             *step.sampled[index], work.threads[static_cast<size_t>(thread)].sampler);
      });
      last_logits = {work.logits.row(n - 1), static_cast<size_t>(d.vocab)};
    }
  }
};

namespace {

Result<void> check_options(const CpuOptions& o) {
  const auto positive = [](int64_t value, const char* name) -> Result<void> {
    if (value >= 1) return {};
    return Error{ErrorCode::kInvalidArgument, fmt::format("found {}; at least 1 is needed", value), name};
  };
  ULLAGE_TRY_VOID(positive(o.block_size, "block_size"));
  ULLAGE_TRY_VOID(positive(o.num_blocks, "num_blocks"));
  ULLAGE_TRY_VOID(positive(o.max_num_batched_tokens, "max_num_batched_tokens"));
  ULLAGE_TRY_VOID(positive(o.max_num_seqs, "max_num_seqs"));
  if (o.num_threads < 0 || o.num_threads > 1024) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("found {}; 0 (all cores) to 1024 are possible", o.num_threads), "threads"};
  }
  return {};
}

}  // namespace

CpuExecutor::CpuExecutor(std::unique_ptr<State> state) : state_(std::move(state)) {}
CpuExecutor::~CpuExecutor() = default;

Result<std::unique_ptr<CpuExecutor>> CpuExecutor::create(const model::Checkpoint& checkpoint,
                                                         const CpuOptions& options) {
  const model::ModelShape& shape = checkpoint.shape();
  ULLAGE_TRY_VOID(check_options(options));
  ULLAGE_TRY_VOID(check_runnable(shape));
  auto s = std::make_unique<State>();
  s->options = options;
  if (s->options.max_model_len <= 0) s->options.max_model_len = shape.max_position_embeddings;
  const auto& attention = std::get<model::Attention>(shape.layers.front().mixer);
  s->d = dimensions(shape);
  s->norm_eps = static_cast<float>(shape.norm_eps);
  s->attention_scale = static_cast<float>(
      attention.scale != 0.0 ? attention.scale : 1.0 / std::sqrt(static_cast<double>(attention.head_dim)));
  s->window = attention.sliding_window;
  s->pairing = attention.rope.pairing;
  ULLAGE_TRY(s->kernels, select_kernels(options.isa));
  const int64_t num_threads = options.num_threads == 0 ? available_threads() : options.num_threads;
  ULLAGE_TRY(s->weights, load_weights(checkpoint, &s->ledger));
  const KvPool::Shape pool{static_cast<int64_t>(shape.layers.size()),
                           options.num_blocks,
                           s->d.num_kv_heads,
                           s->d.head_dim,
                           options.block_size,
                           options.kv_dtype};
  ULLAGE_TRY(s->kv, KvPool::create(pool, &s->ledger));
  ULLAGE_TRY(s->work, allocate_workspace(s->d, s->options, num_threads, &s->ledger));
  s->memory.weights_bytes = s->weights.mapped_bytes;
  s->memory.repacked_bytes = s->ledger.charged(MemoryRole::kRepacked);
  s->memory.kv_pool_bytes = s->ledger.charged(MemoryRole::kKvPool);
  s->memory.workspace_bytes = s->ledger.charged(MemoryRole::kWorkspace);
  ULLAGE_CHECK(s->memory.total_allocated() == s->ledger.handed_out());
  s->threads = std::make_unique<ThreadPool>(num_threads);
  return std::unique_ptr<CpuExecutor>(new CpuExecutor(std::move(s)));
}

Result<sched::StepResult> CpuExecutor::execute(const sched::StepPlan& plan) {
  State& s = *state_;
  const Nanos start = s.clock.now();
  ULLAGE_TRY_VOID(lay_out_step(plan, s.d, s.limits(), &s.step));
  sched::StepResult result;
  s.embed();
  for (int64_t layer = 0; layer < static_cast<int64_t>(s.weights.layers.size()); ++layer)
    s.compute_layer(layer, plan.copies);
  s.sample(&result);
  result.duration = s.clock.now() - start;
  return result;
}

const std::string& CpuExecutor::device_kind() const { return state_->device_kind; }
const CpuMemory& CpuExecutor::memory() const { return state_->memory; }
int64_t CpuExecutor::allocated_bytes() const { return state_->ledger.handed_out(); }
std::span<const float> CpuExecutor::last_logits() const { return state_->last_logits; }

}  // namespace ullage::cpu
