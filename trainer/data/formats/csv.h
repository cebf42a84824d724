// Reads tables of numbers: comma-separated values with a header, one sample a line. Unlike RFC
// 4180, a quoted field holds no quote and no line feed, and lines may end in a line feed alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "trainer/data/dataset.h"

namespace lockstep::train {

struct CsvTable {
  std::vector<std::string> names;    // of the columns, without the label
  std::int64_t columns = 0;          // without the label
  std::vector<float> features;       // rows,columns
  std::vector<std::int32_t> labels;  // rows; empty with LabelKind::kNumbers
  std::vector<float> targets;        // rows; empty if labels are classes
};

// Reads a text whose first line names the columns. The column `label` has classes from 0 to
// kMaxLabel, or finite numbers with LabelKind::kNumbers, all others finite numbers. Names and
// numbers may be in double quotes; lines end in \n or \r\n. DataLoss names `path`, the line, the
// column, what was found and what is expected.
absl::StatusOr<CsvTable> ParseCsv(std::string_view text, const std::string& label,
                                  const std::string& path, LabelKind labels = LabelKind::kClasses);

// Puts the columns into the order of `names`. DataLoss names `path` and a column that one of the
// two lacks. Equal lists are in order, even if a name occurs twice.
absl::Status OrderColumns(std::span<const std::string> names, const std::string& path,
                          CsvTable& table);

// Opens train.csv or test.csv (or the same with .gz) in `folder` and keeps it in memory. Samples
// are float32 of shape [columns], in the order of train.csv's columns if that is present. NotFound
// names the files looked for; DataLoss is that of ParseCsv and OrderColumns.
absl::StatusOr<std::unique_ptr<Dataset>> OpenCsv(const std::string& folder,
                                                 const api::CsvSpec& spec, Split split,
                                                 LabelKind labels = LabelKind::kClasses);

// The bytes of a table of so many rows, with a label in each.
std::size_t BytesOfTable(std::int64_t rows, std::int64_t columns);

}  // namespace lockstep::train
