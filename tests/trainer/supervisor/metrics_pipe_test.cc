#include "trainer/supervisor/metrics_pipe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class MetricsPipeTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe2(ends_, O_NONBLOCK), 0); }
  int write_end() const { return ends_[1]; }
  int read_end() const { return ends_[0]; }

 private:
  int ends_[2];
};

TEST_F(MetricsPipeTest, PiecesBecomeWholeLinesAndTheEndIsSeen) {
  MetricsPipeReader reader(read_end());
  EXPECT_THAT(reader.Lines(), IsEmpty());
  ASSERT_EQ(write(write_end(), "one\ntw", 6), 6);
  EXPECT_THAT(reader.Lines(), ElementsAre("one"));
  ASSERT_EQ(write(write_end(), "o\n", 2), 2);
  EXPECT_THAT(reader.Lines(), ElementsAre("two"));
  EXPECT_TRUE(reader.open());
  close(write_end());
  EXPECT_THAT(reader.Lines(), IsEmpty());
  EXPECT_FALSE(reader.open());
}

TEST_F(MetricsPipeTest, AWriterWhoseSupervisorDoesNotReadIsNotHeldUp) {
  MetricsPipeReader reader(read_end());
  const std::string fd = fmt::format("{}", write_end());
  MetricsPipeWriter writer([&](const std::string&) { return std::optional(fd); });
  const std::string line(4000, 'x');
  for (int i = 0; i < 100; ++i) writer.Write(line);  // 400 kB into a pipe of 64
  const std::vector<std::string> lines = reader.Lines();
  EXPECT_FALSE(lines.empty());
  for (const std::string& got : lines) EXPECT_EQ(got, line);
  close(write_end());
}

TEST(MetricsPipeWriterTest, WithoutASupervisorNothingIsWritten) {
  MetricsPipeWriter writer([](const std::string&) { return std::nullopt; });
  writer.Write("line");
}

}  // namespace
}  // namespace lockstep::train
