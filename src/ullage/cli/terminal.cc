#include "ullage/cli/terminal.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

namespace ullage::cli {
namespace {

int g_output_errno = 0;  // of the first failure; written and read by the command's thread

}  // namespace

void open_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) != -1) continue;
    // The lowest free number is this one. Read-only: what is written there still fails.
    if (::open("/dev/null", O_RDONLY) != fd) return;
  }
}

void print_result(std::string_view text) {
  if (g_output_errno != 0) return;
  errno = 0;
  const size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written == text.size() && std::fflush(stdout) == 0) return;
  g_output_errno = errno != 0 ? errno : EIO;
}

void print_progress(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

Result<void> check_output() {
  if (g_output_errno == 0) return {};
  return Error{ErrorCode::kIo, fmt::format("cannot be written: {}", std::strerror(g_output_errno)), "standard output"};
}

}  // namespace ullage::cli
