#include "ullage/observe/startup_log.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "ullage/observe/log_text.h"

namespace ullage::observe {
namespace {

struct Reader {
  memory::Engine engine;
  bool (*read)(std::string_view line, int64_t number, StartupLog& log);
};
constexpr std::array kReaders{Reader{memory::Engine::kVllm, read_vllm_line},
                              Reader{memory::Engine::kSglang, read_sglang_line},
                              Reader{memory::Engine::kLlamaCpp, read_llama_line}};

}  // namespace

Result<StartupLog> read_startup_log(std::string_view text, std::string_view where) {
  const std::string plain = plain_text(text);
  std::array<StartupLog, kReaders.size()> logs;
  std::array<int64_t, kReaders.size()> found{};
  const int64_t num_lines = for_each_line(plain, [&](std::string_view line, int64_t number) {
    for (size_t i = 0; i < kReaders.size(); ++i) {
      if (kReaders[i].read(line, number, logs[i])) ++found[i];
    }
  });
  size_t best = 0;
  for (size_t i = 1; i < kReaders.size(); ++i) {
    if (found[i] > found[best]) best = i;
  }
  if (found[best] == 0) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("none of {} lines is from a start of vLLM (\"Available KV cache memory\", \"GPU KV cache "
                    "size\", \"# GPU blocks\"), SGLang (\"KV Cache is allocated\", \"max_total_num_tokens=\") or "
                    "llama.cpp (\"load_tensors: ... buffer size\", \"llama_kv_cache: size\"); give the log from "
                    "the engine's start on",
                    num_lines),
        std::string(where)};
  }
  StartupLog log = std::move(logs[best]);
  log.engine = kReaders[best].engine;
  log.num_lines = num_lines;
  return log;
}

}  // namespace ullage::observe
