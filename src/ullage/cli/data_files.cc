#include "ullage/cli/data_files.h"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ullage::cli {
namespace fs = std::filesystem;

Result<std::string> find_data_file(const std::string& name) {
  std::vector<std::string> tried;
  if (const char* dir = std::getenv("ULLAGE_DATA_DIR"); dir != nullptr && *dir != '\0') {
    tried.push_back((fs::path(dir) / name).string());
  }
  std::error_code ignored;
  const fs::path bin = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  if (!bin.empty()) {
    tried.push_back((bin.parent_path() / "share" / "ullage" / name).string());    // <prefix>/bin/ullage
    tried.push_back((bin.parent_path().parent_path() / "data" / name).string());  // build/<preset>/ullage
  }
  for (const std::string& path : tried) {
    if (fs::exists(path, ignored)) return path;
  }
  return Error{ErrorCode::kNotFound,
               fmt::format("cannot find {} (looked at {}); set ULLAGE_DATA_DIR to the folder that has it", name,
                           fmt::join(tried, ", ")),
               "data"};
}

}  // namespace ullage::cli
