#include "operator/kube/runtime/controller.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "base/check.h"
#include "tests/support/fake_clock.h"

namespace lockstep::kube {
namespace {

using std::chrono::seconds;
using testing::FakeClock;
using Result = absl::StatusOr<std::optional<Duration>>;

const Key kBad{"n", "bad"}, kGood{"n", "good"};

struct ControllerTest : ::testing::Test {
  FakeClock clock;
  WorkQueue queue{clock, {.initial = seconds(1), .limit = seconds(60), .factor = 2.0, .jitter = 0}};
};

TEST_F(ControllerTest, AnErrorIsTriedAgainWithBackOffUntilItSucceeds) {
  int calls = 0;
  Controller controller("test", queue, [&](const Key&) -> Result {
    if (++calls < 3) return absl::UnavailableError("no connection");
    return std::nullopt;
  });
  queue.Add(kGood);
  EXPECT_TRUE(controller.ProcessOne());
  EXPECT_FALSE(controller.ProcessOne());
  clock.Advance(seconds(1));
  EXPECT_TRUE(controller.ProcessOne());
  clock.Advance(seconds(2));
  EXPECT_TRUE(controller.ProcessOne());
  EXPECT_EQ(queue.Stats().next_due, std::nullopt);
  EXPECT_EQ(controller.failures(), 2);
  EXPECT_EQ(controller.successes(), 1);
}

TEST_F(ControllerTest, ADurationBringsTheKeyBackThen) {
  Controller controller("test", queue, [](const Key&) -> Result { return seconds(30); });
  queue.Add(kGood);
  EXPECT_TRUE(controller.ProcessOne());
  EXPECT_EQ(queue.Stats().next_due, seconds(30));
}

// Such as a deleted object that had a deadline in 68 years.
TEST_F(ControllerTest, ALookThatAsksForNoOtherDropsTheDelayOfAnEarlierOne) {
  std::optional<Duration> next = std::chrono::years(68);
  Controller controller("test", queue, [&](const Key&) -> Result { return next; });
  queue.Add(kGood);
  EXPECT_TRUE(controller.ProcessOne());
  EXPECT_EQ(queue.Stats().delayed, 1U);
  next = std::nullopt;
  queue.Add(kGood);
  EXPECT_TRUE(controller.ProcessOne());
  EXPECT_EQ(queue.Stats().delayed, 0U);
}

TEST_F(ControllerTest, ABrokenInvariantOfOneKeyDoesNotStopTheOthers) {
  bool good = false;
  Controller controller("test", queue, [&](const Key& key) -> Result {
    LOCKSTEP_CHECK(key != kBad, "this object is broken");
    good = true;
    return std::nullopt;
  });
  queue.Add(kBad);
  queue.Add(kGood);
  EXPECT_TRUE(controller.ProcessOne());
  EXPECT_TRUE(controller.ProcessOne());
  EXPECT_TRUE(good);
  EXPECT_EQ(controller.failures(), 1);
}

TEST(ControllerThreadsTest, WorkersDrainTheQueueAndStop) {
  const SystemClock clock;
  WorkQueue queue(clock);
  std::mutex mutex;
  std::map<Key, int> calls;
  std::atomic<int> total{0};
  Controller controller("test", queue, [&](const Key& key) -> Result {
    const std::lock_guard lock(mutex);
    ++calls[key];
    ++total;
    return std::nullopt;
  });
  controller.Start(3);
  for (int i = 0; i < 100; ++i) queue.Add({"n", std::to_string(i)});
  while (total < 100) std::this_thread::yield();
  controller.Stop();
  EXPECT_EQ(calls.size(), 100U);
}

}  // namespace
}  // namespace lockstep::kube
