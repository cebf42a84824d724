#include "operator/kube/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
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
    EXPECT_EQ(queue.NextDue(), clock.SteadyNow() + seconds(expected));
    clock.Advance(seconds(expected));
    EXPECT_EQ(queue.TryGet(), kA);
    queue.Done(kA);
  }
  queue.Forget(kA);
  queue.AddRateLimited(kA);
  EXPECT_EQ(queue.NextDue(), clock.SteadyNow() + seconds(1));
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
  // Every last add is worked on: what was wanted has been seen in the end.
  for (int k = 0; k < kKeys; ++k) {
    while (seen[k] != kAdds / kKeys) std::this_thread::yield();
  }
  queue.ShutDown();
}

}  // namespace
}  // namespace lockstep::kube
