#include "ullage/base/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#if !defined(__wasi__)
#include <sys/mman.h>
#endif

#include <fmt/format.h>

namespace ullage {
namespace {

// Owns a file descriptor for the length of a call.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Error io_error(const std::string& path, const char* what) {
  const int e = errno;
  return Error{e == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
               fmt::format("cannot {}: {}", what, std::strerror(e)), path};
}

Result<int64_t> open_regular(const std::string& path, Descriptor& out) {
  // O_NONBLOCK: opening a named pipe would wait for its writer. Regular files do not heed it.
  out.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (out.fd < 0) return io_error(path, "open the file");
  struct stat info{};
  if (::fstat(out.fd, &info) != 0) return io_error(path, "read the file's size");
  if (!S_ISREG(info.st_mode)) return Error{ErrorCode::kInvalidArgument, "is not a regular file", path};
  return static_cast<int64_t>(info.st_size);
}

Result<void> read_exactly(const std::string& path, int fd, void* data, size_t size) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = ::read(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(path, "read the file");
    if (n == 0) return Error{ErrorCode::kIo, "became shorter while it was read", path};
    at += n;
    size -= static_cast<size_t>(n);
  }
  return {};
}

}  // namespace

struct MappedFile::State {
  std::string path;
  std::span<const std::byte> bytes;
  std::vector<std::byte> copy;  // used where the platform cannot map
  bool is_mapped = false;

  ~State() {
#if !defined(__wasi__)
    if (is_mapped) ::munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
#endif
  }
};

MappedFile::MappedFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
MappedFile::MappedFile(MappedFile&&) noexcept = default;
MappedFile& MappedFile::operator=(MappedFile&&) noexcept = default;
MappedFile::~MappedFile() = default;

Result<MappedFile> MappedFile::open(const std::string& path) {
  Descriptor file;
  ULLAGE_TRY(const int64_t size, open_regular(path, file));
  auto state = std::make_unique<State>();
  state->path = path;
  if (size > 0) {
#if defined(__wasi__)
    state->copy.resize(static_cast<size_t>(size));
    ULLAGE_TRY_VOID(read_exactly(path, file.fd, state->copy.data(), state->copy.size()));
    state->bytes = state->copy;
#else
    void* data = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (data == MAP_FAILED) return io_error(path, "map the file");
    state->bytes = {static_cast<const std::byte*>(data), static_cast<size_t>(size)};
    state->is_mapped = true;
#endif
  }
  return MappedFile(std::move(state));
}

std::span<const std::byte> MappedFile::bytes() const { return state_->bytes; }
const std::string& MappedFile::path() const { return state_->path; }

Result<std::string> read_text_file(const std::string& path, int64_t max_bytes) {
  Descriptor file;
  ULLAGE_TRY(const int64_t size, open_regular(path, file));
  if (size > max_bytes) {
    return Error{ErrorCode::kTooLarge, fmt::format("has {} bytes, over the limit of {}", size, max_bytes), path};
  }
  std::string text(static_cast<size_t>(size), '\0');
  ULLAGE_TRY_VOID(read_exactly(path, file.fd, text.data(), text.size()));
  return text;
}

}  // namespace ullage
