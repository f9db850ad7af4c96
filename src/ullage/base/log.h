// Core code does not print. What has no Event yet and must still be told (a file's odd but harmless field, a knob that
// was changed) goes through this hook; cli/ and serve/ install one that writes to the log.
#pragma once

#include <functional>
#include <string_view>

namespace ullage {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
using LogHook = std::function<void(LogLevel, std::string_view)>;

// Installs the hook; without one, messages are dropped. Call before other threads start.
void set_log_hook(LogHook hook);
// Any thread.
void log(LogLevel level, std::string_view message);

}  // namespace ullage
