#include "operator/kube/rest/timer_thread.h"

#include <gtest/gtest.h>

#include <future>

namespace lockstep::kube {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST(TimerThreadTest, RingsInTheOrderOfTimeNotOfSetting) {
  TimerThread alarm;
  std::vector<int> rung;
  std::promise<void> done;
  const SteadyTime now = steady_clock::now();
  alarm.Set(now + hours(1), [&] { rung.push_back(9); });
  alarm.Set(now + milliseconds(40), [&] {
    rung.push_back(2);
    done.set_value();
  });
  alarm.Set(now + milliseconds(20), [&] { rung.push_back(1); });
  done.get_future().wait();
  EXPECT_EQ(rung, (std::vector<int>{1, 2}));
  EXPECT_GE(steady_clock::now(), now + milliseconds(40));
}

TEST(TimerThreadTest, ACancelledOneDoesNotRing) {
  TimerThread alarm;
  bool rang = false;
  std::promise<void> done;
  const SteadyTime now = steady_clock::now();
  const TimerThread::Id id = alarm.Set(now + milliseconds(10), [&] { rang = true; });
  alarm.Cancel(id);
  alarm.Set(now + milliseconds(20), [&] { done.set_value(); });
  done.get_future().wait();
  EXPECT_FALSE(rang);
}

TEST(TimerThreadTest, EndsWithoutWaitingForWhatIsSet) {
  TimerThread alarm;
  alarm.Set(steady_clock::now() + hours(1), [] { FAIL(); });
}

}  // namespace
}  // namespace lockstep::kube
