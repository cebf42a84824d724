#include "operator/controller/memory/seen_completions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/parts/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using ::testing::ElementsAre;
using testing::Exited;
using ::testing::IsEmpty;
using testing::Job;
using testing::kReady;
using testing::Seen;

std::vector<int> CompletedAfter(SeenCompletions& completions, Seen& seen) {
  Observed observed = seen.Build();
  completions.Annotate(observed, SteadyTime(observed.now.time_since_epoch()));
  return observed.job.status.completed_indexes;
}

// Runs with three workers of which the second has succeeded; its status does not say so yet.
Seen HasOneThatSucceeded() {
  Seen seen(Job("j").Workers(3));
  seen.Service().Worker(0, kReady).Worker(1, kReady).Worker(2, kReady).Write();
  seen.NoPods().Worker(0, kReady).Worker(1, Exited(0)).Worker(2, kReady);
  return seen;
}

TEST(SeenCompletionsTest, AWorkerWhosePodIsGoneHasCompleted) {
  SeenCompletions completions;
  Seen seen = HasOneThatSucceeded();
  EXPECT_THAT(CompletedAfter(completions, seen), IsEmpty()) << "its pod says so";
  seen.NoPods().Worker(0, kReady).Worker(2, kReady);
  EXPECT_THAT(CompletedAfter(completions, seen), ElementsAre(1));
  EXPECT_THAT(CompletedAfter(completions, seen), ElementsAre(1)) << "until it is written";
}

TEST(SeenCompletionsTest, AWorkerWhosePodIsGoneCountsAsSucceeded) {
  SeenCompletions completions;
  Seen seen = HasOneThatSucceeded();
  CompletedAfter(completions, seen);
  Observed observed = seen.NoPods().Worker(0, kReady).Worker(2, kReady).Build();
  completions.Annotate(observed, SteadyTime(observed.now.time_since_epoch()));
  const api::ReplicaStatus& counts = observed.job.status.replica_statuses.at(api::Role::kWorker);
  EXPECT_EQ(counts.active, 2);
  EXPECT_EQ(counts.ready, 2);
  EXPECT_EQ(counts.succeeded, 1);
}

TEST(SeenCompletionsTest, OneThatIsPendingDoesNotCountAsReadyForIt) {
  SeenCompletions completions;
  Seen seen(Job("j").Workers(4));
  const auto set = [&seen](const testing::PodState& second) {
    seen.NoPods().Worker(0, kReady).Worker(1, second).Worker(2, kReady);
    seen.Worker(3, testing::kPending);
  };
  seen.Service();
  set(kReady);
  seen.Write();
  set(Exited(0));
  CompletedAfter(completions, seen);
  seen.NoPods().Worker(0, kReady).Worker(2, kReady).Worker(3, testing::kPending);
  Observed observed = seen.Build();
  completions.Annotate(observed, SteadyTime(observed.now.time_since_epoch()));
  EXPECT_EQ(observed.job.status.replica_statuses.at(api::Role::kWorker).ready, 2);
}

TEST(SeenCompletionsTest, AWorkerWhosePodIsBeingDeletedHasCompleted) {
  SeenCompletions completions;
  Seen seen = HasOneThatSucceeded();
  seen.NoPods().Worker(1, [](ObservedPod& pod) {
    Exited(0)(pod);
    pod.being_deleted = true;
  });
  EXPECT_THAT(CompletedAfter(completions, seen), ElementsAre(1));
}

TEST(SeenCompletionsTest, TheNextAttemptStartsWithNobody) {
  SeenCompletions completions;
  Seen seen = HasOneThatSucceeded();
  CompletedAfter(completions, seen);
  seen.NoPods().With([](Observed& observed) { ++observed.job.status.attempt; });
  EXPECT_THAT(CompletedAfter(completions, seen), IsEmpty());
}

}  // namespace
}  // namespace lockstep::controller
