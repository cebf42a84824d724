#include "trainer/observe/replica_series.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace lockstep::train {
namespace {

template <auto member>
double Get(const ReplicaMetrics& metrics) {
  return static_cast<double>(metrics.*member);
}

constexpr char kTime[] = "lockstep_trainer_time_seconds_total";
constexpr char kTimeHelp[] = "Time spent, by phase of the work.";
constexpr bool kIsGauge = false;
constexpr bool kIsCounter = true;
using M = ReplicaMetrics;

constexpr SeriesRow kRows[] = {
    {"lockstep_trainer_world_size", "Processes that train together.", kIsGauge, nullptr,
     Get<&M::world>},
    {"lockstep_trainer_stage", "Stage of the model that the process holds; 0: the first, or all.",
     kIsGauge, nullptr, Get<&M::stage>},
    {"lockstep_trainer_step", "Steps done since the job began.", kIsGauge, nullptr, Get<&M::step>},
    {"lockstep_trainer_total_steps", "Steps that the job is to do.", kIsGauge, nullptr,
     Get<&M::total_steps>},
    {"lockstep_trainer_epoch", "Epochs done since the job began.", kIsGauge, nullptr,
     Get<&M::epoch>},
    {"lockstep_trainer_loss", "Mean training loss since the epoch's start.", kIsGauge, nullptr,
     Get<&M::loss>},
    {"lockstep_trainer_accuracy_ratio", "Training accuracy since the epoch's start.", kIsGauge,
     nullptr, Get<&M::accuracy>},
    {"lockstep_trainer_test_loss", "Mean loss on the test set at the last evaluation.", kIsGauge,
     nullptr, Get<&M::test_loss>},
    {"lockstep_trainer_test_accuracy_ratio", "Accuracy on the test set at the last evaluation.",
     kIsGauge, nullptr, Get<&M::test_accuracy>},
    {"lockstep_trainer_mean_absolute_error",
     "Mean absolute training error since the epoch's start, with a loss of regression.", kIsGauge,
     nullptr, Get<&M::mean_absolute_error>},
    {"lockstep_trainer_test_mean_absolute_error",
     "Mean absolute error on the test set at the last evaluation, with a loss of regression.",
     kIsGauge, nullptr, Get<&M::test_mean_absolute_error>},
    {"lockstep_trainer_learning_rate", "Learning rate of the latest step.", kIsGauge, nullptr,
     Get<&M::learning_rate>},
    {"lockstep_trainer_gradient_norm", "Norm of the mean gradient of the latest step.", kIsGauge,
     nullptr, Get<&M::gradient_norm>},
    {"lockstep_trainer_examples_per_second", "Training speed of all replicas together, lately.",
     kIsGauge, nullptr, Get<&M::examples_per_second>},
    {"lockstep_trainer_goodput_ratio",
     "Part of its process' life that the replica has spent on steps.", kIsGauge, nullptr,
     Get<&M::goodput>},
    {"lockstep_trainer_remaining_seconds", "Time to the end at the speed of the latest steps.",
     kIsGauge, nullptr, Get<&M::remaining_seconds>},
    {"lockstep_trainer_checkpoint_interval_steps",
     "Steps from one checkpoint to the next; 0: none is saved before the end.", kIsGauge, nullptr,
     Get<&M::checkpoint_interval>},
    {"lockstep_trainer_checkpoint_last_step", "Step of the newest checkpoint; -1: none yet.",
     kIsGauge, nullptr, Get<&M::last_checkpoint_step>},
    {"lockstep_trainer_checkpoint_last_success_timestamp_seconds",
     "When the newest checkpoint was saved; 0: none, or not known.", kIsGauge, nullptr,
     Get<&M::last_checkpoint_time>},
    {"lockstep_trainer_checkpoint_size_bytes",
     "Parameters and optimizer state in the newest checkpoint that the replica saved.", kIsGauge,
     nullptr, Get<&M::checkpoint_bytes>},
    {"lockstep_trainer_checkpoint_failures_total", "Checkpoints that could not be saved.",
     kIsCounter, nullptr, Get<&M::checkpoint_failures>},
    {"lockstep_trainer_steps_total", "Steps that the replica has taken part in.", kIsCounter,
     nullptr, Get<&M::steps_total>},
    {"lockstep_trainer_evaluation_batches_total",
     "Batches of test data that the replica evaluated.", kIsCounter, nullptr,
     Get<&M::evaluation_batches>},
    {"lockstep_trainer_examples_total", "Samples of its own share that the replica has trained on.",
     kIsCounter, nullptr, Get<&M::examples_total>},
    {"lockstep_trainer_allreduce_bytes_total", "Bytes that the replica has put into all-reduces.",
     kIsCounter, nullptr, Get<&M::all_reduce_bytes>},
    {"lockstep_trainer_generations_total", "Memberships that the replica has been part of.",
     kIsCounter, nullptr, Get<&M::generations>},
    {"lockstep_trainer_skipped_steps",
     "Steps since the job began that updated nothing: their loss or gradient was not finite.",
     kIsGauge, nullptr, Get<&M::skipped_steps>},
    {"lockstep_trainer_diverged", "1: training has ended because its numbers were not finite.",
     kIsGauge, nullptr, Get<&M::diverged>},
    {"lockstep_trainer_samples_lost", "Samples that the job's epochs have left out.", kIsGauge,
     nullptr, Get<&M::samples_lost>},
    {"lockstep_trainer_samples_duplicated", "Samples that the job's epochs have used again.",
     kIsGauge, nullptr, Get<&M::samples_duplicated>},
    {kTime, kTimeHelp, kIsCounter, "input", Get<&M::input_seconds>},
    {kTime, kTimeHelp, kIsCounter, "compute", Get<&M::compute_seconds>},
    {kTime, kTimeHelp, kIsCounter, "communication", Get<&M::communication_seconds>},
    {kTime, kTimeHelp, kIsCounter, "optimizer", Get<&M::optimizer_seconds>},
    {kTime, kTimeHelp, kIsCounter, "checkpoint", Get<&M::checkpoint_seconds>},
    {kTime, kTimeHelp, kIsCounter, "evaluation", Get<&M::evaluation_seconds>},
    {kTime, kTimeHelp, kIsCounter, "rendezvous", Get<&M::rendezvous_seconds>},
    {kTime, kTimeHelp, kIsCounter, "idle", Get<&M::idle_seconds>},
    {kTime, kTimeHelp, kIsCounter, "rework", nullptr},
};

constexpr HistogramRow kHistograms[] = {
    {"lockstep_trainer_step_duration_seconds", "Time of a step, of the leading rank.",
     &M::step_seconds},
    {"lockstep_trainer_checkpoint_duration_seconds",
     "Time to write a checkpoint, during which training goes on.", &M::checkpoint_durations},
};

// True for the phases of a step, whose time is wasted if the step had been done before.
bool IsOfStep(const SeriesRow& row) {
  if (row.phase == nullptr) return false;
  const std::string_view phase = row.phase;
  return phase == "input" || phase == "compute" || phase == "communication" || phase == "optimizer";
}

}  // namespace

std::span<const SeriesRow> SeriesRows() {
  return kRows;
}

std::span<const HistogramRow> HistogramRows() {
  return kHistograms;
}

ReplicaSeries::ReplicaSeries()
    : values_(std::size(kRows)),
      process_totals_(std::size(kRows)),
      histograms_(std::size(kHistograms)),
      process_histograms_(std::size(kHistograms)) {}

double ReplicaSeries::TakeDelta(double total, double& process_total) const {
  const double delta = total >= process_total ? total - process_total : total;
  process_total = total;
  return delta;
}

// Returns the share of the steps since the last update that had been done before. If no step was
// completed, returns 1 if the current one had been done before, else 0. Only positions tell: with
// parameter servers, the batches of a process are not as many as the steps that the run has made.
double ReplicaSeries::RedoneShare(const ReplicaMetrics& metrics) {
  if (metrics.first_step < 0) return 0;
  if (metrics.first_step != first_step_ || metrics.step < step_) {
    first_step_ = step_ = metrics.first_step;
    redone_until_ = furthest_step_;
  }
  const std::int64_t first = std::exchange(step_, metrics.step), steps = metrics.step - first;
  furthest_step_ = std::max(furthest_step_, metrics.step);
  if (steps <= 0) return first < redone_until_ ? 1 : 0;
  const std::int64_t redone = std::clamp<std::int64_t>(redone_until_ - first, 0, steps);
  return static_cast<double>(redone) / static_cast<double>(steps);
}

void ReplicaSeries::AddHistogram(std::size_t row, const DurationHistogram& of_process) {
  DurationHistogram &all = histograms_[row], &last = process_histograms_[row];
  for (std::size_t i = 0; i < of_process.counts.size(); ++i) {
    const std::int64_t now = of_process.counts[i];
    all.counts[i] += now >= last.counts[i] ? now - last.counts[i] : now;
    last.counts[i] = now;
  }
  all.sum += TakeDelta(of_process.sum, last.sum);
}

void ReplicaSeries::Update(const ReplicaMetrics& metrics) {
  rank_ = std::to_string(metrics.rank);
  // A new process knows nothing about the run before it has joined a generation; until then the
  // gauges keep the previous process's values.
  const bool knows_run = metrics.generations > 0 || !has_known_run_;
  has_known_run_ = has_known_run_ || metrics.generations > 0;
  if (knows_run) test_metrics_ = metrics.test_metrics;
  const double redone = RedoneShare(metrics);
  double rework = 0;
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    const SeriesRow& row = kRows[i];
    if (row.value == nullptr) continue;
    const double value = row.value(metrics);
    if (!row.is_counter) {
      if (knows_run) values_[i] = value;
      continue;
    }
    const double delta = TakeDelta(value, process_totals_[i]);
    const double wasted = IsOfStep(row) ? redone * delta : 0;
    values_[i] += delta - wasted;
    rework += wasted;
  }
  values_.back() += rework;
  for (std::size_t i = 0; i < std::size(kHistograms); ++i) {
    AddHistogram(i, metrics.*kHistograms[i].value);
  }
  has_values_ = true;
}

void ReplicaSeries::CountRestart() {
  ++restarts_;
  std::ranges::fill(process_totals_, 0.0);
  first_step_ = -1;
  std::ranges::fill(process_histograms_, DurationHistogram{});
}

}  // namespace lockstep::train
