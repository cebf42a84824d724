#include "operator/cli/text/job_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "api/v1/conditions.h"
#include "api/v1/enum_names.h"
#include "base/printable.h"
#include "base/text_table.h"
#include "operator/cli/text/progress_line.h"

namespace lockstep::cli {
namespace {

constexpr int kBarCells = 20;

std::string PercentOf(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.2f}%", *ratio * 100) : std::string("-");
}

// Returns the percentage without its fraction, so that only what is done has 100. A double may be a
// little less than a percentage: 0.29 * 100 is 28.999999999999996.
double WholePercent(double fraction) {
  return std::floor(fraction * 100 + 1e-9);
}

std::string StepsOf(const api::TrainingJobStatus& status) {
  if (!status.progress) return "-";
  const api::Progress& progress = *status.progress;
  if (progress.total_steps <= 0) return fmt::format("{}", progress.step);
  return fmt::format("{}/{}", progress.step, progress.total_steps);
}

std::string FractionOf(const api::TrainingJobStatus& status, bool bars) {
  if (!status.progress || status.progress->total_steps <= 0) return "-";
  const double fraction = static_cast<double>(status.progress->step) /
                          static_cast<double>(status.progress->total_steps);
  if (bars) return ProgressBar(fraction, kBarCells);
  return fmt::format("{:.0f}%", WholePercent(std::clamp(fraction, 0.0, 1.0)));
}

std::string LossOf(const api::TrainingJobStatus& status) {
  if (!status.progress || !status.progress->loss) return "-";
  return fmt::format("{:.4g}", *status.progress->loss);
}

std::string SpeedOf(const api::TrainingJobStatus& status) {
  if (!status.progress || status.progress->examples_per_second <= 0) return "-";
  return fmt::format("{:.0f}/s", status.progress->examples_per_second);
}

// A job that has ended has no time left, whatever its last report said.
std::string LeftOf(const api::TrainingJobStatus& status) {
  if (api::IsTerminal(status)) return "-";
  if (!status.progress || !status.progress->estimated_remaining_seconds) return "-";
  return FormatSeconds(*status.progress->estimated_remaining_seconds);
}

// What is measured beside the loss and the accuracy of the test set.
std::string TestMetricsOf(const api::Progress& progress) {
  std::vector<std::string> texts;
  if (progress.test_mean_absolute_error) {
    texts.push_back(fmt::format("MeanAbsoluteError {:.4g}", *progress.test_mean_absolute_error));
  }
  for (const auto& [metric, value] : progress.test_metrics) {
    texts.push_back(fmt::format("{} {:.4g}", api::NameOf(metric), value));
  }
  return texts.empty() ? "-" : fmt::format("{}", fmt::join(texts, ", "));
}

void AddWideCells(const api::TrainingJobStatus& status, TextRow& row) {
  const api::Progress progress = status.progress.value_or(api::Progress());
  row.push_back(status.progress ? fmt::format("{:.2f}", progress.epoch) : "-");
  row.push_back(PercentOf(progress.accuracy));
  row.push_back(PercentOf(progress.test_accuracy));
  row.push_back(PercentOf(progress.goodput));
  row.push_back(
      progress.last_checkpoint_step < 0 ? "-" : fmt::format("{}", progress.last_checkpoint_step));
  row.push_back(TestMetricsOf(progress));
}

TextRow RowOf(const api::TrainingJob& job, Time now, const TableStyle& style) {
  const api::TrainingJobStatus& status = job.status;
  TextRow row;
  if (style.namespaces) row.push_back(job.metadata.namespace_name);
  row.push_back(job.metadata.name);
  row.push_back(status.state.empty() ? "-" : status.state);
  row.push_back(status.ready_replicas.empty() ? "-" : status.ready_replicas);
  row.push_back(StepsOf(status));
  row.push_back(FractionOf(status, style.bars));
  row.push_back(LossOf(status));
  row.push_back(SpeedOf(status));
  row.push_back(LeftOf(status));
  row.push_back(std::to_string(status.restart_count));
  row.push_back(job.metadata.creation_time ? FormatAge(now - *job.metadata.creation_time) : "-");
  if (style.wide) AddWideCells(status, row);
  return row;
}

// The variant with the best test accuracy, else the lowest training loss. Null if each has diverged
// or has neither.
const api::VariantResult* BestOf(const std::vector<api::VariantResult>& variants) {
  const api::VariantResult* best = nullptr;
  const auto is_better = [](const api::VariantResult& a, const api::VariantResult& b) {
    if (a.test_accuracy || b.test_accuracy) {
      return a.test_accuracy.value_or(-1) > b.test_accuracy.value_or(-1);
    }
    return a.loss && (!b.loss || *a.loss < *b.loss);
  };
  for (const api::VariantResult& variant : variants) {
    if (variant.diverged || (!variant.test_accuracy && !variant.loss)) continue;
    if (best == nullptr || is_better(variant, *best)) best = &variant;
  }
  return best;
}

// The metrics that any of them has.
std::set<api::TestMetric> NamedBy(const std::vector<api::VariantResult>& variants) {
  std::set<api::TestMetric> named;
  for (const api::VariantResult& variant : variants) {
    for (const auto& [metric, value] : variant.test_metrics) named.insert(metric);
  }
  return named;
}

std::string FailureLine(const api::Failure& failure) {
  std::string line = fmt::format("last failure: {}-{}", failure.role, failure.index);
  if (!failure.node.empty()) line += fmt::format(" on {}", failure.node);
  if (failure.exit_code != 0) line += fmt::format(", exit code {}", failure.exit_code);
  if (!failure.reason.empty()) line += fmt::format(", {}", failure.reason);
  line += '\n';
  if (!failure.message.empty()) line += fmt::format("{}\n", failure.message);
  return line;
}

}  // namespace

std::string StateName(const api::TrainingJobStatus& status) {
  return status.state.empty() ? "new" : status.state;
}

std::string ProgressBar(double fraction, int cells) {
  fraction = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0.0;
  const auto full = static_cast<std::size_t>(std::floor(fraction * cells));
  return fmt::format("[{}{}] {:>3.0f}%", std::string(full, '#'),
                     std::string(static_cast<std::size_t>(cells) - full, '-'),
                     WholePercent(fraction));
}

std::string FormatAge(Duration age) {
  const auto seconds =
      std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(age).count());
  if (seconds < 120) return fmt::format("{}s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{}m", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{}h", seconds / 3600);
  return fmt::format("{}d", seconds / 86400);
}

std::string JobTable(const std::vector<api::TrainingJob>& jobs, Time now, const TableStyle& style) {
  TextRow header = {"NAME", "STATE", "READY", "STEP",     "PROGRESS",
                    "LOSS", "SPEED", "LEFT",  "RESTARTS", "AGE"};
  if (style.namespaces) header.insert(header.begin(), "NAMESPACE");
  if (style.wide) {
    for (const char* title :
         {"EPOCH", "ACCURACY", "TEST ACCURACY", "GOODPUT", "CHECKPOINT", "TEST METRICS"}) {
      header.emplace_back(title);
    }
  }
  std::vector<TextRow> rows = {std::move(header)};
  for (const api::TrainingJob& job : jobs) rows.push_back(RowOf(job, now, style));
  return Printable(TextTable(rows, {.width = style.width}));
}

std::string VariantTable(const std::vector<api::VariantResult>& variants) {
  if (variants.empty()) return "";
  const auto shown = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.4g}", *value) : std::string("-");
  };
  const api::VariantResult* best = BestOf(variants);
  const std::set<api::TestMetric> named = NamedBy(variants);
  std::vector<TextRow> rows = {
      {"VARIANT", "END", "STEPS", "LOSS", "ACCURACY", "TEST LOSS", "TEST ACCURACY"}};
  for (const api::TestMetric metric : named) {
    rows[0].push_back(fmt::format("TEST {}", api::NameOf(metric)));
  }
  rows[0].emplace_back();
  for (const api::VariantResult& variant : variants) {
    TextRow row = {variant.name,
                   variant.diverged ? "diverged" : "done",
                   fmt::format("{}", variant.step),
                   shown(variant.loss),
                   PercentOf(variant.accuracy),
                   shown(variant.test_loss),
                   PercentOf(variant.test_accuracy)};
    for (const api::TestMetric metric : named) {
      const auto found = variant.test_metrics.find(metric);
      row.push_back(found == variant.test_metrics.end() ? "-" : shown(found->second));
    }
    row.push_back(&variant == best ? "best" : "");
    rows.push_back(std::move(row));
  }
  return Printable(TextTable(rows));
}

std::string JobDetails(const api::TrainingJob& job) {
  std::string text;
  for (const api::Condition& condition : job.status.conditions) {
    const bool holds = condition.status == api::ConditionStatus::kTrue;
    const bool not_yet = condition.type == api::kRunning && job.status.state == "Pending";
    if (condition.type == api::kCreated || (!holds && !not_yet)) continue;
    text += fmt::format("{}: {}: {}\n", holds ? condition.type : "Not " + condition.type,
                        condition.reason, condition.message);
  }
  const auto& progress = job.status.progress;
  if (progress && progress->last_checkpoint_step >= 0) {
    text += fmt::format("last checkpoint: step {}\n", progress->last_checkpoint_step);
  }
  if (job.status.failure) text += FailureLine(*job.status.failure);
  text += VariantTable(job.status.variants);
  return Printable(text);
}

}  // namespace lockstep::cli
