#include "ullage/model/config_readers.h"

#include "ullage/model/decoder_rules.h"

namespace ullage::model {
namespace {

struct Row {
  const char* model_type;
  ConfigReader read;
};

// Families with a reader of their own; the others are rows of decoder_rules.cc.
constexpr Row kReaders[] = {
    {"", nullptr},
};

}  // namespace

ConfigReader find_config_reader(std::string_view model_type) {
  if (model_type.empty()) return nullptr;
  for (const Row& row : kReaders) {
    if (model_type == row.model_type) return row.read;
  }
  return find_decoder_rules(model_type) != nullptr ? read_decoder : nullptr;
}

}  // namespace ullage::model
