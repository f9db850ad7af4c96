#include "ullage/observe/reference_rows.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/model/config.h"
#include "ullage/model/quantization.h"
#include "ullage/observe/log_text.h"

namespace ullage::observe {
namespace {

// Reads one record, which may span lines inside quotes; `line` is left at its last.
std::vector<std::string> read_record(std::string_view text, size_t& at, int64_t& line) {
  std::vector<std::string> cells(1);
  bool is_quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (is_quoted) {
      if (c == '"' && at + 1 < text.size() && text[at + 1] == '"') {
        cells.back() += '"';
        ++at;
      } else if (c == '"') {
        is_quoted = false;
      } else {
        if (c == '\n') ++line;
        cells.back() += c;
      }
    } else if (c == '"') {
      is_quoted = true;
    } else if (c == ',') {
      cells.emplace_back();
    } else if (c == '\n') {
      ++at;
      break;
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

}  // namespace

std::string_view CsvRow::text(std::string_view column) const {
  const auto at = std::find(names_->begin(), names_->end(), column);
  return at == names_->end() ? std::string_view() : (*cells_)[static_cast<size_t>(at - names_->begin())];
}

std::optional<double> CsvRow::number(std::string_view column) const {
  const std::string_view cell = text(column);
  const auto decimal = parse_decimal(cell);
  if (!decimal || decimal->length != cell.size()) return std::nullopt;
  return decimal->value();
}

std::optional<int64_t> CsvRow::count(std::string_view column) const {
  const std::string_view cell = text(column);
  const auto decimal = parse_decimal(cell);
  if (!decimal || decimal->length != cell.size() || decimal->decimals > 0) return std::nullopt;
  return decimal->digits;
}

Result<CsvTable> CsvTable::parse(std::string_view text, std::string_view path) {
  CsvTable table;
  size_t at = 0;
  int64_t line = 1;
  if (text.empty()) return Error{ErrorCode::kCorrupt, "is empty; a header line was expected", std::string(path)};
  table.names_ = read_record(text, at, line);
  while (at < text.size()) {
    Row row;
    row.line = ++line;
    row.cells = read_record(text, at, line);
    if (row.cells.size() == 1 && row.cells[0].empty()) continue;
    if (row.cells.size() != table.names_.size()) {
      return Error{ErrorCode::kCorrupt,
                   fmt::format("has {} cells, the header has {}", row.cells.size(), table.names_.size()),
                   fmt::format("{}:{}", path, row.line)};
    }
    table.rows_.push_back(std::move(row));
  }
  return table;
}

Result<std::vector<Json>> parse_json_lines(std::string_view text, std::string_view path) {
  std::vector<Json> rows;
  std::optional<Error> error;
  for_each_line(text, [&](std::string_view line, int64_t number) {
    if (error || line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    Result<Json> row = parse_json(line, fmt::format("{}:{}", path, number));
    if (!row) {
      error = std::move(row).error();
    } else if (!row->is_object()) {
      error = Error{ErrorCode::kCorrupt, "is no JSON object", fmt::format("{}:{}", path, number)};
    } else {
      rows.push_back(*std::move(row));
    }
  });
  if (error) return *std::move(error);
  return rows;
}

Result<ReferenceModels> ReferenceModels::read(const ReferenceFiles& files) {
  ReferenceModels models;
  models.files_ = &files;
  const Result<std::string> text = files.read("models.csv");
  if (!text)
    return text.error().code == ErrorCode::kNotFound ? Result<ReferenceModels>(std::move(models)) : text.error();
  ULLAGE_TRY(const CsvTable table, CsvTable::parse(*text, "models.csv"));
  for (size_t i = 0; i < table.size(); ++i) {
    const CsvRow row = table.row(i);
    models.models_.emplace(std::string(row.text("name")),
                           MappedModel{std::string(row.text("config")), std::string(row.text("relation")),
                                       std::string(row.text("weight_format"))});
  }
  return models;
}

const MappedModel* ReferenceModels::find(std::string_view name) const {
  const auto at = models_.find(name);
  return at == models_.end() || at->second.config.empty() ? nullptr : &at->second;
}

Result<const model::ModelShape*> ReferenceModels::shape(const MappedModel& model) {
  auto at = shapes_.find(model.config);
  if (at == shapes_.end()) at = shapes_.emplace(model.config, read_shape(*files_, model.config)).first;
  if (!at->second) return at->second.error();
  return &*at->second;
}

Result<model::ModelShape> read_shape(const ReferenceFiles& files, const std::string& path) {
  ULLAGE_TRY(const std::string text, files.read(path));
  ULLAGE_TRY(model::ModelShape shape, model::parse_config(text, path));
  constexpr std::string_view kEnding = ".config.json";
  if (!path.ends_with(kEnding) || !shape.quantization.method.empty()) return shape;
  const std::string beside = path.substr(0, path.size() - kEnding.size()) + ".hf_quant_config.json";
  const Result<std::string> quantized = files.read(beside);
  if (quantized) {
    ULLAGE_TRY(shape.quantization, model::parse_hf_quant_config(*quantized, beside));
  }
  return shape;
}

void SetWriter::miss(std::string what) {
  ++result.total;
  if (static_cast<int64_t>(result.misses.size()) < max_misses) result.misses.push_back(std::move(what));
}

void SetWriter::note(std::string what) {
  if (static_cast<int64_t>(result.notes.size()) < 4 * max_misses) result.notes.push_back(std::move(what));
}

ErrorRow error_row(std::string name, std::string tier, std::vector<double> errors) {
  ErrorRow row;
  row.name = std::move(name);
  row.tier = std::move(tier);
  row.num_rows = static_cast<int64_t>(errors.size());
  if (errors.empty()) return row;
  std::sort(errors.begin(), errors.end());
  const size_t n = errors.size();
  row.median = n % 2 == 1 ? errors[n / 2] : (errors[n / 2 - 1] + errors[n / 2]) / 2;
  row.p90 = errors[std::min(n - 1, (9 * n + 9) / 10 - 1)];  // nearest rank
  row.worst = errors.back();
  return row;
}

}  // namespace ullage::observe
