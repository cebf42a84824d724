#include "trainer/observe/phase_clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/fake_clock.h"

namespace lockstep::train {
namespace {

using std::chrono::seconds;

TEST(PhaseClockTest, TheCurrentPhaseIsIncluded) {
  lockstep::testing::FakeClock time;
  PhaseClock clock(time);
  time.Advance(seconds(2));
  EXPECT_EQ(clock.Read().Seconds(Phase::kIdle), 2);
  clock.Switch(Phase::kInput);
  time.Advance(seconds(600));  // no data arrives
  EXPECT_EQ(clock.Read().Seconds(Phase::kInput), 600);
  EXPECT_EQ(clock.Read().Seconds(Phase::kIdle), 2);
  time.Advance(seconds(1));
  clock.Switch(Phase::kIdle);
  EXPECT_EQ(clock.Read().Seconds(Phase::kInput), 601);
}

TEST(PhaseClockTest, PhasesAddUpToTheTimeSinceTheBeginning) {
  lockstep::testing::FakeClock time;
  PhaseClock clock(time);
  const auto spend = [&](Phase phase) {
    const PhaseTimer timer(clock, phase);
    time.Advance(seconds(3));
  };
  for (const Phase phase : {Phase::kRendezvous, Phase::kInput, Phase::kForward, Phase::kBackward,
                            Phase::kCommunication, Phase::kOptimizer, Phase::kEvaluation}) {
    spend(phase);
    time.Advance(seconds(1));
    EXPECT_EQ(clock.Read().Seconds(phase), 3);
  }
  EXPECT_EQ(clock.Read().Life(), 7 * 4);
  EXPECT_EQ(clock.Read().Seconds(Phase::kIdle), 7);
}

TEST(PhaseClockTest, APhaseWithinAnotherIsNotCountedTwice) {
  lockstep::testing::FakeClock time;
  PhaseClock clock(time);
  {
    const PhaseTimer outer(clock, Phase::kRendezvous);
    time.Advance(seconds(1));
    {
      const PhaseTimer inner(clock, Phase::kCheckpoint);
      time.Advance(seconds(10));
    }
    time.Advance(seconds(1));
  }
  EXPECT_EQ(clock.Read().Seconds(Phase::kRendezvous), 2);
  EXPECT_EQ(clock.Read().Seconds(Phase::kCheckpoint), 10);
  EXPECT_EQ(clock.Read().Life(), 12);
}

// Prometheus takes a counter that decreases for one that was reset.
TEST(PhaseClockTest, NoTimeDecreasesWhileAnotherThreadSwitches) {
  const SystemClock time;
  PhaseClock clock(time);
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    while (!stop) {
      const PhaseTimer timer(clock, Phase::kForward);
      const PhaseTimer inner(clock, Phase::kCommunication);
    }
  });
  PhaseTimes before;
  for (int i = 0; i < 20000; ++i) {
    const PhaseTimes now = clock.Read();
    for (std::size_t phase = 0; phase < PhaseTimes::kPhases; ++phase) {
      ASSERT_GE(now.by_phase[phase], before.by_phase[phase]) << phase;
    }
    before = now;
  }
  stop = true;
  worker.join();
}

}  // namespace
}  // namespace lockstep::train
