// Who computes which batch: a pure state machine over the steps of a run. It makes every part of
// every step count exactly once, whoever comes, goes or hangs.
//
// A step has `parts` tasks: one in Async, where a step is one worker's batch; R in Sync, where the
// global batch is cut for R workers. A task that is not done when its last holder leaves, or after
// `patience`, goes to the next worker that asks.
//
// Async: tasks are given out in the order of steps, and several steps are under way at a time. A
// worker waits while the number of tasks that it has begun exceeds the number that the slowest
// other worker (not counting late ones) has finished by more than `max_staleness` (Ho et al., "More
// effective distributed ML via a stale synchronous parallel parameter
//   server", 2013): 0 makes all wait for all.
// Sync: a step begins when the one before it is complete. With `backups`, a worker that finds no
//   free task takes one that another still computes; the first to be done counts. (TensorFlow's
// SyncReplicasOptimizer drops the samples of late workers. Here, the copy of a task has the same
// samples, so none is lost.)
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"

namespace lockstep::train {

struct BatchTask {
  std::int64_t step = 0;
  int part = 0;
  auto operator<=>(const BatchTask&) const = default;
};

// Sums over the samples of a task, or of all tasks of a step.
struct BatchTotals {
  double loss = 0, correct = 0, examples = 0;
  std::uint64_t hash = 0;
  double gradient_norm = 0;  // the largest of the parts'
  bool skipped = false;      // if one part is skipped, the whole step is
  bool operator==(const BatchTotals&) const = default;
};

struct LeaseBookOptions {
  bool sync = false;
  int parts = 1;
  std::int64_t max_staleness = 16;
  bool backups = false;
  Duration patience = std::chrono::minutes(5);
};

// Not thread-safe.
class LeaseBook {
 public:
  using Worker = std::int64_t;

  // Steps [first, limit) are to be done.
  LeaseBook(const LeaseBookOptions& options, std::int64_t first, std::int64_t limit);

  // Returns a task for the worker, or nullopt if there is none for it now: it is too far ahead, or
  // every task below the limit is done or being computed.
  std::optional<BatchTask> Take(Worker worker, SteadyTime now);
  // Returns false if the task was done before: the caller's result does not count. Requires: the
  // book has given it out.
  bool Done(Worker worker, BatchTask task, const BatchTotals& totals);
  // The worker is gone.
  void Leave(Worker worker);

  // Gives out no task of a step at or beyond `limit`. Async: a step that has begun is still
  // completed, because the servers have applied parts of it; so limit() may be higher than `limit`.
  // Sync: a step that has begun keeps its finished parts until a later call raises the limit; parts
  // that are still being computed count, too.
  void SetLimit(std::int64_t limit);
  void LimitNow() { SetLimit(0); }
  std::int64_t limit() const { return limit_; }
  // All steps below the limit are complete.
  bool IsPaused() const { return complete_ == limit_; }

  std::int64_t complete() const { return complete_; }  // all steps below it are
  // The totals of steps complete since the last call, in order.
  std::vector<BatchTotals> TakeRecords();
  // Sync: whether the last complete step updated nothing.
  bool LastSkipped() const { return last_skipped_; }
  std::int64_t dropped() const { return dropped_; }  // results that came too late

 private:
  struct Flight {
    std::set<Worker> holders;
    SteadyTime since;
  };
  struct Step {
    std::map<int, BatchTotals> done;
  };
  struct Pace {
    std::int64_t begun = 0, done = 0;
    bool is_late = false;  // holds a task for longer than `patience`: nobody waits for it
  };

  // The number of tasks done by the slowest worker that is not late, or by the fastest if all are
  // late; 0 if there is no worker.
  std::int64_t Slowest() const;
  Pace& PaceOf(Worker worker);
  void CountFor(Worker worker);
  bool IsTooFarAhead(Worker worker);
  void ReturnLateTasks(SteadyTime now);
  void BeginSteps();
  std::optional<BatchTask> TakeFree();
  std::optional<BatchTask> Copy(Worker worker) const;
  bool IsDone(BatchTask task) const;
  void AdvanceComplete();

  const LeaseBookOptions options_;
  std::int64_t complete_, begun_, limit_;  // steps below `begun_` have begun
  std::map<std::int64_t, Step> steps_;     // [complete_, begun_)
  std::set<BatchTask> free_;
  std::map<BatchTask, Flight> flights_;
  std::map<Worker, Pace> paces_;
  std::vector<BatchTotals> records_;
  bool last_skipped_ = false;
  std::int64_t dropped_ = 0;
};

}  // namespace lockstep::train
