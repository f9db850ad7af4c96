// ULLAGE_CHECK stops the program when one of our own invariants is broken. User input must never reach one.
#pragma once

#include <string_view>

namespace ullage {

// Prints "file:line: CHECK failed: expr: message" to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* expr, std::string_view message);

}  // namespace ullage

#define ULLAGE_CHECK_MSG(cond, message)                           \
  do {                                                            \
    if (!(cond)) [[unlikely]]                                     \
      ::ullage::check_failed(__FILE__, __LINE__, #cond, message); \
  } while (0)
#define ULLAGE_CHECK(cond) ULLAGE_CHECK_MSG(cond, "")

// As ULLAGE_CHECK in builds without NDEBUG, nothing otherwise; for hot loops.
#ifdef NDEBUG
#define ULLAGE_DCHECK(cond) ((void)sizeof(cond))
#else
#define ULLAGE_DCHECK(cond) ULLAGE_CHECK(cond)
#endif
