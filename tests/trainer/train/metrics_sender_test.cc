#include "trainer/train/metrics_sender.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/descriptor.h"
#include "tests/support/fake_clock.h"

namespace lockstep::train {
namespace {

using std::chrono::seconds;

constexpr auto kPatience = seconds(20);

// The supervisor's end of a pipe. The other one is in Env().
class Lines {
 public:
  Lines() : Lines(*MakePipe()) {}
  void CloseWriter() { write_end_.Close(); }

  GetEnv Env() const {
    return [fd = std::to_string(write_end_.fd())](const std::string& name) {
      return name == kEnvMetricsFd ? std::optional(fd) : std::nullopt;
    };
  }

  // The next line for which `wanted` holds; absent if none comes.
  std::optional<ReplicaMetrics> Await(const std::function<bool(const ReplicaMetrics&)>& wanted) {
    const SteadyTime deadline = std::chrono::steady_clock::now() + kPatience;
    while (reader_.open() && std::chrono::steady_clock::now() < deadline) {
      for (const std::string& line : reader_.Lines()) {
        const auto metrics = DecodeMetrics(line);
        EXPECT_TRUE(metrics.ok()) << metrics.status();
        if (metrics.ok() && wanted(*metrics)) return *metrics;
      }
      pollfd fd{reader_.fd(), POLLIN, 0};
      if (reader_.open()) poll(&fd, 1, 100);
    }
    return std::nullopt;
  }

 private:
  explicit Lines(Pipe pipe) : reader_(std::move(pipe.read)), write_end_(std::move(pipe.write)) {}

  MetricsPipeReader reader_;
  Descriptor write_end_;
};

bool Any(const ReplicaMetrics&) {
  return true;
}

TEST(MetricsSenderTest, AReplicaIsThereBeforeItsFirstStep) {
  lockstep::testing::FakeClock clock;
  Lines lines;
  const MetricsSender sender(clock, lines.Env(), /*rank=*/3, /*world=*/4);
  const auto first = lines.Await(Any);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->rank, 3);
  EXPECT_EQ(first->world, 4);
  EXPECT_EQ(first->generations, 0);
  EXPECT_TRUE(std::isnan(first->loss));
  EXPECT_TRUE(std::isnan(first->remaining_seconds));
}

// This thread is the training thread: it only waits, and the phase it waits in grows all the same.
TEST(MetricsSenderTest, APhaseThatDoesNotEndIsSentWhileItLasts) {
  lockstep::testing::FakeClock clock;
  Lines lines;
  MetricsSender sender(clock, lines.Env(), 0, 1, std::chrono::milliseconds(1));
  const PhaseTimer timer(sender.phases(), Phase::kInput);
  for (const int waited : {600, 1200}) {
    clock.Advance(seconds(600));
    const auto line =
        lines.Await([&](const ReplicaMetrics& metrics) { return metrics.input_seconds >= waited; });
    ASSERT_TRUE(line.has_value());
    EXPECT_EQ(line->input_seconds, waited);
    EXPECT_EQ(line->idle_seconds, 0);
  }
}

TEST(MetricsSenderTest, GoodputFallsWhileNoStepIsDone) {
  lockstep::testing::FakeClock clock;
  Lines lines;
  MetricsSender sender(clock, lines.Env(), 0, 1, std::chrono::milliseconds(1));
  clock.Advance(seconds(10));
  sender.Publish({.world = 1, .step = 7}, seconds(8));
  const auto line = lines.Await([](const ReplicaMetrics& metrics) { return metrics.step == 7; });
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->goodput, 0.8);
  clock.Advance(seconds(30));
  const auto later = lines.Await([](const ReplicaMetrics& found) { return found.goodput < 0.8; });
  ASSERT_TRUE(later.has_value());
  EXPECT_EQ(later->goodput, 0.2);
}

TEST(MetricsSenderTest, TheEndIsSentWhateverThePeriod) {
  lockstep::testing::FakeClock clock;
  Lines lines;
  {
    MetricsSender sender(clock, lines.Env(), 0, 1, std::chrono::hours(1));
    ASSERT_TRUE(lines.Await(Any).has_value());
    sender.Publish({.step = 9}, {});
  }
  lines.CloseWriter();
  EXPECT_TRUE(lines.Await([](const ReplicaMetrics& metrics) { return metrics.step == 9; }));
}

TEST(MetricsSenderTest, WhoTakesNoPartSendsNothing) {
  lockstep::testing::FakeClock clock;
  Lines lines;
  {
    const MetricsSender sender(clock, lines.Env(), -1, 2);
  }
  lines.CloseWriter();
  EXPECT_FALSE(lines.Await(Any).has_value());
}

}  // namespace
}  // namespace lockstep::train
