// Checks the invariants of every version of every object, whatever fails at whatever time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "api/v1/names.h"
#include "operator/controller/reconciler.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/kinds.h"
#include "operator/controller/state/replicas.h"
#include "tests/support/controller_uid.h"

namespace lockstep::testing {

// Checks one job and its pods. Must be given each version, in the order of resource versions.
class Referee {
 public:
  // `gang`: the job has restartScope Gang. Only a gang charges once per restart, so only for it the
  // budget bounds the charges up to and including the last one.
  Referee(bool gang, int backoff_limit) : gang_(gang), backoff_limit_(backoff_limit) {}

  void CheckJob(const kube::Object& object) {
    const auto job = api::TrainingJobFromJson(object);
    ASSERT_TRUE(job.ok()) << job.status();
    const api::TrainingJobStatus& status = job->status;
    job_ = *job;
    uid_ = job->metadata.uid;
    using controller::IsTerminal, controller::IsTrue;
    EXPECT_FALSE(IsTrue(status, controller::kSucceeded) && IsTrue(status, controller::kFailed));
    EXPECT_FALSE(IsTerminal(status) && IsTrue(status, controller::kRunning));
    EXPECT_FALSE(IsTrue(status, controller::kRestarting) && IsTrue(status, controller::kRunning));
    if (IsTerminal(last_)) {
      EXPECT_EQ(WithoutGenerations(status), WithoutGenerations(last_))
          << "a terminal status changed";
    }
    EXPECT_GE(status.attempt, last_.attempt);
    EXPECT_GE(status.restarts.application, last_.restarts.application);
    EXPECT_GE(status.restarts.disruption, last_.restarts.disruption);
    EXPECT_GE(status.restart_count, last_.restart_count);
    EXPECT_GE(status.observed_generation, last_.observed_generation);
    EXPECT_LE(status.observed_generation, job->metadata.generation);
    EXPECT_LE(status.restarts.application,
              backoff_limit_ + (IsTrue(status, controller::kFailed) ? 1000 : 0));
    if (gang_) {
      EXPECT_LE(status.restarts.application, backoff_limit_ + 1);
    }
    last_ = status;
  }

  void CheckPod(const kube::WatchEvent& event) {
    const kube::Object& pod = event.object;
    EXPECT_EQ(kube::ControllerUid(pod), uid_);
    if (event.type == kube::WatchEvent::Type::kDeleted) {
      alive_.erase(kube::Name(pod));
      return;
    }
    const int attempt = std::stoi(kube::Label(pod, api::kLabelAttempt));
    const api::Role role = *api::RoleFromName(kube::Label(pod, api::kLabelRole));
    if (event.type == kube::WatchEvent::Type::kAdded) {
      EXPECT_FALSE(controller::IsTerminal(last_))
          << kube::Name(pod) << " was made after the job's end";
      EXPECT_FALSE(controller::IsTrue(last_, controller::kSuspended))
          << kube::Name(pod) << " was made while suspended";
      EXPECT_FALSE(alive_.contains(kube::Name(pod)));
      if (attempt == last_.attempt) {
        EXPECT_TRUE(controller::HasStarted(job_, role))
            << kube::Name(pod) << " was made before its role's time";
      }
      for (const auto& [name, other] : alive_) {
        if (other.role == api::Role::kEvaluator) continue;  // only its successor waits for it
        EXPECT_EQ(other.attempt, attempt) << name << " of another attempt is still alive";
      }
    }
    alive_[kube::Name(pod)] = {role, attempt};
  }

 private:
  // An edit of a job that has ended is observed, and changes nothing else.
  static api::TrainingJobStatus WithoutGenerations(api::TrainingJobStatus status) {
    status.observed_generation = 0;
    for (api::Condition& condition : status.conditions) condition.observed_generation = 0;
    return status;
  }

  const bool gang_;
  const int backoff_limit_;
  std::string uid_;
  api::TrainingJob job_;
  api::TrainingJobStatus last_;
  struct Pod {
    api::Role role = api::Role::kWorker;
    int attempt = 0;
  };
  std::map<std::string, Pod> alive_;
};

}  // namespace lockstep::testing
