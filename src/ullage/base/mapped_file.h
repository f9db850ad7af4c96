// A file's bytes, read-only: memory-mapped where the platform can, read into memory elsewhere (WebAssembly).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "ullage/base/result.h"

namespace ullage {

// Movable. The bytes live as long as the object. Any thread may read them.
// A file that shrinks under a mapping faults; model files are expected to stay as they are while in use.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const;
  const std::string& path() const;

 private:
  struct State;
  explicit MappedFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The whole of a small text file; over `max_bytes` is an Error.
Result<std::string> read_text_file(const std::string& path, int64_t max_bytes);

}  // namespace ullage
