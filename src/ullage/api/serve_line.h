// A server's command line as levers of a plan: what others run is what people paste.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/api/levers.h"
#include "ullage/base/result.h"

namespace ullage::api {

struct ServeLine {
  std::string policy;  // "vllm", "sglang", "llama.cpp", "ullage"
  std::string model;   // as the line names it
  LeverSettings levers;
  // What was left out and why, a sentence each: a flag that changes memory and is not modelled, an unknown flag.
  std::vector<std::string> notes;
};

// `vllm serve M --flags`, `python -m vllm.entrypoints.openai.api_server`, `python -m sglang.launch_server`, `sglang
// serve`, `llama-server`, `llama-cli`, `ullage serve`, and `docker run ... IMAGE ARGS` of their images; variables,
// wrappers (env, sudo, nohup) and paths before the program are skipped. Flags that do not matter for memory or speed
// are dropped, unknown ones named in a note; a malformed value of a known one is kInvalidArgument.
Result<ServeLine> parse_serve_line(std::string_view line, std::string_view where);
Result<ServeLine> parse_serve_words(std::span<const std::string> words, std::string_view where);

// The command line that starts `policy`'s server ("vllm", "sglang", "llama.cpp", "ullage") with the levers that it has;
// those it lacks are named in `notes`. kUnsupported for a policy that has no server.
struct PrintedLine {
  std::string line;
  std::vector<std::string> notes;
};
Result<PrintedLine> print_serve_line(std::string_view policy, std::string_view model, const LeverSettings& levers);

}  // namespace ullage::api
