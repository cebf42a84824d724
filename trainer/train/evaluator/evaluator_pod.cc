#include "trainer/train/evaluator/evaluator_pod.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "api/v1/names.h"
#include "api/v1/progress_json.h"
#include "base/log.h"
#include "base/status.h"
#include "base/stop_signal.h"
#include "trainer/data/dataset_identity.h"
#include "trainer/observe/termination_message.h"
#include "trainer/supervisor/metrics_pipe.h"
#include "trainer/train/compute_device.h"
#include "trainer/train/evaluator/evaluator.h"
#include "trainer/train/generations.h"
#include "trainer/train/session.h"

namespace lockstep::train {
namespace {

// A leading pod that is alive answers at once.
constexpr auto kReportTimeout = std::chrono::seconds(5);

absl::Status CheckSections(const api::TrainingSpec& training) {
  if (training.checkpoint.directory.empty()) {
    return absl::InvalidArgumentError(
        "spec.training.checkpoint.directory: found none, expected one with an Evaluator");
  }
  if (!training.evaluation.enabled) {
    return absl::InvalidArgumentError(
        "spec.training.evaluation.enabled: found false, expected true with an Evaluator");
  }
  return absl::OkStatus();
}

void LeaveResult(const EvaluationRecord& last, std::int64_t total_steps, api::LossType loss) {
  api::Progress progress{.step = last.step, .total_steps = total_steps};
  if (std::isfinite(last.loss)) progress.test_loss = last.loss;
  if (std::isfinite(last.metric)) {
    (api::IsCrossentropy(loss) ? progress.test_accuracy : progress.test_mean_absolute_error) =
        last.metric;
  }
  progress.test_metrics = last.metrics;
  LeaveTerminationMessage(TerminationMessagePath(ProcessEnv(api::kEnvTerminationMessagePath)),
                          api::ProgressToJson(progress).dump());
}

}  // namespace

int RunEvaluatorPod(const Identity& identity, const CheckpointOwner& owner, int threads,
                    const Clock& clock) {
  if (const absl::Status checked = CheckSections(identity.training); !checked.ok()) {
    return FailWith(checked);
  }
  const BackendOptions device = DeviceOf(identity, threads);
  const SessionOptions options{.training = identity.training,
                               .world = identity.BatchParts(),
                               .threads = threads,
                               .only_evaluates = true};
  std::optional<ExitAtStopSignal> exits(std::in_place, api::kExitPreempted, "the start");
  absl::StatusOr<TrainAndTest> data = Session::OpenData(options);
  if (!data.ok()) return FailWith(data.status());
  const absl::StatusOr<std::string> test_set = IdentityOf(*data->test);
  if (!test_set.ok()) return FailWith(test_set.status());
  MetricsPipeWriter pipe(ProcessEnv);
  Evaluator evaluator(
      identity.training, RealFileSystem(), clock,
      {.job_uid = identity.job_uid,
       .test_set = *test_set + NormalizeText(identity.training),
       .owner = owner,
       .report =
           [&](const EvaluationResult& result) {
             return ReportEvaluation(identity, identity.LeaderAddress(), result, kReportTimeout);
           },
       .stop_requested = &StopSignalled,
       .make_session = [&](const FollowedRun& run) -> absl::StatusOr<std::unique_ptr<Session>> {
         LOCKSTEP_ASSIGN_OR_RETURN(auto backend, OpenDevice(device, /*falls_back_to_cpu=*/true));
         return Session::Assemble(options, {.data = *std::move(data),
                                            .backend = std::move(backend),
                                            .run = run,
                                            .initializes_model = false});
       },
       .publish =
           [&](const EvaluatorMetrics& metrics) { pipe.Write(EncodeEvaluatorMetrics(metrics)); }});
  exits.reset();
  const LoopOutcome outcome = evaluator.Run();
  if (outcome.end != LoopEnd::kDone) return ExitCodeOfEnd(outcome);
  LeaveResult(evaluator.last(), evaluator.total_steps(), identity.training.loss.type);
  LogInfo("training has ended and its last checkpoint is evaluated",
          {{"step", evaluator.last().step}, {"skipped", evaluator.last().skipped}});
  return api::kExitDone;
}

}  // namespace lockstep::train
