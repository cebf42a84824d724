// What server 0 knows of the run: which process is here, which steps are done, and what each
// process shall do next. It answers proto::Next; the gRPC service and its streams are in
// parameter_server.cc.
//
// The leading process (the owner) loads the values onto all servers; from then on the run has a
// fence, and workers get tasks. At the steps that the owner names, no task is given out until it
// has evaluated or saved, and says so. If a server is lost, the fence ends, and the owner loads
// again. If the owner is lost, training goes on to the next such step; the owner's successor gets
// the run's state as its predecessor left it here, and the records of the steps since.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "api/proto/parameter_server.pb.h"
#include "base/clock.h"
#include "trainer/identity/identity.h"
#include "trainer/strategy/parameter_server/lease_book.h"

namespace lockstep::train {

struct TaskCoordinatorOptions {
  std::string owner_role = "worker";  // of the leading process, whose index and local rank are 0
  LeaseBookOptions leases;            // without `parts`, which the owner knows
  // How long Next waits for something to say. Callers look at their stop signal in between.
  Duration patience = std::chrono::milliseconds(500);
};

// Thread-safe.
class TaskCoordinator {
 public:
  using Session = LeaseBook::Worker;

  TaskCoordinator(const TaskCoordinatorOptions& options, const Clock& clock)
      : options_(options), clock_(clock) {}

  // A process has introduced itself; a process that had its place before is turned away from now
  // on. Aborted: a later process has its place. FailedPrecondition: its model differs from the
  // others'.
  absl::StatusOr<Session> Enter(const proto::Introduction& who);
  // The process's stream has ended: its tasks go to others.
  void Leave(Session session);
  // Counts what the process has done and returns what it shall do. A process that repeats its last
  // report, because it has lost the answer, is told the same about its batches. Blocks for at most
  // `patience`.
  proto::TaskReply Next(Session session, const proto::Next& next);
  // Ends all waits of Next, now and later.
  void Stop();

  bool finished() const;
  int sessions() const;  // processes that are connected

 private:
  enum class Stage { kEmpty, kLoading, kRunning, kFinished };
  using Place = std::tuple<std::string, int, int>;  // role, index, local rank
  // A process's last report of batches, and what it was told.
  struct Report {
    Session session = 0;  // the latest that has sent it
    std::uint64_t fence = 0;
    std::vector<BatchTask> done;
    std::vector<bool> counted;
  };
  struct Process {
    Session session = 0;
    Incarnation incarnation;
    bool is_here = false;
    Report last = {};
  };
  struct Visit {
    Place place;
    Incarnation incarnation;
  };

  bool IsOwner(Session session) const { return session != 0 && session == owner_; }
  bool IsCurrent(Session session) const;
  void Count(Session session, const proto::Next& next, proto::TaskReply& reply);
  void CountBatches(Session session, const proto::Next& next, proto::TaskReply& reply);
  void HearOwner(const proto::Next& next);
  void EndFence(const std::string& reason);
  bool Answer(Session session, const proto::Next& next, proto::TaskReply& reply);
  bool AnswerOwner(const proto::Next& next, proto::TaskReply& reply);
  std::int64_t RecordsFor(const proto::Next& next) const;
  void AddRecords(const proto::Next& next, proto::TaskReply& reply) const;
  std::string OwnerName() const;
  proto::Wait WhatIsAwaited() const;

  const TaskCoordinatorOptions options_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopped_ = false;
  Session last_session_ = 0, owner_ = 0;  // owner_ is 0 while the owner is not connected
  std::map<Place, Process> processes_;
  std::map<Session, Visit> visits_;
  std::string fingerprint_;  // of all processes
  Stage stage_ = Stage::kEmpty;
  std::uint64_t fence_ = 0;
  std::optional<LeaseBook> book_;  // while running
  std::string run_state_;          // the owner's, after run_state_step_ steps
  std::int64_t run_state_step_ = 0;
  std::deque<proto::StepRecord> records_;  // of the steps from run_state_step_ on
};

}  // namespace lockstep::train
