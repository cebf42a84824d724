#include "operator/cli/text/progress_line.h"

#include <fmt/format.h>

#include <cmath>

namespace lockstep::cli {
namespace {

// Formats 1234567 as "1,234,567".
std::string Grouped(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), ",");
  }
  return digits;
}

}  // namespace

std::string FormatSeconds(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  const std::int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string ProgressLine(const api::Progress& progress) {
  std::string line;
  // A program of the user's own may count steps alone.
  if (progress.epoch > 0 || progress.step == 0) line = fmt::format("epoch {:.2f}", progress.epoch);
  if (progress.step > 0 && progress.epoch > 0 && progress.total_steps > 0) {
    const double epochs = progress.epoch * static_cast<double>(progress.total_steps) /
                          static_cast<double>(progress.step);
    line += fmt::format("/{:.3g}", epochs);
  }
  line += fmt::format("{}step {}", line.empty() ? "" : "  ", progress.step);
  if (progress.total_steps > 0) line += fmt::format("/{}", progress.total_steps);
  if (progress.loss) line += fmt::format("  loss {:.4f}", *progress.loss);
  if (progress.accuracy) line += fmt::format("  accuracy {:.2f} %", *progress.accuracy * 100);
  if (progress.mean_absolute_error) {
    line += fmt::format("  mean absolute error {:.4g}", *progress.mean_absolute_error);
  }
  if (progress.examples_per_second > 0) {
    line += fmt::format("  {} images/s", Grouped(progress.examples_per_second));
  }
  if (progress.estimated_remaining_seconds) {
    line += fmt::format("  {} left", FormatSeconds(*progress.estimated_remaining_seconds));
  }
  return line;
}

}  // namespace lockstep::cli
