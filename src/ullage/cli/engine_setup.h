// From flags and a model to a running engine: sizes the pool, builds the executor, and keeps all of it together.
#pragma once

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "ullage/base/clock.h"
#include "ullage/base/result.h"
#include "ullage/cli/engine_args.h"
#include "ullage/cli/loaded_model.h"
#include "ullage/engine/decision_log.h"
#include "ullage/engine/engine.h"
#include "ullage/memory/footprint.h"
#include "ullage/memory/kv_layout.h"
#include "ullage/sim/token_source.h"

namespace ullage::cli {

// Members are destroyed in reverse: the engine before what it uses.
struct EngineSetup {
  engine::EngineOptions options;
  std::string kv_cache_dtype;  // "bf16"
  memory::Footprint footprint;
  Bytes block;  // of the pool
  memory::KvCapacity capacity;
  std::unique_ptr<Clock> clock;
  std::unique_ptr<std::ofstream> decision_log_file;
  std::unique_ptr<engine::DecisionLog> decision_log;
  std::unique_ptr<sim::TokenSource> filler;  // what a modelled device says
  std::unique_ptr<engine::Executor> executor;
  std::unique_ptr<engine::Engine> engine;
};

// The model outlives the setup. Knobs that had to change (a smaller max_model_len, a capped pool) are logged.
Result<std::unique_ptr<EngineSetup>> make_engine(const EngineArgs& args, const LoadedModel& model);

// kIo when some line of --decision-log did not reach its file. Call when the engine has ended.
Result<void> check_decision_log(EngineSetup& setup);

// One line a memory role, then vLLM's capacity line.
std::vector<std::string> boot_lines(const EngineSetup& setup);

}  // namespace ullage::cli
