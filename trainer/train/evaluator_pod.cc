#include "trainer/train/evaluator_pod.h"

#include <cmath>
#include <memory>
#include <string>

#include "api/v1/names.h"
#include "api/v1/progress_json.h"
#include "base/log.h"
#include "base/stop_signal.h"
#include "trainer/observe/termination_message.h"
#include "trainer/supervisor/metrics_pipe.h"
#include "trainer/train/evaluator.h"
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

void LeaveResult(const EvaluationRecord& last, const Session& session) {
  api::Progress progress{.step = last.step, .total_steps = session.total_steps()};
  if (std::isfinite(last.loss)) progress.test_loss = last.loss;
  if (std::isfinite(last.metric)) {
    const bool is_accuracy = api::IsCrossentropy(session.training().loss.type);
    (is_accuracy ? progress.test_accuracy : progress.test_mean_absolute_error) = last.metric;
  }
  LeaveTerminationMessage(TerminationMessagePath(ProcessEnv(api::kEnvTerminationMessagePath)),
                          api::ProgressToJson(progress).dump());
}

}  // namespace

int RunEvaluatorPod(const Identity& identity, const CheckpointOwner& owner, int threads,
                    const Clock& clock) {
  if (const absl::Status checked = CheckSections(identity.training); !checked.ok()) {
    return FailWith(checked);
  }
  const auto session = Session::Create({.training = identity.training,
                                        .world = identity.BatchParts(),
                                        .threads = threads,
                                        .only_evaluates = true});
  if (!session.ok()) return FailWith(session.status());
  MetricsPipeWriter pipe(ProcessEnv);
  Evaluator evaluator(
      **session, RealFileSystem(), clock,
      {.job_uid = identity.job_uid,
       .owner = owner,
       .report =
           [&](const EvaluationResult& result) {
             return ReportEvaluation(identity, identity.LeaderAddress(), result, kReportTimeout);
           },
       .stop_requested = &StopSignalled,
       .publish =
           [&](const EvaluatorMetrics& metrics) { pipe.Write(EncodeEvaluatorMetrics(metrics)); }});
  const LoopOutcome outcome = evaluator.Run();
  if (outcome.end == LoopEnd::kStopped) return api::kExitPreempted;
  if (outcome.end != LoopEnd::kDone) return FailWith(outcome.reason);
  LeaveResult(evaluator.last(), **session);
  LogInfo("training has ended and its last checkpoint is evaluated",
          {{"step", evaluator.last().step}, {"skipped", evaluator.last().skipped}});
  return api::kExitDone;
}

}  // namespace lockstep::train
