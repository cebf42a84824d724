#include "operator/cli/logs/log_merge.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/operator/cli/logs/timed_line.h"

namespace lockstep::cli {
namespace {

using ::testing::ElementsAre;
using testing::TimedLine;

// "<source> <text>" of each line until the end.
std::vector<std::string> Rest(LogMerge& merge) {
  std::vector<std::string> lines;
  while (const auto line = merge.Next()) {
    lines.push_back(fmt::format("{} {}", line->source, line->text));
  }
  return lines;
}

TEST(LogMergeTest, LinesComeInTheOrderOfTheirTimes) {
  LogMerge merge;
  const int a = merge.AddSource();
  const int b = merge.AddSource();
  merge.Close();
  for (const auto& line : {TimedLine(1, "one"), TimedLine(4, "four")}) merge.Add(a, line);
  merge.End(a);
  for (const auto& line : {TimedLine(2, "two"), TimedLine(3, "three"), TimedLine(5, "five")})
    merge.Add(b, line);
  merge.End(b);
  EXPECT_THAT(Rest(merge), ElementsAre("0 one", "1 two", "1 three", "0 four", "1 five"));
}

TEST(LogMergeTest, ALineMayArriveInPieces) {
  LogMerge merge;
  const int source = merge.AddSource();
  merge.Close();
  merge.Add(source, "2026-05-01T12:00:01Z 10 %\r");
  merge.Add(source, "2026-05-01T12:00:09Z is no time here\r\n");
  merge.Add(source, TimedLine(2, "two"));
  merge.End(source);
  const auto first = merge.Next(), second = merge.Next(), third = merge.Next();
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(first->text, "10 %\r");
  EXPECT_TRUE(!first->continues && !first->ends);
  EXPECT_EQ(second->text, "2026-05-01T12:00:09Z is no time here\r");
  EXPECT_TRUE(second->continues && second->ends);
  EXPECT_EQ(second->time, first->time);
  EXPECT_EQ(third->text, "two");
  EXPECT_TRUE(!third->continues && third->ends);
}

TEST(LogMergeTest, ALineWithoutATimeBelongsToTheLineBeforeIt) {
  LogMerge merge;
  const int a = merge.AddSource();
  const int b = merge.AddSource();
  merge.Close();
  for (const std::string& line : {TimedLine(1, "one"), std::string("no time\n"),
                                  TimedLine(0, "the clock was set back"), TimedLine(4, "four")}) {
    merge.Add(a, line);
  }
  merge.End(a);
  merge.Add(b, TimedLine(3, "three"));
  merge.End(b);
  EXPECT_THAT(Rest(merge),
              ElementsAre("0 one", "0 no time", "0 the clock was set back", "1 three", "0 four"));
}

TEST(LogMergeTest, ASilentLogIsWaitedFor) {
  LogMerge merge;
  const int early = merge.AddSource();
  const int late = merge.AddSource();
  merge.Close();
  merge.Add(late, TimedLine(2, "two"));
  merge.End(late);
  std::jthread filler([&] {
    merge.Add(early, TimedLine(1, "one"));
    merge.End(early);
  });
  EXPECT_THAT(Rest(merge), ElementsAre("0 one", "1 two"));
}

TEST(LogMergeTest, WithPatienceASilentLogDoesNotHoldTheOthers) {
  LogMerge merge(std::chrono::milliseconds(1));
  merge.AddSource();
  const int second = merge.AddSource();
  merge.Add(second, TimedLine(1, "one"));
  const auto line = merge.Next();
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->text, "one");
}

TEST(LogMergeTest, WhatIsNotTakenHoldsItsReader) {
  LogMerge merge;
  const int source = merge.AddSource();
  merge.Close();
  const std::string line = TimedLine(1, std::string(1000, 'x'));
  constexpr int kLines = 5000;  // five times what may wait
  std::jthread filler([&] {
    for (int i = 0; i < kLines; ++i) merge.Add(source, line);
    merge.End(source);
  });
  std::size_t bytes = 0;
  while (const auto next = merge.Next()) bytes += next->text.size();
  EXPECT_EQ(bytes, kLines * 1000u);
}

TEST(LogMergeTest, ManyLogsShareTheMemory) {
  EXPECT_EQ(LogMerge::MostWaiting(1), 1u << 20U);
  EXPECT_EQ(LogMerge::MostWaiting(256), 1u << 20U);
  EXPECT_EQ(LogMerge::MostWaiting(1024), 1u << 18U);
  EXPECT_EQ(LogMerge::MostWaiting(1'000'000), 1u << 16U);
}

}  // namespace
}  // namespace lockstep::cli
