// The flags of other servers, as far as a plan cares: api/serve_line.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ullage::api {

enum class Server : uint8_t { kVllm, kSglang, kLlamaCpp, kUllage };

// What a flag's value means to a plan.
enum class FlagUse : uint8_t {
  kLever,      // sets the lever `target` to its value
  kSetFlag,    // takes no value, sets the lever `target`
  kClearFlag,  // takes no value, clears the lever `target`
  kModel,      // names the model
  kSkip,       // takes one value, of no interest
  kSkipNone,   // takes none
  kSkipMany,   // takes every word up to the next flag
  kSkipMaybe,  // takes the next word when it is no flag
  kNote,       // takes one value; changes memory or speed and is not modelled: `target` says what
  kNoteNone,   // the same without a value
  kQuantization,
  kSpeculativeConfig,
  kCompilationConfig,
  kCompilationLevel,
  kEnableLora,
  kContext,      // llama.cpp: tokens of all slots
  kSlots,        // llama.cpp
  kUnified,      // llama.cpp
  kGpuLayers,    // llama.cpp
  kTotalTokens,  // SGLang
};

struct ServerFlag {
  std::string_view names;  // "--max-model-len,-c"; '_' and '-' are one
  FlagUse use = FlagUse::kSkip;
  std::string_view target = {};
};

// Those that differ from the levers' own flags, which hold for every server but llama.cpp.
std::span<const ServerFlag> server_flags(Server server);
const ServerFlag* find_server_flag(Server server, std::string_view name);

}  // namespace ullage::api
