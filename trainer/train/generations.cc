#include "trainer/train/generations.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "api/v1/names.h"
#include "base/log.h"
#include "base/pause.h"
#include "trainer/checkpoint/owner.h"
#include "trainer/train/compute_device.h"

namespace lockstep::train {
namespace {

// How many generations in a row may end without a step because a member was lost. The supervisor
// and backoffLimit already limit how often a member is restarted, so such generations are not
// charged to the budget; but a network may break every time.
constexpr int kMostLosses = 200;

// For errors of input, configuration and peers. Those of the checkpoints' disk have the same codes,
// and a LoopEnd of their own.
int ExitCodeOf(const absl::Status& status) {
  if (IsTakenByAnotherJob(status)) return api::kExitBadConfig;
  if (IsDeviceGone(status)) return api::kExitGpuGone;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return api::kExitBadConfig;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kPermissionDenied:
      return api::kExitBadData;
    case absl::StatusCode::kDeadlineExceeded:
      return api::kExitRendezvousDeadline;
    default:  // includes a shortage of memory: what else runs on the node may end
      return api::kExitPeerLost;
  }
}

// How this process leaves the run.
struct Exit {
  int code = api::kExitDone;
  std::string reason;  // for the log
  bool saves = false;  // the state in memory, if it is this rank that saves
};

Exit ExitWith(int code, const absl::Status& status, bool saves = true) {
  return {.code = code, .reason = std::string(status.message()), .saves = saves};
}

// No save follows the loss of the folder to a newer process.
Exit ExitFor(const absl::Status& status) {
  return ExitWith(ExitCodeOf(status), status, !absl::IsAborted(status));
}

int Fail(const std::string& message, int exit_code) {
  LogError(message, {{"exitCode", exit_code}});
  return exit_code;
}

absl::StatusOr<Membership> JoinOnce(TrainLoop& loop, const std::string& fingerprint) {
  const PhaseTimer timer(loop.phases, Phase::kRendezvous);
  return loop.rendezvous.Join(loop.OfferedStep(), fingerprint);
}

// Rank 0 may hear of another number of workers before it joins or while it waits.
absl::StatusOr<Membership> Join(TrainLoop& loop, const std::string& fingerprint) {
  for (;;) {
    if (loop.SavesForNewWorkers()) return absl::CancelledError("for another number of workers");
    absl::StatusOr<Membership> joined = JoinOnce(loop, fingerprint);
    const bool may_put_off =
        loop.saver != nullptr && loop.StepInMemory() > 0 && !loop.keeps_workers;
    const bool must_resize = absl::IsCancelled(joined.status()) &&
                             !loop.rendezvous.StopRequested() && loop.rendezvous.NewWorkers();
    if (!must_resize || !may_put_off) return joined;
  }
}

absl::Status Finish(TrainLoop& loop) {
  const PhaseTimer timer(loop.phases, Phase::kRendezvous);
  return loop.rendezvous.Finish();
}

// A failed Join. The peers still hold their state, but may be asked to stop as well.
Exit LeaveWithoutGroup(const absl::Status& status) {
  if (absl::IsAlreadyExists(status)) return {};
  return absl::IsCancelled(status) ? ExitWith(api::kExitPreempted, status) : ExitFor(status);
}

bool MustLeave(const TrainLoop& loop) {
  const bool must_resize = loop.rendezvous.NewWorkers() && !loop.keeps_workers;
  return loop.rendezvous.StopRequested() || must_resize;
}

// Returns how to exit after a generation, or nullopt to join the next one.
std::optional<Exit> LeaveWith(const LoopOutcome& outcome, const TrainLoop& loop) {
  switch (outcome.end) {
    case LoopEnd::kDone:
      return Exit{};
    case LoopEnd::kStopped:
      // Rank 0 has saved the state of a step that all ranks agree on, or could not. Replicas that
      // were asked to stop exit; the others keep their state in memory and wait for replacements.
      if (!MustLeave(loop)) return std::nullopt;
      return Exit{.code = api::kExitPreempted, .reason = {}, .saves = !outcome.reason.ok()};
    case LoopEnd::kDiverged:
      return ExitWith(api::kExitDiverged, outcome.reason, /*saves=*/false);
    case LoopEnd::kStorageRefused:
      return ExitWith(api::kExitStorage, outcome.reason, /*saves=*/false);
    case LoopEnd::kFailed:
      return ExitFor(outcome.reason);
    case LoopEnd::kGenerationOver:
    case LoopEnd::kStorage:
      return std::nullopt;
  }
  return ExitWith(api::kExitPeerLost, outcome.reason);
}

Exit GiveUp(const LoopOutcome& outcome, int generations, const TrainLoop& loop) {
  const bool storage = outcome.end == LoopEnd::kStorage;
  return {
      .code = storage ? api::kExitStorage : api::kExitRendezvousDeadline,
      .reason = fmt::format("{} generations in a row without a step; the last one ended because: "
                            "{}",
                            generations, std::string(outcome.reason.message())),
      .saves = !storage || loop.StepInMemory() > loop.state.step};
}

// The pod was asked to stop. Another one may find room on the disk, so the end is not final.
Exit StoppedUnsaved(const absl::Status& status) {
  return {.code = api::kExitPeerLost,
          .reason = fmt::format("asked to stop, and the state in memory is not saved: {}",
                                std::string(status.message()))};
}

// Saves the state, which perhaps nobody else has. Returns `exit`, unless the save has found
// something more important: the state has diverged, or a pod that was asked to stop cannot save it.
Exit SaveBefore(Exit exit, TrainLoop& loop) {
  const LoopOutcome saved = loop.SaveAlone();
  if (saved.reason.ok()) return exit;
  if (saved.end == LoopEnd::kDiverged) return ExitWith(api::kExitDiverged, saved.reason);
  if (exit.code == api::kExitPreempted) return StoppedUnsaved(saved.reason);
  LogError("the state in memory is not saved",
           {{"step", loop.StepInMemory()}, {"reason", std::string(saved.reason.message())}});
  return exit;
}

void NoteStop(const LoopOutcome& outcome, std::uint64_t generation, std::int64_t step) {
  if (outcome.end != LoopEnd::kStopped) return;
  LogInfo("the generation has stopped", {{"generation", generation}, {"step", step}});
}

// Goes on after the stop of another pod, whether or not the state is saved.
void NoteStopOfOthers(const LoopOutcome& stopped, const TrainLoop& loop) {
  if (stopped.reason.ok()) return;
  LogWarning(loop.session.is_divided()
                 ? "another pod was asked to stop, and only the memory of this one has its part of "
                   "the state"
                 : "another pod was asked to stop, and only the memory of the others has the state",
             {{"step", loop.state.step}, {"reason", std::string(stopped.reason.message())}});
}

// Handles a failed generation. Only the next generation shows whether a member was lost; until
// then, the failure is charged to the budget, if any is left.
struct Ended {
  LoopOutcome outcome;
  bool is_charged = false;
};

Exit RunUntilExit(TrainLoop& loop, const RestartBudgetOptions& options) {
  const std::string fingerprint = loop.session.Fingerprint();
  RestartBudget budget(options);
  RestartBudget losses({.restarts = kMostLosses});
  std::optional<Ended> ended;
  for (;;) {
    const absl::StatusOr<Membership> membership = Join(loop, fingerprint);
    if (!membership.ok()) return LeaveWithoutGroup(membership.status());
    if (ended) {
      const bool is_loss = loop.rendezvous.LostMember() && losses.Charge();
      if (is_loss && ended->is_charged) budget.Refund();
      if (!is_loss && !ended->is_charged) {
        return GiveUp(ended->outcome, budget.used() + losses.used() + 1, loop);
      }
      ended.reset();
    }
    LoopOutcome outcome = loop.Run(*membership);
    if (outcome.end == LoopEnd::kDone) {
      absl::Status finished = Finish(loop);
      if (absl::IsCancelled(finished) && loop.rendezvous.StopRequested()) {
        return ExitWith(api::kExitPreempted, finished);
      }
      if (!finished.ok()) outcome = {LoopEnd::kGenerationOver, std::move(finished)};
    }
    NoteStop(outcome, membership->generation, loop.state.step);
    if (std::optional<Exit> exit = LeaveWith(outcome, loop)) return *std::move(exit);
    if (outcome.end == LoopEnd::kStopped) {
      NoteStopOfOthers(outcome, loop);
      continue;
    }
    // Before the pause, because until then a replacement of a lost member may lack the memory to
    // start.
    loop.strategy.Disconnect();
    budget.Progress(loop.state.step);
    losses.Progress(loop.state.step);
    const std::optional<Duration> pause = budget.Charge();
    const Duration waits = pause.value_or(options.longest_delay);
    LogWarning("the generation has ended; joining the next one",
               {{"generation", membership->generation},
                {"step", loop.state.step},
                {"pauseSeconds", std::chrono::duration<double>(waits).count()},
                {"reason", std::string(outcome.reason.message())}});
    ended = Ended{.outcome = std::move(outcome), .is_charged = pause.has_value()};
    Pause(SystemClock(), waits, [&loop] { return MustLeave(loop); });
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
    case LoopEnd::kStopped: {
      if (outcome.reason.ok()) return api::kExitPreempted;
      const Exit unsaved = StoppedUnsaved(outcome.reason);
      return Fail(unsaved.reason, unsaved.code);
    }
    case LoopEnd::kDiverged:
      return Fail(reason, api::kExitDiverged);
    case LoopEnd::kStorage:
    case LoopEnd::kStorageRefused:
      return Fail(reason, api::kExitStorage);
    default:
      return FailWith(outcome.reason);
  }
}

int RunGenerations(TrainLoop& loop, const RestartBudgetOptions& options) {
  Exit exit = RunUntilExit(loop, options);
  if (exit.saves) exit = SaveBefore(std::move(exit), loop);
  if (exit.code != api::kExitDone && exit.code != api::kExitPreempted) {
    return Fail(exit.reason, exit.code);
  }
  if (!exit.reason.empty()) {
    LogInfo(loop.rendezvous.StopRequested() ? "asked to stop while waiting for the other replicas"
                                            : "left while waiting for the other replicas",
            {{"reason", exit.reason}});
  }
  loop.reporter.LeaveMessage();
  return exit.code;
}

}  // namespace lockstep::train
