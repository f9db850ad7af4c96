// How a function says that its input was bad: Result<T>, never an exception.
//
// Three kinds of "no" are kept apart (see ARCHITECTURE.md, "Errors"):
//   * bad input (file, flag, request, trace row): a Result with an Error that says what, where and what to do;
//   * running out of blocks: a normal answer (false, nullopt or a shorter plan), not an Error;
//   * a broken invariant: ULLAGE_CHECK.
#pragma once

#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace ullage {

enum class ErrorCode {
  kInvalidArgument,  // a flag, field or file says something it may not say
  kNotFound,         // a path or name does not exist
  kCorrupt,          // a file breaks its own format: truncated, overlapping, out of bounds
  kUnsupported,      // valid, but Ullage does not do it (yet); the message names it
  kTooLarge,         // over a stated limit; the message has both numbers
  kUnavailable,      // cannot be taken now, may be later (queue full, shutting down)
  kIo,               // the operating system said no
  kInternal,         // ours; report it
};

// The name of a code as used in JSON ("invalid_argument", "not_found", ...).
const char* to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // a sentence: what was found, what was expected, what to do
  std::string where;    // "path:line", "path: byte 123", JSON pointer, flag; may be empty

  // "where: message", or the message alone.
  std::string to_string() const;
};

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
  using Base = tl::expected<T, Error>;

 public:
  using Base::Base;
  // Lets a function `return Error{...};`.
  Result(Error error) : Base(tl::unexpect, std::move(error)) {}
  Result(const Base& base) : Base(base) {}
  Result(Base&& base) : Base(std::move(base)) {}
};

}  // namespace ullage

// Returns the error of `expr` from the enclosing function, or binds its value: ULLAGE_TRY(auto x, f());
#define ULLAGE_TRY_CAT2(a, b) a##b
#define ULLAGE_TRY_CAT(a, b) ULLAGE_TRY_CAT2(a, b)
#define ULLAGE_TRY_IMPL(tmp, decl, ...)    \
  auto tmp = (__VA_ARGS__);                \
  if (!tmp) return std::move(tmp).error(); \
  decl = *std::move(tmp)
#define ULLAGE_TRY(decl, ...) ULLAGE_TRY_IMPL(ULLAGE_TRY_CAT(ullage_try_, __LINE__), decl, __VA_ARGS__)
// The same for Result<void>.
#define ULLAGE_TRY_VOID(...)                                                                      \
  do {                                                                                            \
    if (auto ullage_try_r = (__VA_ARGS__); !ullage_try_r) return std::move(ullage_try_r).error(); \
  } while (0)
