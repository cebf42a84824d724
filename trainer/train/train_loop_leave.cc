// How the ranks leave a group that stops, or that is to have another number of workers.
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

#include "base/log.h"
#include "trainer/train/train_loop.h"

namespace lockstep::train {
namespace {

// After this time rank 0 tries again to save for another number of workers, even if no checkpoint
// was saved meanwhile: the next one that is due may be hours away.
constexpr auto kTriesAgainAfter = std::chrono::minutes(5);

// How long a rank waits for the save of another one before it looks whether its pod must stop.
constexpr auto kLooksAgainAfter = std::chrono::seconds(5);

constexpr char kSaved[] = "saved";

// Another number of workers needs to wait no longer, or there is none.
void TakeNewWorkers(TrainLoop& loop) {
  if (!std::exchange(loop.keeps_workers, std::nullopt)) return;
  loop.rendezvous.SetKeepsWorkers(false);
}

// Rank 0 leaves. The leader hears of it before any other rank leaves: by this it decides what
// becomes of them.
void TakeNewWorkersSaved(TrainLoop& loop) {
  TakeNewWorkers(loop);
  loop.rendezvous.StateIsSaved();
}

}  // namespace

// What this rank adds to the requests of its group. After a save for another number of workers has
// failed, rank 0 decides for all when to try again.
float TrainLoop::StopRequest(int rank) {
  if (rendezvous.StopRequested()) return kStopRequest;
  if (!rendezvous.NewWorkers()) {  // any more
    TakeNewWorkers(*this);
    return 0;
  }
  if (!keeps_workers) return kResizeRequest;
  if (rank != 0 || saver == nullptr) return 0;
  const bool has_saved = saver->outcome().saves > keeps_workers->saves;
  const bool is_due = has_saved || clock.SteadyNow() - keeps_workers->at >= kTriesAgainAfter;
  return is_due ? kResizeRequest : 0;
}

// `stop_requests`: the sum over ranks.
TrainLoop::Ended TrainLoop::LeaveIfAsked(double stop_requests, int rank) {
  if (stop_requests >= static_cast<double>(kStopRequest)) {
    LoopOutcome own = SaveAndEnd(LoopEnd::kStopped, rank);
    if (own.end == LoopEnd::kStopped && rank == 0 && rendezvous.NewWorkers()) {
      if (own.reason.ok()) {
        TakeNewWorkersSaved(*this);
      } else {
        PutOffNewWorkers(rank, own.reason);
      }
    }
    return own;
  }
  return stop_requests > 0 ? LeaveForNewWorkers(rank) : std::nullopt;
}

// Nobody has to leave: the ranks do so only once the state in their memory is saved.
TrainLoop::Ended TrainLoop::LeaveForNewWorkers(int rank) {
  LoopOutcome own = SaveAndEnd(LoopEnd::kStopped, rank);
  if (own.end != LoopEnd::kStopped) return own;
  const std::string key = fmt::format("leave/{}", tries_to_leave++);
  if (rank != 0) return AwaitSave(key);
  const bool is_saved = own.reason.ok();
  if (is_saved) TakeNewWorkersSaved(*this);
  Ended ended = is_saved ? std::move(own) : PutOffNewWorkers(rank, own.reason);
  absl::Status told = rendezvous.store().Set(key, is_saved ? kSaved : "not saved");
  if (is_saved || told.ok()) return ended;
  return LoopOutcome{LoopEnd::kGenerationOver, std::move(told)};
}

// A pod that is asked to stop meanwhile leaves at once: rank 0 saves already.
TrainLoop::Ended TrainLoop::AwaitSave(const std::string& key) {
  rendezvous.SetActivity(api::Activity::kCheckpoint);
  const SteadyTime deadline = clock.SteadyNow() + kBusyWithin;
  for (;;) {
    absl::StatusOr<std::string> said = rendezvous.store().Get(key, kLooksAgainAfter);
    if (said.ok() && *said != kSaved) return PutOffNewWorkers(/*rank=*/-1, absl::OkStatus());
    if (said.ok()) TakeNewWorkers(*this);
    if (said.ok() || rendezvous.StopRequested()) return LoopOutcome{LoopEnd::kStopped, {}};
    if (!absl::IsDeadlineExceeded(said.status()) || clock.SteadyNow() >= deadline) {
      return LoopOutcome{LoopEnd::kGenerationOver, std::move(said).status()};
    }
  }
}

// Its peers wait for it meanwhile, and the group is formed again as it was if this fails.
bool TrainLoop::SavesForNewWorkers() {
  if (saver == nullptr || StepInMemory() <= 0 || keeps_workers) return false;
  if (rendezvous.StopRequested() || !rendezvous.NewWorkers()) return false;
  const LoopOutcome own = SaveAlone();
  if (own.end == LoopEnd::kStopped && !own.reason.ok()) {
    PutOffNewWorkers(/*rank=*/0, own.reason);
    return false;
  }
  if (own.reason.ok()) TakeNewWorkersSaved(*this);
  return true;
}

TrainLoop::Ended TrainLoop::PutOffNewWorkers(int rank, const absl::Status& unsaved) {
  if (rank == 0 && !keeps_workers) {
    LogWarning("the group keeps its number of workers until a checkpoint can be saved",
               {{"step", state.step}, {"reason", std::string(unsaved.message())}});
  }
  const std::int64_t saves = rank == 0 && saver != nullptr ? saver->outcome().saves : 0;
  keeps_workers = {.saves = saves, .at = clock.SteadyNow()};
  rendezvous.SetKeepsWorkers(true);
  return std::nullopt;
}

}  // namespace lockstep::train
