// Runs recorded answers and measurements against what Ullage computes: `ullage check --reference DIR`. A folder is laid
// out as docs/accuracy.md says; sets that it lacks are skipped.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/result.h"

namespace ullage::observe {

// Files are read by the caller: what may be opened is its affair, and the core opens none.
struct ReferenceFiles {
  // The text of a file of the folder ("vllm/plan.jsonl"). kNotFound when there is none.
  std::function<Result<std::string>(const std::string& path)> read;
  // Names of the files in a folder of the folder, sorted; empty when there is none.
  std::function<std::vector<std::string>(const std::string& folder)> list;
};

// A row of an error table.
struct ErrorRow {
  std::string name;  // "KV memory, from scratch", "H100, vLLM, TPOT"
  std::string tier;  // "exact", "modelled", "calibrated"
  int64_t num_rows = 0;
  double median = 0;  // absolute relative error
  double p90 = 0;
  double worst = 0;
};

struct SetResult {
  std::string name;      // "vllm/plan"
  bool is_exact = true;  // every row must pass; else the table says how far off
  bool is_missing = false;
  int64_t passed = 0;
  int64_t total = 0;
  std::vector<std::string> misses;  // the first ones, one line each
  std::vector<std::string> notes;   // rows left out, and why
  std::vector<ErrorRow> table;
};

struct ReferenceReport {
  std::vector<SetResult> sets;
  bool has_miss() const;  // an exact set has one
};

// In this order: lesson-cases, vllm/plan, configs, startups, bootlogs, then the tables (startups and bootlogs from
// scratch, silicon, splitwise).
Result<ReferenceReport> run_reference(const ReferenceFiles& files, int64_t max_misses = 5);

// "vllm/plan: 400/400", misses under it, then the tables.
std::string format_report(const ReferenceReport& report);

}  // namespace ullage::observe
