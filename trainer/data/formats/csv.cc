#include "trainer/data/formats/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "trainer/data/file_bytes.h"
#include "trainer/data/folder.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kMaxColumns = 65'536, kMaxShown = 40;
constexpr std::size_t kMaxHeaderLine =
    kMaxColumns * 256;  // bytes that are searched for the first line

std::string ShownText(std::string_view text) {
  std::string shown(text.substr(0, kMaxShown));
  std::ranges::replace_if(shown, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text.size() > kMaxShown ? shown + "..." : shown;
}

// Takes the next line from the front of `text`, without its end.
std::string_view TakeLine(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// Takes the next field from the front of `line`, which is nullopt after the last one.
std::string_view TakeField(std::optional<std::string_view>& line) {
  const bool is_quoted = line->starts_with('"');
  const std::size_t quote = is_quoted ? line->find('"', 1) : std::string_view::npos;
  const std::size_t end = line->find(',', quote == std::string_view::npos ? 0 : quote);
  std::string_view field = line->substr(0, end);
  if (end == std::string_view::npos) {
    line.reset();
  } else {
    line->remove_prefix(end + 1);
  }
  if (field.size() >= 2 && is_quoted && field.ends_with('"'))
    return field.substr(1, field.size() - 2);
  while (field.starts_with(' ')) field.remove_prefix(1);
  while (field.ends_with(' ')) field.remove_suffix(1);
  return field;
}

class CsvParser {
 public:
  CsvParser(std::string_view text, const std::string& path, LabelKind labels)
      : text_(text), path_(path), labels_(labels) {}

  absl::StatusOr<CsvTable> Parse(const std::string& label) {
    SkipByteOrderMark();
    LOCKSTEP_RETURN_IF_ERROR(ReadHeader(label));
    CsvTable table{.names = FeatureNames(), .columns = std::ssize(names_) - 1};
    while (!text_.empty()) {
      ++line_;
      const std::string_view line = TakeLine(text_);
      if (line.empty() && text_.find_first_not_of("\r\n") == std::string_view::npos) break;
      if (line.empty()) return Fault("an empty line", fmt::format("{} fields", names_.size()));
      LOCKSTEP_RETURN_IF_ERROR(ReadRow(line, table));
    }
    if (table.features.empty()) return Fault("no rows", "at least one below the header");
    return table;
  }

  // Only the header's.
  absl::StatusOr<std::vector<std::string>> ParseNames(const std::string& label) {
    SkipByteOrderMark();
    LOCKSTEP_RETURN_IF_ERROR(ReadHeader(label));
    return FeatureNames();
  }

 private:
  void SkipByteOrderMark() {
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  }

  std::vector<std::string> FeatureNames() const {
    std::vector<std::string> names(names_.begin(), names_.end());
    names.erase(names.begin() + static_cast<std::ptrdiff_t>(label_));
    return names;
  }

  absl::Status Fault(const std::string& found, const std::string& expected) const {
    return absl::DataLossError(
        fmt::format("{}: line {}: found {}, expected {}", path_, line_, found, expected));
  }
  absl::Status ColumnFault(std::size_t column, std::string_view found, const char* expected) const {
    return absl::DataLossError(fmt::format("{}: line {}, column \"{}\": found \"{}\", expected {}",
                                           path_, line_, ShownText(names_[column]),
                                           ShownText(found), expected));
  }

  absl::Status ReadHeader(const std::string& label) {
    std::optional<std::string_view> line = TakeLine(text_);
    while (line) {
      names_.push_back(TakeField(line));
      if (names_.size() > kMaxColumns) {
        return Fault("more columns", fmt::format("at most {}", kMaxColumns));
      }
    }
    if (names_.size() < 2 || std::ranges::count(names_, label) != 1) {
      return Fault(fmt::format("a header of {} columns, {} of them named \"{}\"", names_.size(),
                               std::ranges::count(names_, label), label),
                   "the label's column, spec.training.dataset.csv.labelColumn, once, and at least "
                   "one other");
    }
    label_ = static_cast<std::size_t>(std::ranges::find(names_, label) - names_.begin());
    return absl::OkStatus();
  }

  absl::Status ReadRow(std::string_view text, CsvTable& table) {
    std::optional<std::string_view> line = text;
    std::size_t column = 0;
    for (; line; ++column) {
      const std::string_view field = TakeField(line);
      if (column >= names_.size()) continue;
      if (column == label_ && labels_ != LabelKind::kNumbers) {
        LOCKSTEP_RETURN_IF_ERROR(ReadLabel(field, table));
      } else {
        LOCKSTEP_RETURN_IF_ERROR(
            ReadNumber(column, field, column == label_ ? table.targets : table.features));
      }
    }
    if (column == names_.size()) return absl::OkStatus();
    return Fault(fmt::format("{} fields", column),
                 fmt::format("{}, as in the header", names_.size()));
  }

  absl::Status ReadLabel(std::string_view field, CsvTable& table) const {
    std::int32_t label = -1;
    const char* const end = field.data() + field.size();
    const auto read = std::from_chars(field.data(), end, label);
    if (read.ec != std::errc() || read.ptr != end || label < 0 || label > kMaxLabel) {
      return ColumnFault(label_, field, "a class, an integer from 0 to 999999");
    }
    table.labels.push_back(label);
    return absl::OkStatus();
  }

  absl::Status ReadNumber(std::size_t column, std::string_view field,
                          std::vector<float>& numbers) const {
    const char* const end = field.data() + field.size();
    const std::size_t sign = field.starts_with('+') ? 1 : 0;  // from_chars does not take it
    const bool has_two_signs = sign == 1 && field.substr(1).starts_with('-');
    double value = 0;
    const auto read = std::from_chars(field.data() + sign, end, value);
    // from_chars does not say whether the number is too large or too small.
    if (read.ec == std::errc::result_out_of_range) {
      value = std::strtod(std::string(field).c_str(), nullptr);
    }
    const auto narrow = static_cast<float>(value);
    if (read.ec == std::errc::invalid_argument || read.ptr != end || has_two_signs ||
        !std::isfinite(narrow)) {
      return ColumnFault(column, field, "a finite number");
    }
    numbers.push_back(narrow);
    return absl::OkStatus();
  }

  std::string_view text_;
  const std::string& path_;
  const LabelKind labels_;
  std::int64_t line_ = 1;
  std::vector<std::string_view> names_;
  std::size_t label_ = 0;
};

class CsvDataset final : public Dataset {
 public:
  CsvDataset(std::string path, CsvTable table)
      : path_(std::move(path)),
        table_(std::move(table)),
        shape_{table_.columns},
        classes_(table_.labels.empty() ? 1 : *std::ranges::max_element(table_.labels) + 1) {}

  std::int64_t size() const override { return std::ssize(table_.features) / table_.columns; }
  const Shape& sample_shape() const override { return shape_; }
  DType element() const override { return DType::kFloat32; }
  std::int64_t classes() const override { return classes_; }
  std::int64_t targets() const override { return table_.targets.empty() ? 0 : 1; }
  void ReadTargets(std::int64_t index, std::span<float> numbers) const override {
    LOCKSTEP_CHECK(index >= 0 && index < size() && numbers.size() == 1, "sample {} of {}", index,
                   size());
    numbers[0] = table_.targets[static_cast<std::size_t>(index)];
  }
  std::string PlaceOf(std::int64_t index) const override {
    return fmt::format("{}: line {}", path_, index + 2);  // below the header
  }
  bool InMemory() const override { return true; }

  absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                    std::span<std::uint8_t> sample) const override {
    LOCKSTEP_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
    LOCKSTEP_CHECK(sample.size() == sample_bytes(), "room for {} bytes, a sample has {}",
                   sample.size(), sample_bytes());
    std::memcpy(sample.data(), table_.features.data() + index * table_.columns, sample.size());
    return table_.labels.empty() ? 0 : table_.labels[static_cast<std::size_t>(index)];
  }

 private:
  const std::string path_;
  const CsvTable table_;
  const Shape shape_;
  const std::int64_t classes_;
};

std::string_view TextOf(const FileBytes& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

absl::StatusOr<std::string> PathOf(const std::string& folder, Split split) {
  const std::string name = split == Split::kTrain ? "train" : "test";
  return FindDataFile(folder, name + " samples", {name + ".csv", name + ".csv.gz"});
}

// NotFound: there is no train.csv. Unavailable: it cannot be read now.
absl::StatusOr<std::vector<std::string>> TrainingNames(const std::string& folder,
                                                       const api::CsvSpec& spec) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string path, PathOf(folder, Split::kTrain));
  LOCKSTEP_ASSIGN_OR_RETURN(const FileBytes head, FileBytes::OpenHead(path, kMaxHeaderLine));
  return CsvParser(TextOf(head), path, LabelKind::kClasses).ParseNames(spec.label_column);
}

}  // namespace

absl::StatusOr<CsvTable> ParseCsv(std::string_view text, const std::string& label,
                                  const std::string& path, LabelKind labels) {
  return CsvParser(text, path, labels).Parse(label);
}

absl::Status OrderColumns(std::span<const std::string> names, const std::string& path,
                          CsvTable& table) {
  if (std::ranges::equal(names, table.names)) return absl::OkStatus();
  std::multimap<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < table.names.size(); ++i) places.emplace(table.names[i], i);
  std::vector<std::size_t> from;
  for (const std::string& name : names) {
    const auto place = places.lower_bound(name);
    if (place == places.end() || place->first != name) {
      return absl::DataLossError(
          fmt::format("{}: line 1: found no column \"{}\", expected the columns of the training "
                      "samples",
                      path, ShownText(name)));
    }
    from.push_back(place->second);
    places.erase(place);  // of several with the name, the next one is another's
  }
  if (!places.empty()) {
    return absl::DataLossError(
        fmt::format("{}: line 1: found a column \"{}\", expected the columns of the training "
                    "samples, which have none or fewer of this name",
                    path, ShownText(places.begin()->first)));
  }
  std::vector<float> row(from.size());
  for (auto begin = table.features.begin(); begin != table.features.end(); begin += table.columns) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      row[i] = begin[static_cast<std::ptrdiff_t>(from[i])];
    }
    std::ranges::copy(row, begin);
  }
  table.names.assign(names.begin(), names.end());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenCsv(const std::string& folder,
                                                 const api::CsvSpec& spec, Split split,
                                                 LabelKind labels) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string path, PathOf(folder, split));
  LOCKSTEP_ASSIGN_OR_RETURN(const FileBytes file, FileBytes::OpenWhole(path));
  LOCKSTEP_ASSIGN_OR_RETURN(CsvTable table,
                            ParseCsv(TextOf(file), spec.label_column, path, labels));
  if (split == Split::kTest) {
    // A damaged table is reported by whoever opens the training samples.
    const absl::StatusOr<std::vector<std::string>> names = TrainingNames(folder, spec);
    if (absl::IsUnavailable(names.status())) return names.status();
    if (names.ok()) LOCKSTEP_RETURN_IF_ERROR(OrderColumns(*names, path, table));
  }
  return std::make_unique<CsvDataset>(path, std::move(table));
}

std::size_t BytesOfTable(std::int64_t rows, std::int64_t columns) {
  static_assert(sizeof(std::int32_t) == sizeof(float), "a label, be it a class or a number");
  return static_cast<std::size_t>(rows * (columns + 1)) * sizeof(float);
}

}  // namespace lockstep::train
