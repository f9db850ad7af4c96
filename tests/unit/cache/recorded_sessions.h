// Reads recorded vLLM sessions (JSON lines: config, then operations with the answers vLLM gave).
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ullage/base/ids.h"
#include "ullage/base/json.h"

namespace ullage::test {

// `name` in tests/data/vllm, or in the folder that ULLAGE_VLLM_SESSIONS names (a larger set of the same layout).
inline std::vector<Json> read_sessions(const std::string& name) {
  const char* folder = std::getenv("ULLAGE_VLLM_SESSIONS");
  const std::string path = (folder ? std::string(folder) : ULLAGE_SOURCE_DIR "/tests/data/vllm") + "/" + name;
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  std::vector<Json> sessions;
  for (std::string line; std::getline(in, line);) {
    auto session = parse_json(line, path);
    EXPECT_TRUE(session.has_value());
    if (session) sessions.push_back(*std::move(session));
  }
  return sessions;
}

inline std::vector<TokenId> tokens_of(const Json& op) { return op.at("tokens").get<std::vector<TokenId>>(); }

}  // namespace ullage::test
