// Speed of the CPU executor alone, without server or tokenizer: prompt tokens a second in one prefill, and tokens a
// second of a single decode. Prints one JSON object. Usage:
//   bench_model_speed --model FILE.gguf [--prompt 512] [--generate 128] [--depth 0] [--batch 1] [--threads 0]
//                     [--rounds 3] [--kv bf16|f16|f32] [--isa auto|portable|avx2|avx512]
// `depth` tokens are in the cache before decoding starts; `batch` requests decode together.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ullage/base/clock.h"
#include "ullage/base/random.h"
#include "ullage/cpu/cpu_executor.h"
#include "ullage/cpu/thread_pool.h"

namespace {

using namespace ullage;

struct Arguments {
  std::string model;
  int64_t prompt = 512;
  int64_t generate = 128;
  int64_t depth = 0;
  int64_t batch = 1;
  int64_t threads = 0;
  int64_t rounds = 3;
  model::DType kv = model::DType::kBF16;
  cpu::Isa isa = cpu::Isa::kAuto;
};

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "bench_model_speed: %s\n", message.c_str());
  std::exit(2);
}

template <class T>
T value_or_fail(Result<T> result) {
  if (!result) fail(result.error().to_string());
  return *std::move(result);
}

Arguments parse(int argc, char** argv) {
  std::map<std::string, std::string> given;
  for (int i = 1; i + 1 < argc; i += 2) given[argv[i]] = argv[i + 1];
  Arguments a;
  const auto number = [&](const char* name, int64_t* out) {
    if (given.contains(name)) *out = value_or_fail(parse_count(given[name], name));
  };
  if (!given.contains("--model")) fail("--model FILE is needed; the head of bench/model_speed.cc lists the rest");
  a.model = given["--model"];
  number("--prompt", &a.prompt);
  number("--generate", &a.generate);
  number("--depth", &a.depth);
  number("--batch", &a.batch);
  number("--threads", &a.threads);
  number("--rounds", &a.rounds);
  if (given.contains("--kv")) a.kv = value_or_fail(model::parse_dtype(given["--kv"], "--kv"));
  if (given.contains("--isa")) a.isa = value_or_fail(cpu::parse_isa(given["--isa"], "--isa"));
  return a;
}

// Requests of random tokens with blocks of their own.
class Batch {
 public:
  Batch(int64_t count, int64_t length, int64_t block_size, int64_t vocab) {
    RandomStream random(1);
    for (int64_t i = 0; i < count; ++i) {
      auto& r = requests_.emplace_back();
      for (int64_t t = 0; t < length; ++t)
        r.tokens.push_back(static_cast<TokenId>(random.below(static_cast<uint64_t>(vocab))));
      for (int64_t b = 0; b < ceil_div(length, block_size); ++b) {
        r.blocks.push_back(BlockId(static_cast<int32_t>(1 + i * ceil_div(length, block_size) + b)));
      }
      r.tables = {sched::BlockTable(r.blocks)};
    }
    sampling_.temperature = 0.0;
  }

  sched::StepPlan plan(int64_t first_position, int64_t num_tokens) const {
    sched::StepPlan plan;
    for (size_t i = 0; i < requests_.size(); ++i) {
      sched::ScheduledRequest r;
      r.id = RequestId(static_cast<int64_t>(i) + 1);
      r.first_position = first_position;
      r.num_tokens = num_tokens;
      r.is_sampled = true;
      r.num_prompt_tokens = first_position + num_tokens;
      r.tokens = requests_[i].tokens;
      r.block_tables = requests_[i].tables;
      r.sampling = &sampling_;
      plan.requests.push_back(r);
      plan.num_tokens += num_tokens;
    }
    return plan;
  }

 private:
  struct Request {
    std::vector<TokenId> tokens;
    std::vector<BlockId> blocks;
    std::vector<sched::BlockTable> tables;
  };
  std::vector<Request> requests_;
  sched::SamplingParams sampling_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string rates(const char* name, const std::vector<double>& values) {
  return fmt::format("\"{}\":{{\"median\":{:.2f},\"min\":{:.2f},\"max\":{:.2f}}}", name, median(values),
                     *std::min_element(values.begin(), values.end()), *std::max_element(values.begin(), values.end()));
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv);
  const auto checkpoint = value_or_fail(model::Checkpoint::open(a.model));
  const int64_t length = std::max(a.prompt, a.depth + a.generate);
  cpu::CpuOptions options;
  options.num_threads = a.threads;
  options.kv_dtype = a.kv;
  options.isa = a.isa;
  options.max_num_batched_tokens = std::max({a.prompt, a.depth * a.batch, a.batch});
  options.max_num_seqs = a.batch;
  options.max_model_len = length;
  options.num_blocks = 1 + a.batch * ceil_div(length, options.block_size);
  const auto executor = value_or_fail(cpu::CpuExecutor::create(checkpoint, options));
  const int64_t vocab = checkpoint.shape().vocab_size;
  const Batch single(1, length, options.block_size, vocab);
  const Batch batch(a.batch, length, options.block_size, vocab);
  RealClock clock;
  const auto run = [&](const Batch& b, int64_t first, int64_t tokens) {
    const auto result = executor->execute(b.plan(first, tokens));
    if (!result) fail(result.error().to_string());
  };
  std::vector<double> prefill, decode;
  run(single, 0, std::min<int64_t>(a.prompt, 32));  // pages and threads wake up
  for (int64_t round = 0; round < a.rounds; ++round) {
    Nanos start = clock.now();
    run(single, 0, a.prompt);
    prefill.push_back(static_cast<double>(a.prompt) / to_seconds(clock.now() - start));
    if (a.generate == 0) continue;
    if (a.depth > 0) run(batch, 0, a.depth);
    start = clock.now();
    for (int64_t i = 0; i < a.generate; ++i) run(batch, a.depth + i, 1);
    decode.push_back(static_cast<double>(a.generate * a.batch) / to_seconds(clock.now() - start));
  }
  if (decode.empty()) decode.push_back(0.0);
  std::printf("{\"prompt\":%ld,\"generate\":%ld,\"depth\":%ld,\"batch\":%ld,\"threads\":%ld,\"rounds\":%ld,%s,%s}\n",
              a.prompt, a.generate, a.depth, a.batch, a.threads == 0 ? cpu::available_threads() : a.threads, a.rounds,
              rates("prefill_tokens_per_s", prefill).c_str(), rates("decode_tokens_per_s", decode).c_str());
  return 0;
}
