#include "ullage/serve/metrics.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "ullage/serve/process_stats.h"

namespace ullage::serve {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;
using Buckets = Histogram::BucketBoundaries;

// vLLM's bucket boundaries, so that its dashboards fit (vllm/v1/metrics/loggers.py).
const Buckets kFirstTokenSeconds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                                    1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
const Buckets kTokenSeconds = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                               0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
const Buckets kRequestSeconds = {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
                                 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
const Buckets kStepTokens = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
const Buckets kChoices = {1, 2, 5, 10, 20};

// 1, 2, 5, 10, ... up to the largest that a request may have.
Buckets token_buckets(int64_t max_tokens) {
  Buckets buckets;
  for (int64_t decade = 1;; decade *= 10) {
    for (const int64_t step : {1, 2, 5}) {
      const int64_t value = step * decade;
      if (value > max_tokens) return buckets.empty() ? Buckets{1} : buckets;
      buckets.push_back(static_cast<double>(value));
    }
  }
}

}  // namespace

// References into the registry: made once, used for every event.
struct Metrics::Impl {
  Impl(const std::string& the_prefix, const ModelInfo& model);

  Gauge& gauge(const std::string& name, const std::string& help, Labels more = {});
  Counter& counter(const std::string& name, const std::string& help, Labels more = {});
  Histogram& histogram(const std::string& name, const std::string& help, const Buckets& buckets);
  Labels with(Labels more) const {
    more.insert(labels.begin(), labels.end());
    return more;
  }
  void add_cache_config(const ModelInfo& model);
  void add_process();
  void read_process();

  std::string prefix;
  Labels labels;
  prometheus::Registry registry;

  Gauge& running;
  Gauge& waiting;
  Gauge& waiting_capacity;
  Gauge& waiting_deferred;
  Gauge& cache_usage;
  Gauge& sleep_awake;

  Counter& prefix_queries;
  Counter& prefix_hits;
  Counter& preemptions;
  Counter& prompt_tokens;
  Counter& prompt_tokens_cached;
  Counter& prompt_tokens_computed_source;
  Counter& prompt_tokens_cached_source;
  Counter& generation_tokens;
  Counter& success_stop;
  Counter& success_length;
  Counter& success_abort;
  Counter& success_error;
  Counter& rejected;

  Histogram& first_token;
  Histogram& inter_token;
  Histogram& per_output_token;
  Histogram& e2e;
  Histogram& queue;
  Histogram& inference;
  Histogram& prefill;
  Histogram& decode;
  Histogram& step_tokens;
  Histogram& request_prompt;
  Histogram& request_generation;
  Histogram& request_max_generation;
  Histogram& params_n;
  Histogram& params_max_tokens;
  Histogram& prefill_computed;

  Gauge& blocks_used;
  Gauge& blocks_usable;
  Gauge& connections;
  Counter& steps;
  prometheus::Family<Counter>& http_requests;
  std::map<std::pair<std::string, int>, Counter*, std::less<>> http_counters;  // guarded by mutex
  std::mutex mutex;

  Gauge* resident = nullptr;
  Gauge* virtual_memory = nullptr;
  Gauge* open_fds = nullptr;
  Gauge* max_fds = nullptr;
  Gauge* threads = nullptr;
  Gauge* start_time = nullptr;
  Counter* cpu = nullptr;

  engine::StatisticsTotals seen;  // engine's thread: what the counters already have
};

Gauge& Metrics::Impl::gauge(const std::string& name, const std::string& help, Labels more) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(with(std::move(more)));
}
Counter& Metrics::Impl::counter(const std::string& name, const std::string& help, Labels more) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(with(std::move(more)));
}
Histogram& Metrics::Impl::histogram(const std::string& name, const std::string& help, const Buckets& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(with({}), buckets);
}

Metrics::Impl::Impl(const std::string& the_prefix, const ModelInfo& model)
    : prefix(the_prefix),
      labels{{"model_name", model.names.empty() ? "" : model.names.front()}, {"engine", "0"}},
      running(gauge(prefix + "num_requests_running", "Requests in the running batch.")),
      waiting(gauge(prefix + "num_requests_waiting", "Requests waiting to be scheduled.")),
      waiting_capacity(gauge(prefix + "num_requests_waiting_by_reason", "Waiting requests by why they wait.",
                             {{"reason", "capacity"}})),
      waiting_deferred(gauge(prefix + "num_requests_waiting_by_reason", "Waiting requests by why they wait.",
                             {{"reason", "deferred"}})),
      cache_usage(gauge(prefix + "kv_cache_usage_perc", "Share of the KV cache's blocks in use; 1 = all.")),
      sleep_awake(gauge(prefix + "engine_sleep_state", "1 in the state that the engine is in (it never sleeps).",
                        {{"sleep_state", "awake"}})),
      prefix_queries(counter(prefix + "prefix_cache_queries_total", "Tokens looked up in the prefix cache.")),
      prefix_hits(counter(prefix + "prefix_cache_hits_total", "Tokens found in the prefix cache.")),
      preemptions(counter(prefix + "num_preemptions_total", "Requests preempted for want of blocks.")),
      prompt_tokens(counter(prefix + "prompt_tokens_total", "Prompt tokens of requests whose first token has come.")),
      prompt_tokens_cached(counter(prefix + "prompt_tokens_cached_total", "Of them, found in the prefix cache.")),
      prompt_tokens_computed_source(
          counter(prefix + "prompt_tokens_by_source_total", "Prompt tokens by source.", {{"source", "local_compute"}})),
      prompt_tokens_cached_source(counter(prefix + "prompt_tokens_by_source_total", "Prompt tokens by source.",
                                          {{"source", "local_cache_hit"}})),
      generation_tokens(counter(prefix + "generation_tokens_total", "Tokens generated.")),
      success_stop(counter(prefix + "request_success_total", "Ended requests by why they ended.",
                           {{"finished_reason", "stop"}})),
      success_length(counter(prefix + "request_success_total", "Ended requests by why they ended.",
                             {{"finished_reason", "length"}})),
      success_abort(counter(prefix + "request_success_total", "Ended requests by why they ended.",
                            {{"finished_reason", "abort"}})),
      success_error(counter(prefix + "request_success_total", "Ended requests by why they ended.",
                            {{"finished_reason", "error"}})),
      rejected(counter("ullage_requests_rejected_total", "Requests refused: too large, or the queue full.")),
      first_token(histogram(prefix + "time_to_first_token_seconds", "Arrival to first token.", kFirstTokenSeconds)),
      inter_token(histogram(prefix + "inter_token_latency_seconds", "Between two tokens of a request.", kTokenSeconds)),
      per_output_token(histogram(prefix + "request_time_per_output_token_seconds",
                                 "A request's mean time per output token after its first.", kTokenSeconds)),
      e2e(histogram(prefix + "e2e_request_latency_seconds", "Arrival to end.", kRequestSeconds)),
      queue(histogram(prefix + "request_queue_time_seconds", "Arrival to first scheduling.", kRequestSeconds)),
      inference(
          histogram(prefix + "request_inference_time_seconds", "First scheduling to last token.", kRequestSeconds)),
      prefill(histogram(prefix + "request_prefill_time_seconds", "First scheduling to first token.", kRequestSeconds)),
      decode(histogram(prefix + "request_decode_time_seconds", "First token to last token.", kRequestSeconds)),
      step_tokens(histogram(prefix + "iteration_tokens_total", "Tokens computed in a step.", kStepTokens)),
      request_prompt(histogram(prefix + "request_prompt_tokens", "Prompt tokens of a request.",
                               token_buckets(model.max_model_len))),
      request_generation(histogram(prefix + "request_generation_tokens", "Output tokens of a request.",
                                   token_buckets(model.max_model_len))),
      request_max_generation(histogram(prefix + "request_max_num_generation_tokens",
                                       "Most output tokens of any choice of a request.",
                                       token_buckets(model.max_model_len))),
      params_n(histogram(prefix + "request_params_n", "'n' as asked for.", kChoices)),
      params_max_tokens(histogram(prefix + "request_params_max_tokens", "'max_tokens' as asked for, or its default.",
                                  token_buckets(model.max_model_len))),
      prefill_computed(histogram(prefix + "request_prefill_kv_computed_tokens",
                                 "Prompt tokens of a request computed, not found in the prefix cache.",
                                 token_buckets(model.max_model_len))),
      blocks_used(gauge("ullage_kv_blocks_used", "Blocks of the pool in use.")),
      blocks_usable(gauge("ullage_kv_blocks_usable", "Blocks of the pool.")),
      connections(gauge("ullage_http_connections", "Open connections.")),
      steps(counter("ullage_steps_total", "Steps of the engine.")),
      http_requests(prometheus::BuildCounter()
                        .Name("ullage_http_requests_total")
                        .Help("Answered HTTP requests by route and status.")
                        .Register(registry)) {
  sleep_awake.Set(1);
  blocks_usable.Set(static_cast<double>(std::max<int64_t>(0, model.engine.num_blocks - 1)));
  add_cache_config(model);
  for (const MemoryRole& role : model.memory) {
    gauge("ullage_memory_bytes", "Memory by role.", {{"role", role.role}}).Set(static_cast<double>(role.bytes));
  }
  add_process();
}

void Metrics::Impl::add_cache_config(const ModelInfo& model) {
  gauge(prefix + "cache_config_info", "The KV cache's configuration, as labels.",
        {{"block_size", fmt::format("{}", model.engine.block_size)},
         {"cache_dtype", model.kv_cache_dtype},
         {"enable_prefix_caching", model.engine.enable_prefix_caching ? "True" : "False"},
         {"num_gpu_blocks", fmt::format("{}", model.engine.num_blocks)},
         {"device", model.device_kind},
         {"kv_cache_size_tokens", fmt::format("{}", model.capacity.size_tokens)},
         {"kv_cache_max_concurrency", fmt::format("{:.2f}", model.capacity.max_concurrency)}})
      .Set(1);
}

void Metrics::Impl::add_process() {
  const auto plain_gauge = [&](const char* name, const char* help) {
    return &prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
  };
  resident = plain_gauge("process_resident_memory_bytes", "Resident memory.");
  virtual_memory = plain_gauge("process_virtual_memory_bytes", "Virtual memory.");
  open_fds = plain_gauge("process_open_fds", "Open file descriptors.");
  max_fds = plain_gauge("process_max_fds", "Most file descriptors that may be open.");
  threads = plain_gauge("process_threads", "Threads.");
  start_time = plain_gauge("process_start_time_seconds", "Start of the process, seconds since 1970.");
  cpu = &prometheus::BuildCounter()
             .Name("process_cpu_seconds_total")
             .Help("User and system time.")
             .Register(registry)
             .Add({});
}

void Metrics::Impl::read_process() {
  const ProcessStats stats = read_process_stats();
  resident->Set(static_cast<double>(stats.resident_bytes));
  virtual_memory->Set(static_cast<double>(stats.virtual_bytes));
  open_fds->Set(static_cast<double>(stats.num_open_fds));
  max_fds->Set(static_cast<double>(stats.max_fds));
  threads->Set(static_cast<double>(stats.num_threads));
  start_time->Set(stats.start_seconds);
  const std::lock_guard lock(mutex);
  cpu->Increment(std::max(0.0, stats.cpu_seconds - cpu->Value()));
}

Metrics::Metrics(const std::string& prefix, const ModelInfo& model) : impl_(std::make_unique<Impl>(prefix, model)) {}
Metrics::~Metrics() = default;

void Metrics::on_first_token(const engine::RequestRecord& record) {
  impl_->first_token.Observe(engine::ttft_seconds(record));
}

void Metrics::on_inter_token(const engine::RequestRecord&, Nanos gap) { impl_->inter_token.Observe(to_seconds(gap)); }

void Metrics::on_request_end(const engine::RequestRecord& record) {
  Impl& m = *impl_;
  m.e2e.Observe(engine::e2e_seconds(record));
  // A request that a client left before it was scheduled, or before its first token, has no such times.
  if (record.first_scheduled != engine::RequestRecord::kNever) m.queue.Observe(engine::queue_seconds(record));
  if (record.first_token != engine::RequestRecord::kNever) {
    m.inference.Observe(engine::inference_seconds(record));
    m.prefill.Observe(engine::prefill_seconds(record));
    m.decode.Observe(engine::decode_seconds(record));
    m.prefill_computed.Observe(static_cast<double>(record.num_prompt_tokens - record.num_cached_tokens));
  }
  if (record.num_output_tokens > 1) m.per_output_token.Observe(engine::time_per_output_token_seconds(record));
  m.request_prompt.Observe(static_cast<double>(record.num_prompt_tokens));
  m.request_generation.Observe(static_cast<double>(record.num_output_tokens));
}

void Metrics::on_step(const sched::StepEvent& step) {
  impl_->step_tokens.Observe(static_cast<double>(step.num_tokens));
  set_blocks(step.num_blocks_used, step.num_blocks_total);
}

void Metrics::set_blocks(int64_t num_used, int64_t num_usable) {
  const double usable = static_cast<double>(std::max<int64_t>(1, num_usable));
  impl_->cache_usage.Set(static_cast<double>(num_used) / usable);
  impl_->blocks_used.Set(static_cast<double>(num_used));
  impl_->blocks_usable.Set(static_cast<double>(num_usable));
}

void Metrics::update(const engine::Statistics& statistics) {
  Impl& m = *impl_;
  m.running.Set(static_cast<double>(statistics.num_running()));
  m.waiting.Set(static_cast<double>(statistics.num_waiting()));
  m.waiting_capacity.Set(static_cast<double>(statistics.num_waiting()));
  const engine::StatisticsTotals& now = statistics.totals();
  const auto raise = [](Counter& counter, int64_t value, int64_t& seen) {
    if (value > seen) counter.Increment(static_cast<double>(value - seen));
    seen = std::max(seen, value);
  };
  const int64_t computed_before = m.seen.prompt_tokens - m.seen.prompt_tokens_cached;
  const int64_t cached_before = m.seen.prompt_tokens_cached;
  raise(m.prompt_tokens, now.prompt_tokens, m.seen.prompt_tokens);
  raise(m.prompt_tokens_cached, now.prompt_tokens_cached, m.seen.prompt_tokens_cached);
  m.prompt_tokens_computed_source.Increment(
      static_cast<double>(m.seen.prompt_tokens - m.seen.prompt_tokens_cached - computed_before));
  m.prompt_tokens_cached_source.Increment(static_cast<double>(m.seen.prompt_tokens_cached - cached_before));
  raise(m.generation_tokens, now.generation_tokens, m.seen.generation_tokens);
  raise(m.preemptions, now.preemptions, m.seen.preemptions);
  raise(m.prefix_queries, now.prefix_cache_queries, m.seen.prefix_cache_queries);
  raise(m.prefix_hits, now.prefix_cache_hits, m.seen.prefix_cache_hits);
  raise(m.rejected, now.rejected, m.seen.rejected);
  raise(m.steps, now.num_steps, m.seen.num_steps);
}

void Metrics::observe_request(int64_t n, int64_t max_tokens, int64_t longest_output) {
  impl_->request_max_generation.Observe(static_cast<double>(longest_output));
  impl_->params_n.Observe(static_cast<double>(n));
  impl_->params_max_tokens.Observe(static_cast<double>(max_tokens));
}

void Metrics::count_ending(ChoiceEnding ending) {
  Impl& m = *impl_;
  switch (ending) {
    case ChoiceEnding::kStop:
      return m.success_stop.Increment();
    case ChoiceEnding::kLength:
      return m.success_length.Increment();
    case ChoiceEnding::kAbort:
      return m.success_abort.Increment();
    case ChoiceEnding::kError:
      return m.success_error.Increment();
  }
}

void Metrics::count_http(std::string_view route, int status) {
  const std::lock_guard lock(impl_->mutex);
  auto& counter = impl_->http_counters[{std::string(route), status}];
  if (counter == nullptr) {
    counter = &impl_->http_requests.Add({{"route", std::string(route)}, {"status", fmt::format("{}", status)}});
  }
  counter->Increment();
}

void Metrics::set_connections(int64_t num_open) { impl_->connections.Set(static_cast<double>(num_open)); }

std::string Metrics::serialize() {
  impl_->read_process();
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace ullage::serve
