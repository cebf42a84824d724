// The back-off of a job's creates that have failed.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "operator/controller/rules/parts/plan.h"
#include "operator/kube/backoff.h"

namespace lockstep::controller {

// Creates that fail together: a role's pods, which have one template; nullopt: what the pods of
// every role need.
using CreateGroup = std::optional<api::Role>;
CreateGroup GroupOf(const Action& create);

// How the creates of one reconcile went. Thread-safe.
class CreateOutcomes {
 public:
  // Returns false if the create must not be tried: another of its group, or of what all pods need,
  // has failed. Else notes that it is tried.
  bool Begin(CreateGroup group);
  void Fail(CreateGroup group);
  // No further create of this reconcile is tried. That is no failure, so none has to wait later.
  void Stop();
  // Notes why a create of the group fails. The first reason is reported.
  void Explain(CreateGroup group, CreateFault fault);

 private:
  friend class FailedCreates;
  std::mutex mutex_;
  // Guarded by mutex_.
  bool is_stopped_ = false;
  std::set<CreateGroup> tried_, failed_;
  std::map<CreateGroup, CreateFault> faults_;
};

// A quota or a webhook that rejects the pods of one role says nothing about those of others, so
// each group is retried by itself. Not thread-safe.
class FailedCreates {
 public:
  void Record(CreateOutcomes& outcomes, SteadyTime now, const kube::BackoffPolicy& backoff);
  // Removes from the plan the creates that must not be tried yet, and sets plan.requeue_after for
  // them. Forgets a group that is due and has no create in the plan.
  void Bound(Plan& plan, SteadyTime now);
  // Returns true if the latest create of the group has failed.
  bool HasFailed(CreateGroup group) const { return failures_.contains(group); }
  // Returns the fault to report: a refusal, or a failure that was repeated. One that ends the job
  // (CreateFault::invalid_pod) goes first.
  std::optional<CreateFault> Fault() const;

 private:
  struct Failure {
    int count = 0;  // consecutive
    SteadyTime retry_at;
    std::optional<CreateFault> fault;
  };
  std::map<CreateGroup, Failure> failures_;
};

}  // namespace lockstep::controller
