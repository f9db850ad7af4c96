#include "ullage/base/log.h"

#include <utility>

namespace ullage {
namespace {

LogHook& hook() {
  static LogHook instance;
  return instance;
}

}  // namespace

void set_log_hook(LogHook new_hook) { hook() = std::move(new_hook); }

void log(LogLevel level, std::string_view message) {
  if (hook()) hook()(level, message);
}

}  // namespace ullage
