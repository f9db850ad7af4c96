#include "ullage/cli/device_files.h"

#include <cstdlib>

#include "ullage/base/mapped_file.h"

namespace ullage::cli {

Result<std::vector<hardware::Device>> load_devices(const std::string& file) {
  std::string path = file;
  if (const char* variable = std::getenv("ULLAGE_DEVICES"); path.empty() && variable != nullptr) path = variable;
  if (path.empty()) return hardware::known_devices();
  ULLAGE_TRY(const std::string text, read_text_file(path, int64_t{16} << 20));
  return hardware::merge_devices(hardware::known_devices(), text, path);
}

}  // namespace ullage::cli
