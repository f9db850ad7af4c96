#include "ullage/cli/sweep_output.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

#include "ullage/api/text_table.h"
#include "ullage/base/units.h"
#include "ullage/cli/signals.h"
#include "ullage/cli/terminal.h"

namespace ullage::cli {
namespace {

constexpr int64_t kRowsBetweenProgress = 2048;
constexpr int64_t kMaxTextRows = 2000;
constexpr size_t kBufferBytes = 1 << 16;
// Of the answers, those that people compare; CSV and JSON have them all.
constexpr std::string_view kTextColumns[] = {"fit",    "users_fit",    "running",          "limit", "ttft_ms",
                                             "itl_ms", "output_tok_s", "usd_per_m_output", "error"};
constexpr int kExitInterrupted = 130;

// Told on a terminal only: a file of progress is of no use.
class Progress {
 public:
  explicit Progress(int64_t total)
      : total_(total), is_shown_(::isatty(STDERR_FILENO) == 1 && total > kRowsBetweenProgress) {}
  void tell(int64_t done) const {
    if (is_shown_ && done % kRowsBetweenProgress == 0) {
      print_progress(fmt::format("\r{} of {}", format_thousands(done), format_thousands(total_)));
    }
  }
  ~Progress() {
    if (is_shown_) print_progress("\r\033[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  int64_t total_;
  bool is_shown_;
};

// Rows for people, printed at the end since columns line up; empty columns are left out.
class TextRows {
 public:
  explicit TextRows(std::vector<std::string> columns, size_t num_axes) : columns_(std::move(columns)) {
    is_shown_.assign(columns_.size(), false);
    for (size_t i = 0; i < num_axes; ++i) is_shown_[i] = true;
  }
  void add(const std::vector<api::SweepCell>& row) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool is_wanted =
          std::find(std::begin(kTextColumns), std::end(kTextColumns), columns_[i]) != std::end(kTextColumns);
      if (is_wanted && !row[i].text.empty()) is_shown_[i] = true;
    }
    rows_.push_back(row);
  }
  std::string text() const {
    std::vector<size_t> right;
    std::vector<std::string> head;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (!is_shown_[i]) continue;
      const bool is_number = !rows_.empty() && rows_.front()[i].is_number;
      if (is_number) right.push_back(head.size());
      head.push_back(columns_[i]);
    }
    api::TextTable table(right);
    table.add(head);
    for (const auto& row : rows_) {
      std::vector<std::string> cells;
      cells.reserve(row.size());
      for (size_t i = 0; i < row.size(); ++i) {
        if (is_shown_[i]) cells.push_back(row[i].text);
      }
      table.add(std::move(cells));
    }
    return table.text(0);
  }

 private:
  std::vector<std::string> columns_;
  std::vector<bool> is_shown_;
  std::vector<std::vector<api::SweepCell>> rows_;
};

}  // namespace

Result<int> print_sweep(api::Sweep& sweep, SweepFormat format) {
  if (format == SweepFormat::kText && sweep.num_points() > kMaxTextRows) {
    return Error{ErrorCode::kTooLarge,
                 fmt::format("has {} combinations, too many to read; give --csv or --json",
                             format_thousands(sweep.num_points())),
                 "--sweep"};
  }
  std::atomic<bool> is_interrupted = false;
  block_stop_signals();
  const SignalWatcher watcher([&](int) { is_interrupted = true; });
  const Progress progress(sweep.num_points());
  const std::vector<std::string> columns = sweep.columns();
  const auto fit_column = std::find(columns.begin(), columns.end(), "fit") - columns.begin();
  TextRows rows(columns, static_cast<size_t>(fit_column));
  std::string buffer = format == SweepFormat::kCsv ? api::csv_line(columns) : "";
  while (!sweep.is_done() && !is_interrupted && check_output()) {
    const std::vector<api::SweepCell> row = sweep.next();
    if (format == SweepFormat::kText) {
      rows.add(row);
    } else {
      buffer += format == SweepFormat::kCsv ? api::csv_line(row) : api::json_line(columns, row);
    }
    if (buffer.size() >= kBufferBytes) print_result(std::exchange(buffer, ""));
    progress.tell(sweep.next_point());
  }
  print_result(format == SweepFormat::kText ? rows.text() : buffer);
  ULLAGE_TRY_VOID(check_output());
  if (!is_interrupted) return 0;
  print_progress(fmt::format("interrupted after {} of {} combinations\n", format_thousands(sweep.next_point()),
                             format_thousands(sweep.num_points())));
  return kExitInterrupted;
}

}  // namespace ullage::cli
