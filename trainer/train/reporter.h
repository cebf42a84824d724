// Reports a run to the outside: log lines, progress to the leading pod's supervisor, metrics to
// this pod's, and TensorBoard summaries. Every rank has metrics; only rank 0 reports on the whole
// run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "trainer/checkpoint/async_saver.h"
#include "trainer/observe/metrics.h"
#include "trainer/observe/progress.h"
#include "trainer/observe/summaries.h"
#include "trainer/rendezvous/rendezvous.h"
#include "trainer/strategy/strategy.h"
#include "trainer/train/metrics_sender.h"
#include "trainer/train/run_state.h"
#include "trainer/train/session.h"

namespace lockstep::train {

class Reporter {
 public:
  // `env` may name the termination message's file.
  Reporter(Session& session, Rendezvous& rendezvous, MetricsSender& sender, const Clock& clock,
           const GetEnv& env);

  void GenerationStarted(const Membership& membership, const Strategy& strategy,
                         const RunState& state) {
    GenerationStarted(membership, strategy.CommunicatorName(), state);
  }
  // `communicator`: see Strategy::CommunicatorName.
  void GenerationStarted(const Membership& membership, const std::string& communicator,
                         const RunState& state);
  // Called after every step, applied or skipped. Cheap: reports at bounded rates.
  void StepDone(const StepTotals& totals, const RunState& state);
  // As StepDone, for a step that other processes may have computed: under the strategy
  // ParameterServer, where each process counts its own batches by BatchCounted. `left`: how many
  // steps of the same message are not recorded yet, this one included. They share the time since
  // the last recorded step equally.
  void StepRecorded(const StepTotals& totals, const RunState& state, std::int64_t left = 1);
  // Called instead of GenerationStarted by a process that trains in a run whose state it does not
  // know. Its rank remains its place in the job: it is the only member of its rendezvous.
  void Joined(const Membership& membership);
  // Called when a batch of this process, with `examples` samples, has become part of step `step` of
  // the values of fence `fence`.
  void BatchCounted(std::uint64_t fence, std::int64_t step, std::int64_t examples);
  void BatchEvaluated();
  // Called when the run is done. Logs a checksum of the parameters and the optimizer's state, which
  // must be equal on all ranks.
  void RunDone(const RunState& state);
  void EpochDone(const RunState& state);
  void Evaluated(const RunState& state);
  void Restored(std::int64_t step, Time saved);  // of the checkpoint
  // Reports the newest checkpoint, restored or not: a replica that takes its state from its peers
  // restores none.
  void CheckpointFound(std::int64_t step, Time saved);
  // Publishes what changed since the last call, and logs a new checkpoint; the saver has logged
  // each that it could not save.
  void CheckpointOutcome(const AsyncSaver::Outcome& outcome);
  // Called when a variant has diverged, after its last generation.
  void Diverged();
  // Called when a generation ends: sends what the rate limits held back.
  void Flush(const RunState& state);
  // Writes the last progress as the container's termination message, unless this process has had no
  // generation. Call it only when the process exits after a clean end: after a failure Kubernetes
  // falls back to the last log lines, which say what went wrong.
  void LeaveMessage();

 private:
  bool IsRankZero() const { return rank_ == 0; }
  // Else the loss is one of regression, and what counts as accuracy is the mean absolute error.
  bool HasAccuracy() const { return api::IsCrossentropy(session_.training().loss.type); }
  // `accuracy`, or the name that it has with a loss of regression.
  const char* NameOfMetric(const char* accuracy, const char* error) const {
    return HasAccuracy() ? accuracy : error;
  }
  double Rate(std::int64_t step) const;
  api::TestMetrics NamedOf(const KeptMetrics& metrics) const {
    return metrics.Of(session_.training().evaluation);
  }
  // `of`: a RunState or a BestEvaluation.
  void SetEvaluation(const auto& of);
  nlohmann::json EvaluationFields(std::int64_t step, const auto& of) const;
  void ReportBest(const BestEvaluation& best);
  bool EndsBeforeLastStep(const RunState& state) const;
  void SetTotalSteps(const RunState& state);
  void CountStep(std::int64_t step);
  void StepSkipped(const RunState& state) const;
  void FlushSummaries();
  api::Progress GetProgress();
  void SendProgress();
  void Publish();
  void PublishState(const RunState& state);
  void UpdateSpeed();
  void WriteSummaries(const StepTotals& totals, const RunState& state);

  Session& session_;
  Rendezvous& rendezvous_;
  MetricsSender& sender_;
  const Clock& clock_;
  SteadyTime step_began_;
  int rank_ = 0;
  std::uint64_t generation_ = 0;
  std::uint64_t fence_ = 0;  // of the newest batch
  bool first_step_of_generation_ = false;
  SteadyTime next_progress_, next_speed_, next_summaries_;
  ProgressMeter meter_;
  const std::string termination_message_path_;
  ReplicaMetrics metrics_;
  std::unique_ptr<SummaryWriter> summaries_;
  std::int64_t saves_logged_ = 0;
};

}  // namespace lockstep::train
