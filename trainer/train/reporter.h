// What a run tells the outside: log lines, progress to the leading supervisor, metrics to its own,
// TensorBoard summaries. Only rank 0 speaks of the run as a whole; every rank has metrics.
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
  // `env`: where to leave the last progress, if anywhere.
  Reporter(Session& session, Rendezvous& rendezvous, MetricsSender& sender, const Clock& clock,
           const GetEnv& env);

  void GenerationStarted(const Membership& membership, const Strategy& strategy,
                         const RunState& state);
  // After every applied step; cheap: reports at bounded rates.
  void StepDone(const StepTotals& totals, const RunState& state);
  void BatchEvaluated();
  // The run has ended on this rank. The log gets a checksum of its parameters and the optimizer's
  // state, which must be the same on every rank.
  void RunDone(const RunState& state);
  void EpochDone(const RunState& state);
  void Evaluated(const RunState& state);
  void Restored(const RunState& state, Time saved);
  // The newest checkpoint that there is, before any is restored: of a replica that goes on from its
  // peers' memory none is.
  void CheckpointFound(std::int64_t step, Time saved);
  // Logs what is new in it.
  void CheckpointOutcome(const AsyncSaver::Outcome& outcome);
  // The generation has ended: sends what the rates have held back.
  void Flush(const RunState& state);
  // Leaves the last progress as the container's termination message: only where the run ended well,
  // since without a message Kubernetes takes the last log lines, which say what went wrong.
  void LeaveMessage();

 private:
  bool IsRankZero() const { return rank_ == 0; }
  double Rate(std::int64_t step) const;
  void CountStep(std::int64_t step);
  void OpenSummaries();
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
  bool first_step_of_generation_ = false;
  SteadyTime next_progress_, next_speed_, next_summaries_;
  ProgressMeter meter_;
  const std::string termination_message_path_;
  ReplicaMetrics metrics_;
  std::unique_ptr<SummaryWriter> summaries_;
  std::int64_t failures_logged_ = 0, last_saved_step_ = -1;
};

}  // namespace lockstep::train
