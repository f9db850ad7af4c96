// Prints what the core computes: numbers, hashes, JSON, plans of random scenarios, the lessons' cases (on standard
// input) and the decisions of modelled sessions. Built natively and for WebAssembly; any difference between the two
// outputs is a platform leaking into the core.
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/api/documents.h"
#include "ullage/api/inspect.h"
#include "ullage/base/clock.h"
#include "ullage/base/hash.h"
#include "ullage/base/json.h"
#include "ullage/base/random.h"
#include "ullage/base/units.h"
#include "ullage/engine/decision_log.h"
#include "ullage/engine/engine.h"
#include "ullage/hardware/device.h"
#include "ullage/model/config.h"
#include "ullage/observe/lesson_cases.h"
#include "ullage/sim/modelled_executor.h"
#include "ullage/sim/token_source.h"

namespace {

void print(const std::string& line) { std::printf("%s\n", line.c_str()); }

void print_base() {
  ullage::RandomStream stream(7, 3);
  ullage::Json numbers = ullage::Json::array();
  for (int i = 0; i < 1000; ++i) {
    numbers.push_back(stream.uniform() * 1e3);
    numbers.push_back(stream.bits());
    numbers.push_back(1.0 / static_cast<double>(1 + stream.below(1'000'000)));
  }
  const std::string text = ullage::dump_json(numbers);
  print(text.substr(0, 200));
  print(ullage::to_hex(ullage::hash128(std::as_bytes(std::span(text)))));
  print(ullage::format_bytes(ullage::Bytes(int64_t{5} << 40)) + " " + ullage::format_thousands(INT64_MAX));
  for (const char* hostile : {"[1,", "{\"a\":1e999}", "\"\\ud800\"", "[[[[[[", "nul"}) {
    const auto parsed = ullage::parse_json(hostile, "check");
    print(parsed ? ullage::dump_json(*parsed) : parsed.error().to_string());
  }
}

// A Qwen3 of 28 layers.
constexpr std::string_view kConfig = R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"],
  "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
  "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960,
  "rms_norm_eps": 1e-06, "rope_theta": 1000000, "tie_word_embeddings": true, "torch_dtype": "bfloat16"})";

// A modelled device serves requests that share prefixes, on a pool so small that some are preempted. Every decision and
// the modelled time of every step are printed.
void print_session(const ullage::model::ModelShape& shape, const char* device_name) {
  using namespace ullage;
  const auto device = hardware::find_device(device_name);
  if (!device) return print(device.error().to_string());
  VirtualClock clock;
  const sim::SeededTokens tokens(shape.vocab_size);
  const sim::ModelledOptions modelled = {.eos_probability = 0.02};
  auto executor = sim::ModelledExecutor::create(shape, *device, modelled, tokens, clock);
  if (!executor) return print(executor.error().to_string());
  engine::EngineOptions options;
  options.num_blocks = 60;
  options.max_model_len = 512;
  options.max_num_seqs = 16;
  options.max_num_batched_tokens = 96;
  engine::Engine engine(options, **executor, clock);
  engine::DecisionLog decisions([](std::string_view line) { print(std::string(line)); });
  engine.set_decision_log(&decisions);
  RandomStream random(11);
  for (int64_t id = 1; id <= 60; ++id) {
    sched::RequestParams request;
    request.id = RequestId(id);
    const auto text = static_cast<TokenId>(random.below(3));
    for (uint64_t i = 0, n = 1 + random.below(200); i < n; ++i) {
      request.prompt.push_back(static_cast<TokenId>(1000 * text + static_cast<TokenId>(i)));
    }
    request.stop.max_tokens = static_cast<int64_t>(1 + random.below(60));
    request.stop.eos_token_ids = {2};
    request.sampling.seed = random.bits();
    request.arrival = clock.now();
    if (const auto accepted = engine.add_request(request); !accepted) print(accepted.error().to_string());
    if (id % 3 == 0) (void)engine.step();
  }
  while (engine.has_work()) {
    const auto did_work = engine.step();
    if (!did_work) return print(did_work.error().to_string());
    print(dump_json(Json(clock.now())));
  }
  print(to_hex(decisions.hash()));
}

template <class T>
const T& pick(ullage::RandomStream& random, const std::vector<T>& of) {
  return of[static_cast<size_t>(random.below(of.size()))];
}

// A scenario as a page would ask: some levers of every kind, legal or not.
std::string random_scenario(ullage::RandomStream& random, const std::vector<std::string>& models,
                            const std::vector<std::string>& devices) {
  ullage::Json json;
  json["model"] = pick(random, models);
  json["device"] = pick(random, devices);
  if (random.below(4) == 0) json["model"] = ullage::Json{{"config", std::string(kConfig)}, {"name", "tiny"}};
  struct Choice {
    const char* key;
    std::vector<ullage::Json> values;
  };
  const Choice choices[] = {
      {"policy", {"vllm", "vllm-0.19", "vllm-0.22", "sglang", "llama.cpp", "ullage", "lesson", "lesson"}},
      {"tensor_parallel", {1, 2, 3, 4, 8}},
      {"pipeline_parallel", {1, 2}},
      {"data_parallel", {1, 4}},
      {"expert_parallel", {true, false}},
      {"prompt", {1, 100, "4k", "32k", "128k", 2500.5}},
      {"output", {1, 64, "1k"}},
      {"concurrency", {1, 8, 256, 5000}},
      {"kv_cache_dtype", {"auto", "bf16", "fp8", "int8_per_token_head", "nvfp4", "q8_0"}},
      {"weights", {"fp8", "int4", "nvfp4", "int8", "q4_k_m"}},
      {"gpu_memory_utilization", {0.5, "90%", 0.99}},
      {"max_model_len", {"8k", "32K", 131072}},
      {"max_num_seqs", {16, 256, 1024}},
      {"max_num_batched_tokens", {512, 8192}},
      {"block_size", {16, 32, 64}},
      {"kv_memory", {"1GiB", "30GiB", 12345678901}},
      {"force_mha", {true}},
      {"users", {10, 500}},
      {"ttft", {"500ms", 2}},
      {"itl", {"30ms"}},
      {"qps", {0.5, 20}},
      {"price", {2.5}},
      {"speculative_tokens", {1, 3}},
      {"bandwidth", {"1TB/s"}},
      {"flops", {"500T"}},
      {"dtype", {"float32", "half"}},
  };
  for (const Choice& choice : choices) {
    if (random.below(5) == 0) json[choice.key] = pick(random, choice.values);
  }
  json["explain"] = random.below(4) == 0;
  return ullage::dump_json(json);
}

void print_plans() {
  using namespace ullage;
  std::vector<std::string> models;
  const auto rows = parse_json(api::answer_document("models", "{}"), "models");
  const auto known = parse_json(api::answer_document("devices", "{}"), "devices");
  if (!rows || !known) return print("no catalogue");
  for (const Json& row : (*rows)["models"]) models.push_back(row["id"].get<std::string>());
  std::vector<std::string> devices;
  for (const Json& device : (*known)["devices"]) devices.push_back(device["id"].get<std::string>());
  print(dump_json(*rows));
  RandomStream random(5, 8);
  std::string before = "{}";
  for (int i = 0; i < 500; ++i) {
    const std::string scenario = random_scenario(random, models, devices);
    print(api::answer_document("plan", scenario));
    if (i % 10 == 0) {
      const std::string sweep = R"({"axes": ["prompt=1k..16k"], "scenario": )" + scenario + "}";
      print(api::answer_document("explain", R"({"before": )" + before + R"(, "after": )" + scenario + "}"));
      print(api::answer_document("sweep", sweep));
      print(api::answer_document("lines", R"({"scenario": )" + scenario + "}"));
    }
    before = scenario;
  }
}

// The lessons' cases, from standard input: figures that came out, and what missed.
void print_lessons() {
  std::string text;
  char buffer[4096];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, stdin)) text.append(buffer, n);
  const auto cases = ullage::observe::run_lesson_cases(text, "lesson-cases.json");
  if (!cases) return print(cases.error().to_string());
  for (const ullage::observe::LessonCase& one : *cases) {
    std::string line = one.id + " " + std::to_string(one.num_figures);
    for (const std::string& miss : one.misses) line += "; " + miss;
    print(line);
  }
}

}  // namespace

int main() {
  print_base();
  print_plans();
  print_lessons();
  const auto shape = ullage::model::parse_config(kConfig, "config.json");
  if (!shape) {
    print(shape.error().to_string());
    return 1;
  }
  print(ullage::api::inspect({.shape = *shape, .path = "config.json", .weights = {}}));
  print_session(*shape, "h100");
  print_session(*shape, "l4");
  return 0;
}
