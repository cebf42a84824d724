#include "trainer/train/parameter_owner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/pause.h"
#include "trainer/train/evaluate.h"
#include "trainer/train/snapshot.h"

namespace lockstep::train {
namespace {

constexpr int kMostFailedReads = 20;
constexpr auto kBetweenReads = std::chrono::seconds(1);
constexpr auto kBetweenLooks = std::chrono::seconds(1);

LoopOutcome EndOfServers(absl::Status status) {
  if (absl::IsCancelled(status)) return {LoopEnd::kStopped, absl::OkStatus()};
  return FailedFor(std::move(status));
}

// The first multiple of `period` after `step`, or the largest number if it is larger than that.
std::int64_t MultipleAfter(std::int64_t step, std::int64_t period) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  const std::int64_t left = period - step % period;
  return left > kLargest - step ? kLargest : step + left;
}

// As TrainLoop::IsAtEnd, of a checkpoint that is not restored yet.
bool IsTrained(const CheckpointAge& checkpoint, const Session& session) {
  if (checkpoint.step >= session.total_steps()) return true;
  const auto state = RunStateFromJson(checkpoint.state.value("run", nlohmann::json::object()));
  return state.ok() && HasStoppedEarly(session.training(), *state);
}

}  // namespace

ParameterOwner::Ended ParameterOwner::EndIfTrained() {
  if (loop_.store == nullptr) return std::nullopt;
  const auto newest = loop_.store->Newest();
  if (!newest.ok() || !*newest || !IsTrained(**newest, loop_.session)) return std::nullopt;
  if (Ended ended = Restore()) return ended;
  // That checkpoint is damaged, or its evaluations were of another test set.
  if (!loop_.IsAtEnd()) return std::nullopt;
  loop_.reporter.GenerationStarted({.generation = 1, .members = {{}}}, "none", loop_.state);
  if (Ended ended = Evaluate()) return ended;
  return End();
}

// A checkpoint that cannot be read now may be readable later.
ParameterOwner::Ended ParameterOwner::Restore() {
  for (int failed = 1;; ++failed) {
    Ended ended = loop_.RestoreOrInitialize();
    if (!ended || ended->end != LoopEnd::kStorage || failed == kMostFailedReads) return ended;
    LogWarning("no checkpoint can be read now: trying again",
               {{"reason", std::string(ended->reason.message())}});
    const auto stop_requested = [this] { return loop_.rendezvous.StopRequested(); };
    lockstep::Pause(loop_.clock, kBetweenReads, stop_requested);
    if (stop_requested()) return LoopOutcome{LoopEnd::kStopped, absl::OkStatus()};
  }
}

void ParameterOwner::Report(proto::Next& next) {
  proto::OwnerReport& report = *next.mutable_owner();
  if (loaded_ == 0 && fence_ == 0) return;
  if (next.fence() == 0) next.set_fence(fence_);
  report.set_loaded(std::exchange(loaded_, 0));
  report.set_step(loop_.state.step);
  report.set_run_state(RunStateToJson(loop_.state).dump());
  report.set_parts(loop_.session.plan().world);
  report.set_pause(loop_.rendezvous.StopRequested());
  if (std::exchange(reports_until_, false)) report.set_until(NextPause());
}

// The next step at which there is something to evaluate or to save. A checkpoint that was saved for
// a server's sake may be older than the evaluation of its step.
std::int64_t ParameterOwner::NextPause() const {
  const std::int64_t step = loop_.state.step;
  if (loop_.IsAtEnd() || loop_.IsEvaluationDue()) return step;
  std::int64_t next = loop_.session.total_steps();
  const api::TrainingSpec& training = loop_.session.training();
  const std::int64_t every = training.checkpoint.every_steps;
  if (loop_.saver != nullptr && every > 0) next = std::min(next, MultipleAfter(step, every));
  std::int64_t period = 0;  // from one evaluation to the next
  const bool is_endless = __builtin_mul_overflow(training.evaluation.every_epochs,
                                                 loop_.session.plan().StepsPerEpoch(), &period);
  if (loop_.session.test_data() != nullptr && !is_endless) {
    next = std::min(next, MultipleAfter(step, period));
  }
  LOCKSTEP_CHECK(next > step, "the next pause is at step {}, expected one after {}", next, step);
  return next;
}

ParameterOwner::Ended ParameterOwner::Hear(const proto::TaskReply& reply) {
  if (fence_ == 0 && reply.fence() != 0 && !reply.run_state().empty()) {
    const nlohmann::json json =
        nlohmann::json::parse(reply.run_state(), nullptr, /*allow_exceptions=*/false);
    const auto state = RunStateFromJson(json);
    if (!state.ok()) return FailedFor(state.status());
    loop_.state = *state;
    has_values_ = false;
    fence_ = reply.fence();
    FindBest();
    // Server 0 knows where the next pause is: if this process's predecessor has died in one, it is
    // that one again, with what is due there.
    loop_.reporter.GenerationStarted({.generation = 1, .members = {{}}}, "grpc", loop_.state);
  }
  if (fence_ == 0 || reply.fence() != fence_) {
    fence_ = 0;
    return std::nullopt;
  }
  for (int i = 0; i < reply.records_size(); ++i) {
    if (Ended ended = Record(reply.records(i), reply.records_size() - i)) return ended;
  }
  return loop_.LookAtSaver();
}

// The servers have the run's state, and the newest checkpoint the best model: it was saved at once.
// If that save has failed, the run goes back to the newest checkpoint.
void ParameterOwner::FindBest() {
  const BestEvaluation& best = loop_.state.best;
  if (!loop_.KeepsBest(loop_.state) || loop_.best.step == best.step) return;
  if (loop_.store != nullptr) {
    if (loop_.saver != nullptr) loop_.WaitForSave().IgnoreError();  // it uses the store
    auto loaded = loop_.store->LoadLatest(ModelHash(loop_.session));
    if (loaded.ok() && *loaded && loop_.TakeBestOf(**loaded)) return;
  }
  loss_ = fmt::format(
      "the model of the best evaluation, that of step {}, was in the memory of a leading process "
      "that has ended, and the newest checkpoint does not have it",
      best.step);
}

ParameterOwner::Ended ParameterOwner::Record(const proto::StepRecord& record, int left) {
  RunState& state = loop_.state;
  LOCKSTEP_CHECK(record.step() == state.step, "found the record of step {}, expected {}",
                 record.step(), state.step);
  const StepTotals totals{.loss = record.loss(),
                          .correct = record.correct(),
                          .examples = record.examples(),
                          .gradient_norm = record.gradient_norm(),
                          .hash = record.hash(),
                          .skipped = record.skipped()};
  has_values_ = false;
  ApplyStep(totals, loop_.session.plan(), state);
  if (state.skipped_in_a_row > loop_.session.training().max_skipped_steps) {
    return LoopOutcome{LoopEnd::kDiverged,
                       absl::OutOfRangeError(fmt::format(
                           "step {}: found a loss or a gradient that is not finite; lower "
                           "spec.training.optimizer.learningRate",
                           state.step))};
  }
  loop_.reporter.StepRecorded(totals, state, left);
  if (loop_.session.plan().StepInEpoch(state.step) == 0) loop_.reporter.EpochDone(state);
  return std::nullopt;
}

ParameterOwner::Ended ParameterOwner::Load(std::uint64_t fence) {
  fence_ = 0;
  if (loop_.saver != nullptr) {
    // The save that is under way may be the checkpoint to restore. If it fails, an older one is.
    const absl::Status saved = loop_.WaitForSave();
    loop_.rendezvous.SetActivity(api::Activity::kSharingState);
    loop_.reporter.CheckpointOutcome(loop_.saver->outcome());
    if (absl::IsAborted(saved)) return FailedFor(saved);
  }
  if (!has_values_) {
    loop_.state = {};
    if (Ended ended = Restore()) return ended;
  }
  absl::Status loaded = client_.Load(fence, summed_parts_, loop_.state);
  if (!loaded.ok()) return EndOfServers(std::move(loaded));
  fence_ = loaded_ = fence;
  reports_until_ = true;
  loop_.reporter.GenerationStarted({.generation = 1, .members = {{}}}, "grpc", loop_.state);
  return std::nullopt;
}

ParameterOwner::Ended ParameterOwner::Pull() {
  const PhaseTimer timer(loop_.phases, Phase::kCommunication);
  const auto versions = client_.Pull(
      {.fence = fence_, .version = loop_.state.step, .skip = loop_.state.skipped_in_a_row > 0},
      /*slots=*/true);
  if (versions.ok()) {
    has_values_ = true;
    return std::nullopt;
  }
  if (!absl::IsFailedPrecondition(versions.status())) return EndOfServers(versions.status());
  loss_ = std::string(versions.status().message());
  return LoopOutcome{LoopEnd::kGenerationOver, versions.status()};
}

// An evaluation changes nothing that the servers have: whatever becomes of them meanwhile, the
// session has the run's values.
ParameterOwner::Ended ParameterOwner::Evaluate() {
  next_look_ = loop_.clock.SteadyNow() + kBetweenLooks;
  return loop_.EvaluateIfDue(/*rank=*/0, [&]() -> TrainLoop::Evaluated {
    Ended failed;  // to save for a server's sake
    auto evaluated = EvaluateAlone(
        loop_.session, [&] { return failed || loop_.rendezvous.StopRequested(); },
        [&] {
          loop_.reporter.BatchEvaluated();
          failed = LookAtServers();
        });
    if (failed) return *std::move(failed);
    return evaluated;
  });
}

// An evaluation may take longer than a server that was asked to stop has. It goes on between two
// looks, though one may take a second. After the last step, the servers wait for the run's end.
ParameterOwner::Ended ParameterOwner::LookAtServers() {
  if (loop_.clock.SteadyNow() < next_look_ || loop_.IsAtEnd()) return std::nullopt;
  client_.CheckConnected(fence_);
  next_look_ = loop_.clock.SteadyNow() + kBetweenLooks;
  if (!client_.IsServerStopping()) return std::nullopt;
  Ended ended = SaveForServer();
  loop_.rendezvous.SetActivity(api::Activity::kEvaluation);
  return ended;
}

// Before the run goes on from what the servers have: while this process evaluated, nobody else
// called them, so that a server may have been lost or asked to stop without anybody's notice.
ParameterOwner::Ended ParameterOwner::CheckServers() {
  const PhaseTimer timer(loop_.phases, Phase::kCommunication);
  const absl::Status checked = client_.Check(fence_);
  if (absl::IsFailedPrecondition(checked)) {
    loss_ = std::string(checked.message());
    return std::nullopt;
  }
  if (!checked.ok()) return EndOfServers(checked);
  return client_.IsServerStopping() ? SaveForServer() : std::nullopt;
}

LoopOutcome ParameterOwner::End() {
  loop_.reporter.RunDone(loop_.state);
  return loop_.SaveAndEnd(LoopEnd::kDone, /*rank=*/0);
}

ParameterOwner::Ended ParameterOwner::Pause(std::int64_t step) {
  LOCKSTEP_CHECK(step == loop_.state.step, "paused at step {}, expected {}", step,
                 loop_.state.step);
  has_released_ = false;
  if (Ended ended = Pull()) return ended->end == LoopEnd::kGenerationOver ? std::nullopt : ended;
  if (loop_.rendezvous.StopRequested()) {
    LoopOutcome stopped = loop_.SaveAndEnd(LoopEnd::kStopped, /*rank=*/0);
    if (stopped.reason.ok()) client_.ReleaseServers().IgnoreError();
    return stopped;
  }
  const bool is_last = loop_.IsAtEnd();
  if (client_.IsServerStopping() && !is_last) {  // has less time than an evaluation may take
    if (Ended ended = SaveForServer()) return ended;
  }
  const bool evaluates = loop_.IsEvaluationDue();
  if (Ended ended = Evaluate()) return ended;
  if (is_last) return End();
  if (has_released_) return std::nullopt;
  // Before it waits for servers that are away: its own process may be lost meanwhile, and with it
  // the best model, which no server has.
  const bool has_new_best = loop_.KeepsBest(loop_.state) && loop_.state.best.step == step;
  if (Ended ended = SaveAtPause(evaluates && has_new_best)) return ended;
  if (evaluates) {
    if (Ended ended = CheckServers()) return ended;
  }
  reports_until_ = loss_.empty();
  return std::nullopt;
}

// A pause that was not planned was for the sake of a server that was asked to stop.
ParameterOwner::Ended ParameterOwner::SaveAtPause(bool has_new_best) {
  const std::int64_t every = loop_.session.training().checkpoint.every_steps;
  const StepPlan& plan = loop_.session.plan();
  const bool is_planned =
      (every > 0 && loop_.state.step % every == 0) || plan.StepInEpoch(loop_.state.step) == 0;
  if (is_planned && !has_new_best) return loop_.SaveIfDue(/*rank=*/0);
  if (loop_.saver == nullptr) return std::nullopt;
  if (Ended diverged = loop_.CheckParameters()) return diverged;
  loop_.StartSave();
  return std::nullopt;
}

// A server that was asked to stop is about to lose its part of the values, and waits for the save.
// The session has all values until they are loaded again, even if the save fails: the next report
// ends their fence, so that nobody gets a task meanwhile.
ParameterOwner::Ended ParameterOwner::SaveForServer() {
  if (loop_.saver != nullptr && !has_released_) {
    const PhaseTimer timer(loop_.phases, Phase::kCheckpoint);
    if (Ended diverged = loop_.CheckParameters()) return diverged;
    if (loop_.state != loop_.last_save) loop_.StartSave();
    const absl::Status saved = loop_.WaitForSave();
    if (Ended ended = loop_.LookAtSaver()) return ended;
    if (!saved.ok()) {
      LogWarning("the values of a parameter server that may stop are not saved",
                 {{"step", loop_.state.step}, {"reason", std::string(saved.message())}});
    }
  }
  const absl::StatusOr<bool> released = client_.ReleaseServers();
  if (!released.ok()) return FailedFor(released.status());
  if (!*released) return std::nullopt;  // none ends: the run goes on with them
  has_released_ = true;
  loss_ = "a parameter server was asked to stop; the leading process has its values";
  LogInfo("a parameter server may stop: its values are here", {{"step", loop_.state.step}});
  return std::nullopt;
}

absl::Status ParameterOwner::RefusedSave() const {
  if (loop_.saver == nullptr) return absl::OkStatus();
  const absl::Status saved = loop_.saver->Wait();
  return !saved.ok() && EndOfStore(saved).end == LoopEnd::kFailed ? saved : absl::OkStatus();
}

LoopOutcome ParameterOwner::SaveKept(LoopOutcome ended) {
  // Other ends, and a stop with a reason, say that the values must not be saved or cannot be.
  const bool may_save =
      ended.end == LoopEnd::kFailed || (ended.end == LoopEnd::kStopped && ended.reason.ok());
  if (!has_values_ || !may_save) return ended;
  if (const absl::Status refused = RefusedSave(); !refused.ok()) {
    return ended.end == LoopEnd::kStopped ? LoopOutcome{LoopEnd::kStopped, refused} : ended;
  }
  LoopOutcome saved = loop_.SaveAlone();
  if (ended.end == LoopEnd::kStopped) return saved;
  if (!saved.reason.ok()) {
    LogWarning("the values that the leading process has are not saved",
               {{"step", loop_.state.step}, {"reason", std::string(saved.reason.message())}});
  }
  return ended;
}

void ParameterOwner::Finish() {
  proto::Next next;
  next.mutable_owner()->set_finished(true);
  client_.Finish(next);
}

}  // namespace lockstep::train
