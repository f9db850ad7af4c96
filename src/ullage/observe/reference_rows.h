// The reference folder's files as rows: CSV with a header, one JSON a line, and the configs that rows are mapped to.
// Inside observe/.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ullage/base/json_fwd.h"
#include "ullage/model/model_shape.h"
#include "ullage/observe/reference.h"

namespace ullage::observe {

// One row of a CSV, by column name. Views into the table.
class CsvRow {
 public:
  CsvRow(const std::vector<std::string>& names, const std::vector<std::string>& cells, int64_t line)
      : names_(&names), cells_(&cells), line_(line) {}
  std::string_view text(std::string_view column) const;  // "" when there is none
  std::optional<double> number(std::string_view column) const;
  std::optional<int64_t> count(std::string_view column) const;
  int64_t line() const { return line_; }

 private:
  const std::vector<std::string>* names_;
  const std::vector<std::string>* cells_;
  int64_t line_;
};

// Cells may be quoted, quotes within doubled. kCorrupt with path:line for a row of another width than the header's.
class CsvTable {
 public:
  static Result<CsvTable> parse(std::string_view text, std::string_view path);
  size_t size() const { return rows_.size(); }
  CsvRow row(size_t i) const { return CsvRow(names_, rows_[i].cells, rows_[i].line); }

 private:
  struct Row {
    std::vector<std::string> cells;
    int64_t line = 0;
  };
  std::vector<std::string> names_;
  std::vector<Row> rows_;
};

// kCorrupt with path:line for a line that is not one JSON object. Empty lines are skipped.
Result<std::vector<Json>> parse_json_lines(std::string_view text, std::string_view path);

// models.csv: which config stands for a model's name.
struct MappedModel {
  std::string config;    // a path in the folder; empty = not mapped
  std::string relation;  // of the named model to the config's: "same", "quantised copy", "fine-tune", "base"
  std::string weight_format;
};

// Configs are parsed once.
class ReferenceModels {
 public:
  static Result<ReferenceModels> read(const ReferenceFiles& files);
  // Null: the name is not mapped.
  const MappedModel* find(std::string_view name) const;
  // The shape of a mapped model's config.
  Result<const model::ModelShape*> shape(const MappedModel& model);

 private:
  const ReferenceFiles* files_ = nullptr;
  std::map<std::string, MappedModel, std::less<>> models_;
  std::map<std::string, Result<model::ModelShape>, std::less<>> shapes_;
};

// A config.json with the hf_quant_config.json beside it, where there is one.
Result<model::ModelShape> read_shape(const ReferenceFiles& files, const std::string& path);

// Adds a miss to a set: counts it, and keeps its line while there are few.
struct SetWriter {
  SetResult result;
  int64_t max_misses = 5;
  SetWriter(std::string name, int64_t most) : max_misses(most) { result.name = std::move(name); }
  void pass() { ++result.passed, ++result.total; }
  void miss(std::string what);
  void note(std::string what);
};

// Median, 90th percentile and worst of absolute relative errors.
ErrorRow error_row(std::string name, std::string tier, std::vector<double> errors);

// The sets (reference_vllm.cc, reference_startups.cc, reference_bootlogs.cc).
SetResult check_vllm_plan(std::string_view text, std::string_view path, int64_t max_misses);
SetResult check_configs(const ReferenceFiles& files, int64_t max_misses);
SetResult check_startups(const ReferenceFiles& files, ReferenceModels& models, int64_t max_misses);
SetResult check_bootlogs(const ReferenceFiles& files, ReferenceModels& models, int64_t max_misses);

}  // namespace ullage::observe
