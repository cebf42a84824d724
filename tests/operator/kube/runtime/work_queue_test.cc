#include "operator/kube/runtime/work_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/fake_clock.h"

namespace lockstep::kube {
namespace {

using std::chrono::seconds;
using testing::FakeClock;

const Key kA{"n", "a"}, kB{"n", "b"};

struct WorkQueueTest : ::testing::Test {
  FakeClock clock;
  WorkQueue queue{clock, {.initial = seconds(1), .limit = seconds(60), .factor = 2.0, .jitter = 0}};
};

TEST_F(WorkQueueTest, AKeyWaitsAtMostOnceAndInOrder) {
  queue.Add(kB);
  queue.Add(kA);
  queue.Add(kB);
  EXPECT_EQ(queue.TryGet(), kB);
  EXPECT_EQ(queue.TryGet(), kA);
  EXPECT_EQ(queue.TryGet(), std::nullopt);
}

TEST_F(WorkQueueTest, AKeyThatIsWorkedOnIsHandedOutAgainOnlyAfterDone) {
  queue.Add(kA);
  EXPECT_EQ(queue.TryGet(), kA);
  queue.Add(kA);
  queue.Add(kA);
  EXPECT_EQ(queue.TryGet(), std::nullopt);
  queue.Done(kA);
  EXPECT_EQ(queue.TryGet(), kA);
  queue.Done(kA);
  EXPECT_EQ(queue.TryGet(), std::nullopt);
}

TEST_F(WorkQueueTest, StatsShowWhatWaitsAndWhatHasTakenLongest) {
  queue.Add(kA);
  queue.Add(kB);
  EXPECT_EQ(queue.Stats().ready, 2u);
  EXPECT_EQ(queue.TryGet(), kA);
  clock.Advance(seconds(3));
  EXPECT_EQ(queue.TryGet(), kB);
  clock.Advance(seconds(2));
  queue.AddRateLimited(Key{"n", "c"});
  const WorkQueueStats stats = queue.Stats();
  EXPECT_EQ(stats.longest, kA);
  EXPECT_EQ(stats.longest_running, seconds(5));
  EXPECT_EQ(stats.delayed, 1u);
  EXPECT_EQ(stats.adds, 2);
  EXPECT_EQ(stats.retries, 1);
  queue.Done(kA);
  queue.Done(kB);
  EXPECT_EQ(queue.Stats().longest_running, seconds(0));
}

TEST_F(WorkQueueTest, AnObserverLearnsHowLongKeysWaitedAndWereWorkedOn) {
  struct Times final : WorkQueueObserver {
    void OnTaken(Duration waited) override { times.push_back(waited); }
    void OnDone(Duration worked) override { times.push_back(worked); }
    std::vector<Duration> times;
  } observer;
  queue.SetObserver(&observer);
  queue.Add(kA);
  clock.Advance(seconds(2));
  queue.Add(kA);  // it has been ready since the first Add
  ASSERT_EQ(queue.TryGet(), kA);
  clock.Advance(seconds(3));
  queue.Done(kA);
  EXPECT_EQ(observer.times, (std::vector<Duration>{seconds(2), seconds(3)}));
}

TEST_F(WorkQueueTest, TheShortestOfSeveralDelaysCounts) {
  queue.AddAfter(kA, seconds(10));
  queue.AddAfter(kA, seconds(5));
  queue.AddAfter(kA, seconds(20));
  clock.Advance(seconds(4));
  EXPECT_EQ(queue.TryGet(), std::nullopt);
  clock.Advance(seconds(1));
  EXPECT_EQ(queue.TryGet(), kA);
  queue.Done(kA);
  clock.Advance(seconds(100));
  EXPECT_EQ(queue.TryGet(), std::nullopt);
}

TEST_F(WorkQueueTest, ADelayedKeyThatIsWorkedOnWaitsForDone) {
  queue.Add(kA);
  EXPECT_EQ(queue.TryGet(), kA);
  queue.AddAfter(kA, seconds(1));
  clock.Advance(seconds(2));
  EXPECT_EQ(queue.TryGet(), std::nullopt);
  queue.Done(kA);
  EXPECT_EQ(queue.TryGet(), kA);
}

TEST_F(WorkQueueTest, FailuresMakeAKeyWaitLongerUntilItIsForgotten) {
  for (const int expected : {1, 2, 4}) {
    queue.AddRateLimited(kA);
    EXPECT_EQ(queue.Stats().next_due, seconds(expected));
    clock.Advance(seconds(expected));
    EXPECT_EQ(queue.TryGet(), kA);
    queue.Done(kA);
  }
  queue.Forget(kA);
  queue.AddRateLimited(kA);
  EXPECT_EQ(queue.Stats().next_due, seconds(1));
}

TEST_F(WorkQueueTest, WhatIsWantedWithinATimeComesOnceAndIsNotForgotten) {
  queue.AddWithin(kA, seconds(10));
  clock.Advance(seconds(4));
  queue.AddWithin(kA, seconds(10));
  EXPECT_EQ(queue.Stats().next_due, seconds(6));
  clock.Advance(seconds(6));
  EXPECT_EQ(queue.TryGet(), kA);
  queue.AddWithin(kA, seconds(10));
  queue.Forget(kA);  // as after a success, which need not have seen it
  queue.Done(kA);
  EXPECT_EQ(queue.Stats().next_due, seconds(10));
}

TEST_F(WorkQueueTest, OfTwoTimesWithinWhichAKeyIsWantedTheShorterOneCounts) {
  queue.Add(kA);
  EXPECT_EQ(queue.TryGet(), kA);
  queue.AddWithin(kA, seconds(10));
  queue.AddWithin(kA, seconds(1));
  queue.AddWithin(kA, seconds(5));
  queue.Done(kA);
  EXPECT_EQ(queue.Stats().next_due, seconds(1));
}

TEST_F(WorkQueueTest, WhatIsWantedBetweenASuccessAndItsEndIsNotForgotten) {
  queue.Add(kA);
  EXPECT_EQ(queue.TryGet(), kA);
  queue.Forget(kA);
  queue.AddWithin(kA, seconds(10));
  queue.Done(kA);
  EXPECT_EQ(queue.Stats().next_due, seconds(10));
}

TEST_F(WorkQueueTest, WhatIsWantedWithinATimeShortensNoBackOff) {
  for (const int expected : {1, 2, 4}) {
    queue.AddRateLimited(kA);
    queue.AddWithin(kA, std::chrono::milliseconds(1));
    EXPECT_EQ(queue.Stats().next_due, seconds(expected));
    clock.Advance(seconds(expected));
    EXPECT_EQ(queue.TryGet(), kA);
    queue.AddWithin(kA, std::chrono::milliseconds(1));
    queue.Done(kA);
    EXPECT_EQ(queue.TryGet(), std::nullopt);
  }
  queue.AddRateLimited(kA);
  clock.Advance(seconds(8));
  EXPECT_EQ(queue.TryGet(), kA);
  queue.AddWithin(kA, seconds(10));
  queue.Forget(kA);
  queue.Done(kA);
  EXPECT_EQ(queue.Stats().next_due, seconds(10)) << "the retry that succeeds need not have seen it";
}

// Its retry may be minutes away.
TEST_F(WorkQueueTest, WhatIsWantedSoonWaitsForNoRetry) {
  queue.AddRateLimited(kA);
  queue.AddSoon(kA, std::chrono::milliseconds(1));
  EXPECT_EQ(queue.Stats().next_due, std::chrono::milliseconds(1));
  clock.Advance(std::chrono::milliseconds(1));
  EXPECT_EQ(queue.TryGet(), kA);
  queue.AddWithin(kA, std::chrono::milliseconds(7));
  queue.AddSoon(kA, std::chrono::milliseconds(5));
  queue.AddSoon(kA, std::chrono::milliseconds(9));
  queue.AddRateLimited(kA);
  queue.Done(kA);
  EXPECT_EQ(queue.Stats().next_due, std::chrono::milliseconds(5));
}

TEST_F(WorkQueueTest, AForgottenKeyWaitsForNothing) {
  queue.AddAfter(kA, std::chrono::years(68));
  queue.AddAfter(kB, seconds(5));
  queue.Forget(kA);
  EXPECT_EQ(queue.Stats().delayed, 1U);
  EXPECT_EQ(queue.Stats().next_due, seconds(5));
  queue.Forget(kB);
  EXPECT_EQ(queue.Stats().next_due, std::nullopt);
  clock.Advance(seconds(5));
  EXPECT_EQ(queue.TryGet(), std::nullopt);
  queue.Add(kA);
  queue.Forget(kA);
  EXPECT_EQ(queue.TryGet(), kA) << "it was due";
}

TEST_F(WorkQueueTest, ShutDownWakesWaitersAndDropsAdds) {
  std::vector<std::jthread> waiters;
  std::atomic<int> woken{0};
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back([&] {
      EXPECT_EQ(queue.Get(), std::nullopt);
      ++woken;
    });
  }
  queue.ShutDown();
  waiters.clear();
  EXPECT_EQ(woken, 3);
  queue.Add(kA);
  EXPECT_EQ(queue.size(), 0U);
}

TEST(WorkQueueThreadsTest, NoKeyIsWorkedOnTwiceAtATimeAndNoneIsLost) {
  const SystemClock clock;
  WorkQueue queue(clock);
  constexpr int kKeys = 4, kAdds = 2000;
  std::atomic<int> busy[kKeys] = {}, wanted[kKeys] = {}, seen[kKeys] = {};
  std::vector<std::jthread> workers;
  for (int i = 0; i < 3; ++i) {
    workers.emplace_back([&] {
      while (const auto key = queue.Get()) {
        const int k = std::stoi(key->name);
        EXPECT_EQ(busy[k]++, 0);
        seen[k] = wanted[k].load();
        --busy[k];
        queue.Done(*key);
      }
    });
  }
  for (int i = 0; i < kAdds; ++i) {
    ++wanted[i % kKeys];
    queue.Add({"n", std::to_string(i % kKeys)});
  }
  // Each key's last add is processed, so every change is eventually seen.
  for (int k = 0; k < kKeys; ++k) {
    while (seen[k] != kAdds / kKeys) std::this_thread::yield();
  }
  queue.ShutDown();
}

// One worker waits for the keys that are due later; what it processes meanwhile delays none of
// them.
TEST(WorkQueueThreadsTest, KeysThatAreDueLaterAreHandedOutWhoeverIsBusy) {
  const SystemClock clock;
  WorkQueue queue(clock);
  constexpr int kKeys = 200;
  std::atomic<int> seen{0};
  std::latch first_is_taken(1), all_others_seen(1);
  std::vector<std::jthread> workers;
  for (int i = 0; i < 3; ++i) {
    workers.emplace_back([&] {
      while (const auto key = queue.Get()) {
        // Occupies the worker that kept time until everything else is done.
        if (key->name == "first") {
          first_is_taken.count_down();
          all_others_seen.wait();
        } else if (++seen == kKeys) {
          all_others_seen.count_down();
        }
        queue.Done(*key);
      }
    });
  }
  queue.AddAfter({"n", "first"}, std::chrono::milliseconds(1));
  first_is_taken.wait();
  for (int i = 0; i < kKeys; ++i) {  // each is due before or after earlier ones
    queue.AddAfter({"n", std::to_string(i)}, std::chrono::microseconds(i * 7919 % 5000));
  }
  all_others_seen.wait();
  queue.ShutDown();
}

// Whoever calls Done may not call Get again.
TEST(WorkQueueThreadsTest, WhatIsWantedWithinATimeWakesAWorkerThatWaits) {
  const SystemClock clock;
  WorkQueue queue(clock);
  const Key key{"n", "a"};
  for (int i = 0; i < 200; ++i) {
    queue.Add(key);
    ASSERT_EQ(queue.TryGet(), key);
    std::latch at_work(1);
    std::jthread waiting([&] {
      at_work.count_down();
      EXPECT_EQ(queue.Get(), key);
      queue.Done(key);
    });
    at_work.wait();
    queue.AddWithin(key, std::chrono::microseconds(1));
    std::this_thread::yield();  // most often, the other waits by now
    queue.Done(key);
  }
}

TEST(WorkQueueFairnessTest, NamespacesTakeTurns) {
  FakeClock clock;
  WorkQueue queue(clock);
  for (int i = 0; i < 3; ++i) queue.Add({"crowd", "c" + std::to_string(i)});
  queue.Add({"honest", "a"});
  queue.Add({"other", "b"});
  std::vector<std::string> order;
  while (const auto key = queue.TryGet()) order.push_back(key->name);
  EXPECT_THAT(order, ::testing::ElementsAre("c0", "a", "b", "c1", "c2"));
  EXPECT_EQ(queue.size(), 0U);
}

TEST(WorkQueueFairnessTest, OneNamespaceLeavesAWorkerToOthers) {
  FakeClock clock;
  WorkQueue queue(clock, {}, 1, /*most_of_namespace=*/2);
  for (int i = 0; i < 3; ++i) queue.Add({"crowd", std::to_string(i)});
  const auto first = queue.TryGet();
  ASSERT_TRUE(first && queue.TryGet());
  EXPECT_FALSE(queue.TryGet()) << "it has its share";
  EXPECT_EQ(queue.size(), 1U);
  queue.Add({"honest", "a"});
  EXPECT_EQ(queue.TryGet(), (Key{"honest", "a"}));
  queue.Done(*first);
  EXPECT_EQ(queue.TryGet(), (Key{"crowd", "2"}));
  // A worker that waits because of the limit is woken when there is room.
  queue.Add({"crowd", "3"});
  std::jthread waiting([&queue] { EXPECT_EQ(queue.Get(), (Key{"crowd", "3"})); });
  queue.Done({"crowd", "1"});
}

}  // namespace
}  // namespace lockstep::kube
