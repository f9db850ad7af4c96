// The sets that state errors rather than pass: published times of steps, and start-ups from nothing but model, flags
// and device.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/cost/measured_row.h"
#include "ullage/hardware/device.h"
#include "ullage/observe/reference_rows.h"
#include "ullage/observe/reference_tables.h"

namespace ullage::observe {
namespace {

double relative_error(double found, double wanted) { return std::abs(found / wanted - 1); }

// Errors by name, in the order of names.
using Errors = std::map<std::string, std::vector<double>>;

void add_rows(Errors errors, const char* tier, SetResult& result) {
  for (auto& [name, values] : errors) result.table.push_back(error_row(name, tier, std::move(values)));
}

cost::MeasuredRow measured(const CsvRow& row) {
  cost::MeasuredRow measured;
  measured.backend = row.text("backend");
  measured.system = row.text("system");
  measured.precision = row.text("precision");
  measured.prompt_tokens = row.count("isl").value_or(0);
  measured.output_tokens = row.count("osl").value_or(0);
  measured.batch_size = row.count("batch_size").value_or(0);
  measured.tp_size = row.count("tp_size").value_or(0);
  measured.pp_size = row.count("pp_size").value_or(0);
  measured.attention_dp_size = row.count("attention_dp_size").value_or(0);
  measured.moe_tp_size = row.count("moe_tp_size").value_or(0);
  measured.moe_ep_size = row.count("moe_ep_size").value_or(0);
  return measured;
}

struct Silicon {
  ReferenceModels& models;
  const std::vector<hardware::Device> devices = hardware::known_devices();
  std::map<std::string, Result<model::ModelShape>> shapes = {};  // by config and precision
  Errors modelled = {};
  Errors calibrated = {};

  Result<void> add(const CsvRow& row) {
    const MappedModel* mapped = models.find(row.text("model_path"));
    if (mapped == nullptr)
      return Error{ErrorCode::kNotFound, "no config is known", std::string(row.text("model_path"))};
    const cost::MeasuredRow measurement = measured(row);
    const std::string key = mapped->config + " " + measurement.precision;
    auto at = shapes.find(key);
    if (at == shapes.end()) {
      const Result<const model::ModelShape*> stored = models.shape(*mapped);
      at = shapes
               .emplace(key, stored ? cost::shape_in_precision(**stored, measurement.precision)
                                    : Result<model::ModelShape>(stored.error()))
               .first;
    }
    if (!at->second) return at->second.error();
    ULLAGE_TRY(const cost::RowSetting setting, cost::row_setting(measurement));
    ULLAGE_TRY(const hardware::Device device, hardware::find_device(setting.device, devices));
    ULLAGE_TRY(const cost::RowPredictions found, cost::predict_row(*at->second, device, measurement, 0));
    const double tpot = row.number("silicon_tpot_ms").value_or(0) / 1000;
    const double ttft = row.number("silicon_ttft_ms").value_or(0) / 1000;
    const std::string name = fmt::format("{} {}", measurement.system, measurement.backend);
    if (tpot > 0) {
      modelled["TPOT " + name].push_back(relative_error(found.modelled.tpot_seconds, tpot));
      calibrated["TPOT " + name].push_back(relative_error(found.calibrated.tpot_seconds, tpot));
      modelled["TPOT all"].push_back(relative_error(found.modelled.tpot_seconds, tpot));
      calibrated["TPOT all"].push_back(relative_error(found.calibrated.tpot_seconds, tpot));
    }
    if (ttft > 0) {
      modelled["TTFT " + name].push_back(relative_error(found.modelled.ttft_seconds, ttft));
      calibrated["TTFT " + name].push_back(relative_error(found.calibrated.ttft_seconds, ttft));
      modelled["TTFT all"].push_back(relative_error(found.modelled.ttft_seconds, ttft));
      calibrated["TTFT all"].push_back(relative_error(found.calibrated.ttft_seconds, ttft));
    }
    return {};
  }
};

struct Splitwise {
  const std::vector<hardware::Device> devices = hardware::known_devices();
  Errors modelled = {};
  Errors calibrated = {};

  Result<void> add(const CsvRow& row) {
    const std::string_view name = row.text("hardware");
    if (name.ends_with("-pcap")) return Error{ErrorCode::kUnsupported, "its power is capped", std::string(name)};
    ULLAGE_TRY(const model::ModelShape shape, cost::splitwise_shape(row.text("model")));
    ULLAGE_TRY(const hardware::Device device, hardware::find_device(name, devices));
    const auto predict = [&](const cost::Efficiency& efficiency) {
      return cost::predict_batch(shape, device, efficiency, row.count("tensor_parallel").value_or(1),
                                 row.count("batch_size").value_or(1), row.count("prompt_size").value_or(0),
                                 row.count("token_size").value_or(0));
    };
    ULLAGE_TRY(const cost::BatchPrediction plain, predict(cost::Efficiency{}));
    ULLAGE_TRY(const cost::BatchPrediction fitted, predict(cost::find_calibration("splitwise", device.id).efficiency));
    const double prompt = row.number("prompt_time").value_or(0) / 1000;
    const double token = row.number("token_time").value_or(0) / 1000;
    if (prompt > 0) {
      modelled[fmt::format("prompts {}", name)].push_back(relative_error(plain.prompt_seconds, prompt));
      calibrated[fmt::format("prompts {}", name)].push_back(relative_error(fitted.prompt_seconds, prompt));
    }
    if (token > 0) {
      modelled[fmt::format("tokens {}", name)].push_back(relative_error(plain.token_seconds, token));
      calibrated[fmt::format("tokens {}", name)].push_back(relative_error(fitted.token_seconds, token));
    }
    return {};
  }
};

// Runs every row of a file through `set.add`; rows that cannot be priced are counted by their reason.
template <class Set>
SetResult table_of(const ReferenceFiles& files, const char* name, const std::string& path, Set& set) {
  SetResult result;
  result.name = name;
  result.is_exact = false;
  const Result<std::string> text = files.read(path);
  if (!text) {
    result.is_missing = true;
    return result;
  }
  const Result<CsvTable> table = CsvTable::parse(*text, path);
  if (!table) {
    result.misses.push_back(table.error().to_string());
    return result;
  }
  std::map<std::string, int64_t> left_out;
  for (size_t i = 0; i < table->size(); ++i) {
    ++result.total;
    const Result<void> added = set.add(table->row(i));
    if (added) {
      ++result.passed;
    } else {
      ++left_out[added.error().to_string()];
    }
  }
  for (const auto& [reason, count] : left_out) result.notes.push_back(fmt::format("{} rows: {}", count, reason));
  add_rows(std::move(set.modelled), "modelled", result);
  add_rows(std::move(set.calibrated), "calibrated", result);
  return result;
}

}  // namespace

SetResult silicon_table(const ReferenceFiles& files, ReferenceModels& models) {
  Silicon silicon{.models = models};
  return table_of(files, "silicon", "silicon/aggregated.csv", silicon);
}

SetResult splitwise_table(const ReferenceFiles& files) {
  Splitwise splitwise;
  return table_of(files, "splitwise", "splitwise/perf_model.csv", splitwise);
}

}  // namespace ullage::observe
