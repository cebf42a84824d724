#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/mutate.h"
#include "trainer/observe/metrics.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

ReplicaMetrics Sample() {
  ReplicaMetrics metrics;
  metrics.rank = 3;
  metrics.world = 4;
  metrics.stage = 1;
  metrics.step = 1234;
  metrics.epoch = 1.5;
  metrics.loss = 0.1;
  metrics.examples_total = std::numeric_limits<std::int64_t>::max();
  metrics.rendezvous_seconds = 0.25;
  metrics.gradient_norm = 2.5;
  metrics.checkpoint_bytes = 1'000'000;
  metrics.checkpoint_interval = 200;
  metrics.evaluation_batches = 17;
  metrics.step_seconds.Observe(0.5);
  metrics.checkpoint_durations.Observe(7);
  metrics.last_checkpoint_step = -1;
  metrics.last_checkpoint_time = 1.7e9;
  return metrics;
}

std::string ErrorOf(const std::string& line) {
  const absl::Status status = DecodeMetrics(line).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

std::string With(const std::string& from, const std::string& to) {
  std::string line = EncodeMetrics(Sample());
  line.replace(line.find(from), from.size(), to);
  return line;
}

TEST(MetricsLineTest, DecodesWhatItEncoded) {
  const std::string line = EncodeMetrics(Sample());
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto decoded = DecodeMetrics(line);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(EncodeMetrics(*decoded), line);
  EXPECT_EQ(decoded->rank, 3);
  EXPECT_EQ(decoded->stage, 1);
  EXPECT_EQ(decoded->loss, 0.1);
  EXPECT_EQ(decoded->examples_total, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(decoded->rendezvous_seconds, 0.25);
  EXPECT_EQ(decoded->step_seconds.counts, Sample().step_seconds.counts);
  EXPECT_EQ(decoded->step_seconds.sum, 0.5);
  EXPECT_EQ(decoded->gradient_norm, 2.5);
  EXPECT_EQ(decoded->checkpoint_bytes, 1'000'000);
  EXPECT_EQ(decoded->checkpoint_durations.sum, 7);
  EXPECT_EQ(decoded->checkpoint_interval, 200);
  EXPECT_EQ(decoded->evaluation_batches, 17);
}

TEST(MetricsLineTest, DivergedLossArrivesAsNaN) {
  ReplicaMetrics metrics = Sample();
  metrics.loss = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(DecodeMetrics(EncodeMetrics(metrics))->loss));
}

TEST(MetricsLineTest, FaultsAreNamed) {
  EXPECT_THAT(ErrorOf("step 3"), HasSubstr("6 bytes that are not a JSON object"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("metrics.rank: is missing"));
  EXPECT_THAT(ErrorOf(With("1234", "\"x\"")), HasSubstr("metrics.step: found \"x\""));
  EXPECT_THAT(ErrorOf(With("1234", "1.5")), HasSubstr("metrics.step: found 1.5"));
  EXPECT_THAT(ErrorOf(With("1234", "9223372036854775808")), HasSubstr("metrics.step"));
  EXPECT_THAT(ErrorOf(With("[0,", "[")), HasSubstr("metrics.checkpointDurations: found [0,0,0"));
  EXPECT_THAT(ErrorOf(With("[0,", "[-1,")),
              HasSubstr("found -1, expected an integer of at least 0"));
  EXPECT_THAT(ErrorOf(With("\"rank\":3", "\"rank\":-1")), HasSubstr("metrics.rank: found -1"));
  EXPECT_THAT(ErrorOf(With("\"rank\":3", "\"rank\":3,\"more\":1")), HasSubstr("found 44 fields"));
}

TEST(MetricsLineTest, NoDamageCrashes) {
  const std::string line = EncodeMetrics(Sample());
  for (std::uint64_t n = 0; n < 10000; ++n) {
    const auto decoded = DecodeMetrics(Mutate(line, n));
    if (!decoded.ok()) {
      EXPECT_TRUE(absl::IsInvalidArgument(decoded.status()));
    }
  }
}

}  // namespace
}  // namespace lockstep::train
