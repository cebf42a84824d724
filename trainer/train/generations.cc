#include "trainer/train/generations.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "api/v1/names.h"
#include "base/log.h"
#include "trainer/train/pause.h"

namespace lockstep::train {
namespace {

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return api::kExitBadConfig;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kDataLoss:
      return api::kExitBadData;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kPermissionDenied:
      return api::kExitStorage;
    case absl::StatusCode::kDeadlineExceeded:
      return api::kExitRendezvousDeadline;
    default:
      return api::kExitPeerLost;
  }
}

int Fail(const std::string& message, int exit_code) {
  LogError(message, {{"exitCode", exit_code}});
  return exit_code;
}

absl::StatusOr<Membership> Join(TrainLoop& loop, const std::string& fingerprint) {
  const PhaseTimer timer(loop.phases, Phase::kRendezvous);
  return loop.rendezvous.Join(loop.OfferedStep(), fingerprint);
}

absl::Status Finish(TrainLoop& loop) {
  const PhaseTimer timer(loop.phases, Phase::kRendezvous);
  return loop.rendezvous.Finish();
}

int Preempted(const absl::Status& status) {
  LogInfo("asked to stop while waiting for the other replicas",
          {{"reason", std::string(status.message())}});
  return api::kExitPreempted;
}

// Returns the exit code after a failed Join. If this pod was asked to stop, the rank that saves
// checkpoints saves its state first: the peers still hold theirs, but may be asked to stop as well.
int LeaveWithoutGroup(TrainLoop& loop, const absl::Status& status) {
  if (status.code() == absl::StatusCode::kAlreadyExists) return api::kExitDone;
  if (status.code() != absl::StatusCode::kCancelled) return FailWith(status);
  const LoopOutcome saved = loop.SaveAlone();
  if (saved.end == LoopEnd::kStopped) return Preempted(status);
  return saved.end == LoopEnd::kStorage
             ? Fail(std::string(saved.reason.message()), api::kExitStorage)
             : FailWith(saved.reason);
}

// Returns the exit code after a generation, or nullopt to join the next one.
std::optional<int> LeaveWith(const LoopOutcome& outcome, const Rendezvous& rendezvous) {
  const std::string reason(outcome.reason.message());
  switch (outcome.end) {
    case LoopEnd::kDone:
      return api::kExitDone;
    case LoopEnd::kStopped:
      // The state is saved at a step that all ranks agree on. Replicas that were asked to stop
      // exit; the others keep their state in memory and wait for replacements.
      if (rendezvous.StopRequested()) return api::kExitPreempted;
      return std::nullopt;
    case LoopEnd::kDiverged:
      return Fail(reason, api::kExitDiverged);
    case LoopEnd::kFailed:
      return FailWith(outcome.reason);
    case LoopEnd::kGenerationOver:
    case LoopEnd::kStorage:
      return std::nullopt;
  }
  return api::kExitPeerLost;
}

int GiveUp(const LoopOutcome& outcome, int generations) {
  return Fail(fmt::format("{} generations in a row without a step; the last one ended because: {}",
                          generations, std::string(outcome.reason.message())),
              outcome.end == LoopEnd::kStorage ? api::kExitStorage : api::kExitRendezvousDeadline);
}

int RunUntilExit(TrainLoop& loop, const RestartBudgetOptions& options) {
  const std::string fingerprint = loop.session.Fingerprint();
  RestartBudget budget(options);
  for (;;) {
    const absl::StatusOr<Membership> membership = Join(loop, fingerprint);
    if (!membership.ok()) return LeaveWithoutGroup(loop, membership.status());
    LoopOutcome outcome = loop.Run(*membership);
    if (outcome.end == LoopEnd::kDone) {
      absl::Status finished = Finish(loop);
      if (absl::IsCancelled(finished) && loop.rendezvous.StopRequested())
        return Preempted(finished);
      if (!finished.ok()) outcome = {LoopEnd::kGenerationOver, std::move(finished)};
    }
    if (const std::optional<int> exit_code = LeaveWith(outcome, loop.rendezvous)) return *exit_code;
    if (outcome.end == LoopEnd::kStopped) continue;
    budget.Progress(loop.state.step);
    const std::optional<Duration> pause = budget.Charge();
    if (!pause) return GiveUp(outcome, budget.used());
    LogWarning("the generation has ended; joining the next one",
               {{"generation", membership->generation},
                {"step", loop.state.step},
                {"pauseSeconds", std::chrono::duration<double>(*pause).count()},
                {"reason", std::string(outcome.reason.message())}});
    Pause(SystemClock(), *pause, [&loop] { return loop.rendezvous.StopRequested(); });
  }
}

}  // namespace

int FailWith(const absl::Status& status) {
  return Fail(std::string(status.message()), ExitCodeOf(status));
}

int ExitCodeOfEnd(const LoopOutcome& outcome) {
  const std::string reason(outcome.reason.message());
  switch (outcome.end) {
    case LoopEnd::kDone:
      return api::kExitDone;
    case LoopEnd::kStopped:
      return api::kExitPreempted;
    case LoopEnd::kDiverged:
      LogError(reason, {{"exitCode", api::kExitDiverged}});
      return api::kExitDiverged;
    case LoopEnd::kStorage:
      LogError(reason, {{"exitCode", api::kExitStorage}});
      return api::kExitStorage;
    default:
      return FailWith(outcome.reason);
  }
}

int RunGenerations(TrainLoop& loop, const RestartBudgetOptions& options) {
  const int exit_code = RunUntilExit(loop, options);
  if (exit_code == api::kExitDone || exit_code == api::kExitPreempted) {
    loop.reporter.LeaveMessage();
  }
  return exit_code;
}

}  // namespace lockstep::train
