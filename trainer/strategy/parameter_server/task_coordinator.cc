#include "trainer/strategy/parameter_server/task_coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/hmac.h"
#include "base/log.h"
#include "trainer/rendezvous/fingerprint.h"

namespace lockstep::train {
namespace {

// In one reply, whose size gRPC bounds.
constexpr std::int64_t kMostRecords = 1000;

std::uint64_t NewFence() {
  std::uint64_t fence = 0;
  while (fence == 0) {
    const std::string bytes = RandomBytes(sizeof fence);
    std::memcpy(&fence, bytes.data(), sizeof fence);
  }
  return fence;
}

BatchTotals TotalsOf(const proto::TaskDone& done) {
  return {.loss = done.loss(),
          .correct = done.correct(),
          .examples = done.examples(),
          .hash = done.hash(),
          .gradient_norm = done.gradient_norm(),
          .skipped = done.skipped()};
}

proto::StepRecord RecordOf(std::int64_t step, const BatchTotals& totals) {
  proto::StepRecord record;
  record.set_step(step);
  record.set_loss(totals.loss);
  record.set_correct(totals.correct);
  record.set_examples(totals.examples);
  record.set_hash(totals.hash);
  record.set_gradient_norm(totals.gradient_norm);
  record.set_skipped(totals.skipped);
  return record;
}

}  // namespace

absl::StatusOr<TaskCoordinator::Session> TaskCoordinator::Enter(const proto::Introduction& who) {
  const std::lock_guard lock(mutex_);
  if (fingerprint_.empty()) fingerprint_ = who.fingerprint();
  if (const auto difference = FirstDifference(who.fingerprint(), fingerprint_)) {
    return absl::FailedPreconditionError(
        fmt::format("{} {} has {}, expected {} as the process that came first has it", who.role(),
                    who.index(), difference->own, difference->other));
  }
  const Place place(who.role(), who.index(), who.local_rank());
  const Incarnation incarnation{who.pod_started(), who.process_number()};
  Process& process = processes_[place];
  if (process.incarnation > incarnation) {
    return absl::AbortedError(
        fmt::format("a later process is {} {} already", who.role(), who.index()));
  }
  if (process.is_here && book_) book_->Leave(process.session);
  // A process that has lost its connection may repeat its last report on the next one.
  Report last = process.incarnation == incarnation ? std::move(process.last) : Report{};
  process = {.session = ++last_session_,
             .incarnation = incarnation,
             .is_here = true,
             .last = std::move(last)};
  visits_[process.session] = {place, incarnation};
  if (place == Place(options_.owner_role, 0, 0)) owner_ = process.session;
  LogInfo("a process has joined",
          {{"role", who.role()}, {"index", who.index()}, {"localRank", who.local_rank()}});
  changed_.notify_all();
  return process.session;
}

void TaskCoordinator::Leave(Session session) {
  const std::lock_guard lock(mutex_);
  const auto visit = visits_.find(session);
  if (visit == visits_.end()) return;
  const Place& place = visit->second.place;
  Process& process = processes_[place];
  if (process.session == session) {
    process.is_here = false;
    if (book_) book_->Leave(session);
    const auto& [role, index, local_rank] = place;
    LogInfo("a process has left", {{"role", role}, {"index", index}, {"localRank", local_rank}});
  }
  if (owner_ == session) owner_ = 0;
  visits_.erase(visit);
  changed_.notify_all();
}

bool TaskCoordinator::IsCurrent(Session session) const {
  const auto visit = visits_.find(session);
  return visit != visits_.end() && processes_.at(visit->second.place).session == session;
}

void TaskCoordinator::Count(Session session, const proto::Next& next, proto::TaskReply& reply) {
  if (stage_ != Stage::kRunning || next.fence() != fence_) return;
  // A process whose place another one has must not end that one's fence. A process that has lost
  // only its connection says the same on the next.
  const bool is_current = IsCurrent(session);
  if (!next.lost().empty()) return is_current ? EndFence(next.lost()) : void();
  std::int64_t step = book_->complete();
  CountBatches(session, next, reply);
  for (const BatchTotals& totals : book_->TakeRecords()) {
    records_.push_back(RecordOf(step++, totals));
  }
  if (next.stopping() && is_current) book_->LimitNow();
}

// The repeated report may arrive before the first one, whose connection is broken; the first one is
// ignored then.
void TaskCoordinator::CountBatches(Session session, const proto::Next& next,
                                   proto::TaskReply& reply) {
  if (next.done().empty()) return;
  Report report{.session = session, .fence = next.fence(), .done = {}, .counted = {}};
  for (const proto::TaskDone& done : next.done()) {
    report.done.push_back({done.step(), done.part()});
  }
  const auto visit = visits_.find(session);
  Process* process = visit == visits_.end() ? nullptr : &processes_[visit->second.place];
  const bool has_place = process != nullptr && process->incarnation == visit->second.incarnation;
  // The process has sent this on its next connection, and goes on from there.
  if (has_place && process->last.session > session) return;
  if (has_place && process->last.fence == report.fence && process->last.done == report.done) {
    report.counted = process->last.counted;
  } else {
    for (const proto::TaskDone& done : next.done()) {
      report.counted.push_back(book_->Done(session, {done.step(), done.part()}, TotalsOf(done)));
    }
  }
  for (const bool counted : report.counted) reply.add_counted(counted);
  if (has_place) process->last = std::move(report);
}

void TaskCoordinator::EndFence(const std::string& reason) {
  LogWarning("the values are lost: the leading process has to load them again",
             {{"reason", reason}, {"step", book_->complete()}});
  stage_ = Stage::kEmpty;
  fence_ = 0;
  book_.reset();
  records_.clear();
}

void TaskCoordinator::HearOwner(const proto::Next& next) {
  const proto::OwnerReport& report = next.owner();
  if (report.finished()) {
    stage_ = Stage::kFinished;
    return;
  }
  if (stage_ == Stage::kLoading && report.loaded() == fence_) {
    stage_ = Stage::kRunning;
    LeaseBookOptions leases = options_.leases;
    leases.parts = std::max(1, report.parts());
    book_.emplace(leases, report.step(), report.until());
    run_state_ = report.run_state();
    run_state_step_ = report.step();
    LogInfo("the values are loaded", {{"step", report.step()}, {"until", report.until()}});
    return;
  }
  if (stage_ != Stage::kRunning || next.fence() != fence_) return;
  if (report.step() > run_state_step_) {
    for (; !records_.empty() && records_.front().step() < report.step(); records_.pop_front()) {
    }
    run_state_step_ = report.step();
  }
  if (report.step() == run_state_step_ && !report.run_state().empty()) {
    run_state_ = report.run_state();
  }
  if (report.until() > 0) book_->SetLimit(report.until());
  if (report.pause()) book_->LimitNow();
}

proto::TaskReply TaskCoordinator::Next(Session session, const proto::Next& next) {
  std::unique_lock lock(mutex_);
  proto::TaskReply reply;
  const std::int64_t complete = book_ ? book_->complete() : 0;
  Count(session, next, reply);
  // In Sync, there is nothing to begin before the last part of a step is done.
  const bool is_done =
      !next.done().empty() && (!options_.leases.sync || !book_ || book_->complete() != complete);
  if (IsOwner(session) && next.has_owner()) HearOwner(next);
  // A question alone changes nothing for the others. Each of hundreds of workers that wait asks
  // again and again, and all would wake up and look for each question. What only time changes, they
  // see when their own patience ends.
  if (is_done || !next.lost().empty() || next.stopping() || next.has_owner()) {
    changed_.notify_all();
  }
  const bool answered = changed_.wait_for(
      lock, options_.patience, [&] { return is_stopped_ || Answer(session, next, reply); });
  if (!answered || is_stopped_) *reply.mutable_wait() = WhatIsAwaited();
  if (IsOwner(session)) AddRecords(next, reply);
  reply.set_fence(fence_);
  if (book_) reply.set_dropped(book_->dropped());
  return reply;
}

bool TaskCoordinator::Answer(Session session, const proto::Next& next, proto::TaskReply& reply) {
  if (!IsCurrent(session)) {
    reply.mutable_turned()->set_reason("a later process has this one's place");
    reply.mutable_turned()->set_superseded(true);
    return true;
  }
  if (stage_ == Stage::kFinished) {
    reply.mutable_finished();
    return true;
  }
  if (IsOwner(session) && AnswerOwner(next, reply)) return true;
  if (!next.wants_task()) {
    *reply.mutable_wait() = WhatIsAwaited();
    return true;
  }
  if (stage_ != Stage::kRunning) return false;
  const std::optional<BatchTask> task = book_->Take(session, clock_.SteadyNow());
  if (!task) return false;
  reply.mutable_task()->set_step(task->step);
  reply.mutable_task()->set_part(task->part);
  reply.mutable_task()->set_scale(1);
  reply.mutable_task()->set_skip(book_->LastSkipped());
  return true;
}

bool TaskCoordinator::AnswerOwner(const proto::Next& next, proto::TaskReply& reply) {
  if (stage_ != Stage::kRunning) {
    // Each order has its own fence, so that a load that was cut short cannot mix with the next.
    stage_ = Stage::kLoading;
    fence_ = NewFence();
    reply.mutable_load();
    return true;
  }
  // An owner that does not know the fence has to take the run's state first.
  if (next.fence() != fence_) {
    *reply.mutable_wait() = WhatIsAwaited();
    return true;
  }
  if (RecordsFor(next) > kMostRecords) {  // it has to have them all before it pauses
    *reply.mutable_wait() = WhatIsAwaited();
    return true;
  }
  if (!book_->IsPaused()) return false;
  reply.mutable_paused()->set_step(book_->complete());
  return true;
}

// The number of records that the owner, which has said `next`, has yet to get.
std::int64_t TaskCoordinator::RecordsFor(const proto::Next& next) const {
  const std::int64_t first = next.fence() == fence_ ? next.owner().step() : run_state_step_;
  return std::clamp<std::int64_t>(book_->complete() - first, 0, std::ssize(records_));
}

void TaskCoordinator::AddRecords(const proto::Next& next, proto::TaskReply& reply) const {
  if (stage_ != Stage::kRunning) return;
  if (next.fence() != fence_) {
    reply.set_run_state(run_state_);
    reply.set_run_state_step(run_state_step_);
  }
  const std::int64_t left = RecordsFor(next);
  auto record = records_.end() - left;
  for (std::int64_t i = 0; i < std::min(left, kMostRecords); ++i) *reply.add_records() = *record++;
}

std::string TaskCoordinator::OwnerName() const {
  return fmt::format("{} 0, the leading process", options_.owner_role);
}

proto::Wait TaskCoordinator::WhatIsAwaited() const {
  proto::Wait wait;
  if (stage_ == Stage::kRunning && !book_->IsPaused()) {
    wait.set_reason("the batches of other workers");
    return wait;
  }
  wait.set_is_halted(true);
  wait.set_reason(
      stage_ == Stage::kRunning
          ? fmt::format("{}, which evaluates or saves at step {}", OwnerName(), book_->complete())
          : fmt::format("{}, which has to load the values", OwnerName()));
  if (owner_ == 0) wait.set_missing(fmt::format("{} {}", options_.owner_role, 0));
  return wait;
}

void TaskCoordinator::Stop() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  changed_.notify_all();
}

bool TaskCoordinator::finished() const {
  const std::lock_guard lock(mutex_);
  return stage_ == Stage::kFinished;
}

int TaskCoordinator::sessions() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(visits_.size());
}

}  // namespace lockstep::train
