// Prints what the core computes: numbers, hashes, JSON and the decisions of modelled sessions. Built natively and for
// WebAssembly; any difference between the two outputs is a platform leaking into the core.
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

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

}  // namespace

int main() {
  print_base();
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
