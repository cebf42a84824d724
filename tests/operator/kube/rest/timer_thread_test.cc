#include "operator/kube/rest/timer_thread.h"

#include <gtest/gtest.h>

#include <future>

namespace lockstep::kube {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Calls back nobody before GoOn, so that no timer is due before another is set.
class HeldTimerThread {
 public:
  explicit HeldTimerThread(SteadyTime now) {
    timer_.Set(now, [this] { go_on_.get_future().wait(); });
  }
  TimerThread* operator->() { return &timer_; }
  void GoOn() { go_on_.set_value(); }

 private:
  std::promise<void> go_on_;
  TimerThread timer_;  // last: its thread uses the member above
};

TEST(TimerThreadTest, CallsBackInTheOrderOfTimeNotOfSetting) {
  std::vector<int> called;
  std::promise<void> done;
  const SteadyTime now = steady_clock::now();
  HeldTimerThread timer(now);
  timer->Set(now + hours(1), [&] { called.push_back(9); });
  timer->Set(now + milliseconds(40), [&] {
    called.push_back(2);
    done.set_value();
  });
  timer->Set(now + milliseconds(20), [&] { called.push_back(1); });
  timer.GoOn();
  done.get_future().wait();
  EXPECT_EQ(called, (std::vector<int>{1, 2}));
  EXPECT_GE(steady_clock::now(), now + milliseconds(40));
}

TEST(TimerThreadTest, ACancelledTimerDoesNotCallBack) {
  bool called = false;
  std::promise<void> done;
  const SteadyTime now = steady_clock::now();
  HeldTimerThread timer(now);
  const TimerThread::Id id = timer->Set(now + milliseconds(10), [&] { called = true; });
  timer->Cancel(id);
  timer->Set(now + milliseconds(20), [&] { done.set_value(); });
  timer.GoOn();
  done.get_future().wait();
  EXPECT_FALSE(called);
}

TEST(TimerThreadTest, EndsWithoutWaitingForTimersThatAreSet) {
  TimerThread timer;
  timer.Set(steady_clock::now() + hours(1), [] { FAIL(); });
}

}  // namespace
}  // namespace lockstep::kube
