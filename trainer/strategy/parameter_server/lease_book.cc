#include "trainer/strategy/parameter_server/lease_book.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lockstep::train {
namespace {

// In the order of parts, so that the sums do not depend on who was faster.
BatchTotals SumOf(const std::map<int, BatchTotals>& parts) {
  BatchTotals sum;
  for (const auto& [part, totals] : parts) {
    sum.loss += totals.loss;
    sum.correct += totals.correct;
    sum.examples += totals.examples;
    sum.hash += totals.hash;
    sum.gradient_norm = std::max(sum.gradient_norm, totals.gradient_norm);
    sum.skipped = sum.skipped || totals.skipped;
  }
  if (sum.skipped) sum.loss = sum.correct = 0;
  return sum;
}

}  // namespace

LeaseBook::LeaseBook(const LeaseBookOptions& options, std::int64_t first, std::int64_t limit)
    : options_(options), complete_(first), begun_(first), limit_(std::max(first, limit)) {}

// If all are late, nobody is waited for. Whoever joins or comes back then has done as many as the
// fastest: with fewer, the others would have to wait for it when they come back.
std::int64_t LeaseBook::Slowest() const {
  std::optional<std::int64_t> slowest;
  std::int64_t fastest = 0;
  for (const auto& [worker, pace] : paces_) {
    fastest = std::max(fastest, pace.done);
    if (!pace.is_late) slowest = std::min(slowest.value_or(pace.done), pace.done);
  }
  return slowest.value_or(fastest);
}

// A newcomer is as far as the slowest: it has missed nothing that anybody waits for.
LeaseBook::Pace& LeaseBook::PaceOf(Worker worker) {
  const auto known = paces_.find(worker);
  if (known != paces_.end()) return known->second;
  const std::int64_t start = Slowest();
  return paces_.emplace(worker, Pace{.begun = start, .done = start}).first->second;
}

bool LeaseBook::IsTooFarAhead(Worker worker) {
  const Pace& own = PaceOf(worker);
  return std::ranges::any_of(paces_, [&](const auto& entry) {
    const auto& [other, pace] = entry;
    return other != worker && !pace.is_late && own.begun - pace.done > options_.max_staleness;
  });
}

void LeaseBook::ReturnLateTasks(SteadyTime now) {
  for (auto& [task, flight] : flights_) {
    if (now - flight.since < options_.patience) continue;
    for (const Worker holder : flight.holders) PaceOf(holder).is_late = true;
    flight.since = now;
    free_.insert(task);
  }
}

void LeaseBook::BeginSteps() {
  if (!free_.empty() || begun_ >= limit_) return;
  if (options_.sync && begun_ > complete_) return;
  steps_[begun_];
  for (int part = 0; part < options_.parts; ++part) free_.insert({begun_, part});
  ++begun_;
}

std::optional<BatchTask> LeaseBook::TakeFree() {
  if (free_.empty() || free_.begin()->step >= limit_) return std::nullopt;
  return free_.extract(free_.begin()).value();
}

// Returns the oldest task that one other worker computes.
std::optional<BatchTask> LeaseBook::Copy(Worker worker) const {
  for (const auto& [task, flight] : flights_) {
    if (task.step >= limit_) break;
    if (flight.holders.size() == 1 && !flight.holders.contains(worker)) return task;
  }
  return std::nullopt;
}

std::optional<BatchTask> LeaseBook::Take(Worker worker, SteadyTime now) {
  ReturnLateTasks(now);
  if (!options_.sync && IsTooFarAhead(worker)) return std::nullopt;
  BeginSteps();
  std::optional<BatchTask> task = TakeFree();
  if (!task && options_.backups) task = Copy(worker);
  if (!task) return std::nullopt;
  Flight& flight = flights_[*task];
  if (flight.holders.empty()) flight.since = now;
  flight.holders.insert(worker);
  PaceOf(worker).begun += 1;
  return task;
}

bool LeaseBook::IsDone(BatchTask task) const {
  if (task.step < complete_) return true;
  const auto step = steps_.find(task.step);
  return step != steps_.end() && step->second.done.contains(task.part);
}

// A worker that has left may still be heard: it gets no pace, which nobody would end. One that was
// late goes on as a newcomer: the others have not waited for it, and must not begin to.
void LeaseBook::CountFor(Worker worker) {
  const auto known = paces_.find(worker);
  if (known == paces_.end()) return;
  Pace& pace = known->second;
  pace.done += 1;
  if (pace.is_late) pace.done = std::max(pace.done, Slowest());
  pace.begun = std::max(pace.begun, pace.done);
  pace.is_late = false;
}

bool LeaseBook::Done(Worker worker, BatchTask task, const BatchTotals& totals) {
  LOCKSTEP_CHECK(task.step < begun_ && task.part >= 0 && task.part < options_.parts,
                 "step {}, part {} is done, which nobody was given", task.step, task.part);
  CountFor(worker);
  if (IsDone(task)) {
    ++dropped_;
    return false;
  }
  steps_[task.step].done[task.part] = totals;
  flights_.erase(task);
  free_.erase(task);
  AdvanceComplete();
  return true;
}

void LeaseBook::AdvanceComplete() {
  const auto parts = static_cast<std::size_t>(options_.parts);
  while (!steps_.empty() && steps_.begin()->second.done.size() == parts) {
    records_.push_back(SumOf(steps_.begin()->second.done));
    last_skipped_ = records_.back().skipped;
    steps_.erase(steps_.begin());
    ++complete_;
  }
  limit_ = std::max(limit_, complete_);
}

void LeaseBook::Leave(Worker worker) {
  paces_.erase(worker);
  for (auto at = flights_.begin(); at != flights_.end();) {
    at->second.holders.erase(worker);
    if (!at->second.holders.empty()) {
      ++at;
      continue;
    }
    free_.insert(at->first);
    at = flights_.erase(at);
  }
}

void LeaseBook::SetLimit(std::int64_t limit) {
  limit_ = std::max(limit, options_.sync ? complete_ : begun_);
}

std::vector<BatchTotals> LeaseBook::TakeRecords() {
  return std::exchange(records_, {});
}

}  // namespace lockstep::train
