#include "trainer/supervisor/metrics_pipe.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

#include "base/descriptor.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class MetricsPipeTest : public ::testing::Test {
 protected:
  Pipe pipe_ = *MakePipe();
};

TEST_F(MetricsPipeTest, PiecesBecomeWholeLinesAndTheEndIsSeen) {
  MetricsPipeReader reader(std::move(pipe_.read));
  EXPECT_THAT(reader.Lines(), IsEmpty());
  ASSERT_EQ(write(pipe_.write.fd(), "one\ntw", 6), 6);
  EXPECT_THAT(reader.Lines(), ElementsAre("one"));
  ASSERT_EQ(write(pipe_.write.fd(), "o\n", 2), 2);
  EXPECT_THAT(reader.Lines(), ElementsAre("two"));
  EXPECT_TRUE(reader.open());
  pipe_.write.Close();
  EXPECT_THAT(reader.Lines(), IsEmpty());
  EXPECT_FALSE(reader.open());
}

TEST_F(MetricsPipeTest, AWriterWhoseSupervisorDoesNotReadIsNotHeldUp) {
  MetricsPipeReader reader(std::move(pipe_.read));
  const std::string fd = fmt::format("{}", pipe_.write.fd());
  MetricsPipeWriter writer([&](const std::string&) { return std::optional(fd); });
  const std::string line(4000, 'x');
  for (int i = 0; i < 100; ++i) writer.Write(line);  // 400 kB into a pipe of 64
  const std::vector<std::string> lines = reader.Lines();
  EXPECT_FALSE(lines.empty());
  for (const std::string& got : lines) EXPECT_EQ(got, line);
}

TEST(MetricsPipeWriterTest, WithoutASupervisorNothingIsWritten) {
  MetricsPipeWriter writer([](const std::string&) { return std::nullopt; });
  writer.Write("line");
}

}  // namespace
}  // namespace lockstep::train
