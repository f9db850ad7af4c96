// A plan against the start-up log of what was planned, term by term.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ullage/observe/startup_log.h"
#include "ullage/plan/evaluate.h"

namespace ullage::observe {

enum class TermUnit : uint8_t { kBytes, kTokens, kBlocks, kRequests };

struct TermComparison {
  std::string name;  // "weights", "activation peak", "KV memory", "blocks", "tokens", "concurrency"
  TermUnit unit = TermUnit::kBytes;
  double predicted = 0;
  double logged = 0;
  double tolerance = 0;  // what the plan says of its own error, and half a step of the printed digits
  int64_t line = 0;
  plan::Tier tier = plan::Tier::kExact;
  bool is_off = false;  // the difference is over the tolerance
  std::string cause;    // what usually causes it, when it is off
};

struct Comparison {
  std::vector<TermComparison> terms;  // those that the log prints, in the order of the budget
  std::string sentence;               // which term is off most, or that all agree
};

// `from_logged_memory`: an evaluation of the same scenario with the logged KV memory given, for the exact terms; may be
// null.
Comparison compare(const StartupLog& log, const plan::Evaluation& predicted,
                   const plan::Evaluation* from_logged_memory = nullptr);

}  // namespace ullage::observe
