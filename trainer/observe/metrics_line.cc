// The line that a replica sends to its supervisor.
#include <array>

#include "trainer/observe/metrics.h"
#include "trainer/observe/metrics_json.h"

namespace lockstep::train {
namespace {

constexpr auto kReplicaFields = std::to_array<MetricField<ReplicaMetrics>>({
    {"rank", &ReplicaMetrics::rank},
    {"world", &ReplicaMetrics::world},
    {"stage", &ReplicaMetrics::stage},
    {"step", &ReplicaMetrics::step},
    {"totalSteps", &ReplicaMetrics::total_steps},
    {"epoch", &ReplicaMetrics::epoch},
    {"loss", &ReplicaMetrics::loss},
    {"accuracy", &ReplicaMetrics::accuracy},
    {"learningRate", &ReplicaMetrics::learning_rate},
    {"gradientNorm", &ReplicaMetrics::gradient_norm},
    {"testLoss", &ReplicaMetrics::test_loss},
    {"testAccuracy", &ReplicaMetrics::test_accuracy},
    {"meanAbsoluteError", &ReplicaMetrics::mean_absolute_error},
    {"testMeanAbsoluteError", &ReplicaMetrics::test_mean_absolute_error},
    {"testMetrics", &ReplicaMetrics::test_metrics},
    {"examplesPerSecond", &ReplicaMetrics::examples_per_second},
    {"goodput", &ReplicaMetrics::goodput},
    {"remainingSeconds", &ReplicaMetrics::remaining_seconds},
    {"stepSeconds", &ReplicaMetrics::step_seconds},
    {"stepsTotal", &ReplicaMetrics::steps_total},
    {"firstStep", &ReplicaMetrics::first_step, -1},
    {"evaluationBatches", &ReplicaMetrics::evaluation_batches},
    {"examplesTotal", &ReplicaMetrics::examples_total},
    {"inputSeconds", &ReplicaMetrics::input_seconds},
    {"computeSeconds", &ReplicaMetrics::compute_seconds},
    {"communicationSeconds", &ReplicaMetrics::communication_seconds},
    {"optimizerSeconds", &ReplicaMetrics::optimizer_seconds},
    {"checkpointSeconds", &ReplicaMetrics::checkpoint_seconds},
    {"evaluationSeconds", &ReplicaMetrics::evaluation_seconds},
    {"rendezvousSeconds", &ReplicaMetrics::rendezvous_seconds},
    {"idleSeconds", &ReplicaMetrics::idle_seconds},
    {"allReduceBytes", &ReplicaMetrics::all_reduce_bytes},
    {"generations", &ReplicaMetrics::generations},
    {"skippedSteps", &ReplicaMetrics::skipped_steps},
    {"diverged", &ReplicaMetrics::diverged},
    {"samplesLost", &ReplicaMetrics::samples_lost},
    {"samplesDuplicated", &ReplicaMetrics::samples_duplicated},
    {"checkpointInterval", &ReplicaMetrics::checkpoint_interval},
    {"lastCheckpointStep", &ReplicaMetrics::last_checkpoint_step, -1},
    {"lastCheckpointTime", &ReplicaMetrics::last_checkpoint_time},
    {"checkpointBytes", &ReplicaMetrics::checkpoint_bytes},
    {"checkpointFailures", &ReplicaMetrics::checkpoint_failures},
    {"checkpointDurations", &ReplicaMetrics::checkpoint_durations},
});

}  // namespace

std::string EncodeMetrics(const ReplicaMetrics& metrics) {
  return EncodeFields<ReplicaMetrics>(metrics, kReplicaFields);
}

absl::StatusOr<ReplicaMetrics> DecodeMetrics(const std::string& line) {
  return DecodeFields<ReplicaMetrics>(line, kReplicaFields);
}

}  // namespace lockstep::train
