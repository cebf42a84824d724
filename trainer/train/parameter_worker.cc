#include "trainer/train/parameter_worker.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "api/v1/names.h"
#include "base/log.h"
#include "base/status.h"
#include "trainer/train/generations.h"

namespace lockstep::train {
namespace {

proto::TaskDone DoneOf(const BatchTask& task, const BatchTotals& totals) {
  proto::TaskDone done;
  done.set_step(task.step);
  done.set_part(task.part);
  done.set_loss(totals.loss);
  done.set_correct(totals.correct);
  done.set_examples(totals.examples);
  done.set_hash(totals.hash);
  done.set_gradient_norm(totals.gradient_norm);
  done.set_skipped(totals.skipped);
  return done;
}

LoopOutcome Stopped() {
  return {LoopEnd::kStopped, absl::OkStatus()};
}

}  // namespace

ParameterWorker::ParameterWorker(ParameterWorkerOptions options, TrainLoop& loop)
    : options_(std::move(options)),
      loop_(loop),
      client_(options_.client, loop.session, loop.clock, loop.phases),
      gradient_(loop.session, loop.phases, /*keeps_states=*/!options_.sync),
      generation_ended_(std::make_shared<std::atomic<bool>>(false)) {
  loop.rendezvous.OnGenerationEnd(
      [ended = generation_ended_](std::uint64_t, const std::string&) { *ended = true; });
  if (options_.owns) {
    owner_.emplace(loop, client_, options_.sync ? loop.session.plan().world : 0);
    client_.StayConnected();
  }
}

LoopOutcome ParameterWorker::Run() {
  LoopOutcome outcome = Train();
  if (outcome.end != LoopEnd::kDone) {
    return owner_ ? owner_->SaveKept(std::move(outcome)) : outcome;
  }
  if (owner_) loop_.reporter.Flush(loop_.state);
  // The servers exit once they have heard of it. If this process dies then, its successor hears it
  // from the supervisor.
  const absl::Status finished = FinishRendezvous();
  if (!finished.ok() && !absl::IsAlreadyExists(finished)) {
    LogWarning("the supervisor did not hear that the run is over",
               {{"reason", std::string(finished.message())}});
  }
  FinishServers();
  return outcome;
}

// Tells the leading pod's supervisor that the run is over.
absl::Status ParameterWorker::FinishRendezvous() {
  for (;;) {
    const absl::Status finished = loop_.rendezvous.Finish();
    if (!absl::IsAborted(finished)) return finished;
    LOCKSTEP_RETURN_IF_ERROR(Join());
  }
}

void ParameterWorker::FinishServers() {
  if (owner_) owner_->Finish();
}

LoopOutcome ParameterWorker::Train() {
  if (owner_) {
    if (Ended ended = owner_->EndIfTrained()) return *std::move(ended);
  }
  for (;;) {
    if (StopRequested() && (!owner_ || loop_.state.step < 0)) {
      ReportLastTask();
      return Stopped();
    }
    if (!StopRequested() && generation_ended_->exchange(false)) {
      if (Ended ended = JoinAgain()) return *std::move(ended);
    }
    next_.set_wants_task(true);
    if (owner_) owner_->Report(next_);
    const absl::StatusOr<proto::TaskReply> reply = Ask();
    const proto::Next told = std::exchange(next_, {});
    if (!reply.ok()) return *NoteFailure(reply.status());
    CountBatches(told, *reply);
    if (owner_) {
      if (Ended ended = owner_->Hear(*reply)) return *std::move(ended);
      if (std::string loss = owner_->TakeLoss(); !loss.empty()) {
        next_.set_fence(reply->fence());
        next_.set_lost(std::move(loss));
        continue;
      }
    }
    if (Ended ended = Follow(*reply)) return *std::move(ended);
  }
}

// Sends the next report. While the run is halted, the answer is waited for as in a rendezvous.
absl::StatusOr<proto::TaskReply> ParameterWorker::Ask() {
  const PhaseTimer timer(loop_.phases, is_halted_ ? Phase::kRendezvous : Phase::kCommunication);
  absl::StatusOr<proto::TaskReply> reply = client_.Next(next_);
  is_halted_ = reply.ok() && reply->wait().is_halted();
  return reply;
}

// Server 0 says which batches count: another process may have been faster, or the values are lost.
void ParameterWorker::CountBatches(const proto::Next& told, const proto::TaskReply& reply) {
  for (int i = 0; i < std::min(told.done_size(), reply.counted_size()); ++i) {
    if (!reply.counted(i)) continue;
    const proto::TaskDone& done = told.done(i);
    loop_.reporter.BatchCounted(told.fence(), done.step(),
                                static_cast<std::int64_t>(done.examples()));
  }
}

absl::Status ParameterWorker::Join() {
  const auto membership = loop_.rendezvous.Join(loop_.state.step, loop_.session.Fingerprint());
  if (membership.ok() && !owner_) loop_.reporter.Joined(*membership);
  return membership.status();
}

ParameterWorker::Ended ParameterWorker::JoinAgain() {
  const PhaseTimer timer(loop_.phases, Phase::kRendezvous);
  const absl::Status joined = Join();
  // AlreadyExists: the run is over, which server 0 says, too. Cancelled: the caller saves first.
  const bool goes_on = joined.ok() || absl::IsAlreadyExists(joined) || absl::IsCancelled(joined);
  return goes_on ? std::nullopt : Ended(FailedFor(joined));
}

ParameterWorker::Ended ParameterWorker::Follow(const proto::TaskReply& reply) {
  switch (reply.answer_case()) {
    case proto::TaskReply::kTask:
      return RunTask(reply.task(), reply.fence());
    case proto::TaskReply::kWait:
      return Wait(reply.wait());
    case proto::TaskReply::kLoad:
      if (!owner_) return std::nullopt;
      return StopRequested() ? Stopped() : owner_->Load(reply.fence());
    case proto::TaskReply::kPaused: {
      if (!owner_) return std::nullopt;
      Ended ended = owner_->Pause(reply.paused().step());
      next_.set_lost(owner_->TakeLoss());
      return ended;
    }
    case proto::TaskReply::kFinished:
      return LoopOutcome{LoopEnd::kDone, absl::OkStatus()};
    default:
      return FailedFor(absl::InternalError("the coordinator's answer is of an unknown kind"));
  }
}

ParameterWorker::Ended ParameterWorker::Wait(const proto::Wait& wait) {
  const absl::Status status = client_.NoteWait(wait.reason(), wait.missing());
  return status.ok() ? std::nullopt : NoteFailure(status);
}

// Nullopt: the values of this fence are lost, which the next report says.
ParameterWorker::Ended ParameterWorker::NoteFailure(const absl::Status& status) {
  if (absl::IsCancelled(status)) return Stopped();
  if (!absl::IsFailedPrecondition(status)) return FailedFor(status);
  LogWarning("the values are lost", {{"reason", std::string(status.message())}});
  next_.set_fence(fence_);
  next_.set_lost(std::string(status.message()));
  return std::nullopt;
}

absl::StatusOr<ShardGroup::PushResult> ParameterWorker::Push(const BatchTotals& totals,
                                                             BatchTask task,
                                                             std::vector<std::int64_t> versions) {
  const double most = loop_.session.training().optimizer.global_clip_norm;
  const bool clips = most > 0 && totals.gradient_norm > most;
  return client_.Push({.fence = fence_,
                       .step = task.step,
                       .part = task.part,
                       .versions = std::move(versions),
                       .scale = clips ? static_cast<float>(most / totals.gradient_norm) : 1.0f,
                       .skip = totals.skipped});
}

ParameterWorker::Ended ParameterWorker::RunTask(const proto::Task& task, std::uint64_t fence) {
  loop_.rendezvous.SetActivity(api::Activity::kStep);
  fence_ = fence;
  if (owner_) owner_->ForgetValues();
  const BatchTask batch{task.step(), task.part()};
  absl::StatusOr<std::vector<std::int64_t>> versions = [&] {
    const PhaseTimer timer(loop_.phases, Phase::kCommunication);
    return client_.Pull(
        {.fence = fence, .version = task.step(), .scale = task.scale(), .skip = task.skip()},
        /*slots=*/false);
  }();
  if (!versions.ok()) return NoteFailure(versions.status());
  const absl::StatusOr<BatchTotals> totals = gradient_.Compute(batch);
  if (!totals.ok()) return FailedFor(totals.status());
  const PhaseTimer timer(loop_.phases, Phase::kCommunication);
  const auto pushed = Push(*totals, batch, *std::move(versions));
  if (!pushed.ok()) return NoteFailure(pushed.status());
  next_.set_fence(fence);
  *next_.add_done() = DoneOf(batch, *totals);
  next_.set_stopping(pushed->stopping);
  return std::nullopt;
}

// The servers have the task's gradient, so that it need not be computed again.
void ParameterWorker::ReportLastTask() {
  if (next_.done().empty()) return;
  next_.set_wants_task(false);
  const auto heard = client_.Next(next_);
  if (heard.ok()) {
    CountBatches(next_, *heard);
  } else {
    LogInfo("left", {{"reason", std::string(heard.status().message())}});
  }
}

namespace {

ParameterWorkerOptions OptionsFor(const Identity& identity, bool owns) {
  const auto servers = identity.strategy.parameter_server.value_or(api::ParameterServerSpec{});
  return {.client = ParameterClientOptionsFor(identity),
          .owns = owns,
          .sync = servers.mode == api::ParameterServerMode::kSync};
}

}  // namespace

int RunParameterWorker(const Identity& identity, TrainLoop& loop) {
  const bool owns = identity.IsLeader() && identity.local_rank == 0;
  auto worker = std::make_unique<ParameterWorker>(OptionsFor(identity, owns), loop);
  if (const absl::Status joined = worker->Join(); !joined.ok()) {
    if (absl::IsAlreadyExists(joined)) {
      worker->FinishServers();  // this process's predecessor may have died before
      return api::kExitDone;
    }
    if (absl::IsCancelled(joined)) return api::kExitPreempted;
    return FailWith(joined);
  }
  const LoopOutcome outcome = worker->Run();
  worker.reset();  // hangs up: the servers wait for that
  const bool has_state = loop.state.step >= 0;
  if (owns && has_state && outcome.end != LoopEnd::kDone) loop.reporter.Flush(loop.state);
  const int exit_code = ExitCodeOfEnd(outcome);
  if (exit_code == api::kExitDone || exit_code == api::kExitPreempted) {
    loop.reporter.LeaveMessage();
  }
  return exit_code;
}

}  // namespace lockstep::train
