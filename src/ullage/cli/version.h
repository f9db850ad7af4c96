#pragma once

namespace ullage::cli {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace ullage::cli
