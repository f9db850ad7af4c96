#include "ullage/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ullage {

void check_failed(const char* file, int line, const char* expr, std::string_view message) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s%s%.*s\n", file, line, expr, message.empty() ? "" : ": ",
               static_cast<int>(message.size()), message.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace ullage
