#include "operator/cli/logs/resumed_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rfc3339.h"

namespace lockstep::cli {
namespace {

using ::testing::ElementsAre;

TEST(ResumedLogTest, APartThatRepeatsLinesGoesOnBehindTheLastWholeOne) {
  std::string text;
  ResumedLog log([&text](std::string_view line) { text += line; });
  EXPECT_FALSE(log.latest());
  log.Add("2026-05-01T12:00:01.25Z one\n2026-05-01T12:00:01.5Z t");
  log.Add("wo\n2026-05-01T12:00:02Z thr");
  EXPECT_EQ(text, "2026-05-01T12:00:01.25Z one\n2026-05-01T12:00:01.5Z two\n");
  EXPECT_EQ(log.latest(), ParseRfc3339("2026-05-01T12:00:01.5Z"));
  log.Resume();
  text.clear();
  log.Add("2026-05-01T12:00:01.25Z one\n2026-05-01T12:00:01.5Z two\n2026-05-01T12:00:02Z three\n");
  log.Add("without a time\n2026-05-01T12:00:03Z fo");
  log.End();
  EXPECT_EQ(text, "2026-05-01T12:00:02Z three\nwithout a time\n2026-05-01T12:00:03Z fo\n");
}

TEST(ResumedLogTest, WithinAPartTheClockMayBeSetBack) {
  std::string text;
  ResumedLog log([&text](std::string_view line) { text += line; });
  log.Add("2026-05-01T12:00:05Z b\n2026-05-01T12:00:01Z a\n");
  EXPECT_EQ(text, "2026-05-01T12:00:05Z b\n2026-05-01T12:00:01Z a\n");
  EXPECT_EQ(log.latest(), ParseRfc3339("2026-05-01T12:00:05Z"));
}

TEST(ResumedLogTest, ALineWithoutAnEndDoesNotFillTheMemory) {
  std::size_t passed = 0;
  ResumedLog log([&passed](std::string_view line) { passed += line.size(); });
  log.Add("2026-05-01T12:00:05Z " + std::string(3 << 20, 'x'));
  EXPECT_GE(passed, std::size_t{1} << 20U);
}

// A progress bar may get no line feed for hours.
TEST(ResumedLogTest, ARedrawIsPassedWithoutWaitingForTheEndOfItsLine) {
  std::vector<std::string> pieces;
  ResumedLog log([&pieces](std::string_view piece) { pieces.emplace_back(piece); },
                 /*redraws=*/true);
  log.Add("2026-05-01T12:00:01Z a\rb\rc");
  EXPECT_THAT(pieces, ElementsAre("2026-05-01T12:00:01Z a\r", "b\r"));
  log.Add("\r\n2026-05-01T12:00:02Z \r");
  log.End();
  EXPECT_THAT(pieces, ElementsAre("2026-05-01T12:00:01Z a\r", "b\r", "c\r\n",
                                  "2026-05-01T12:00:02Z \r", "\n"));
}

TEST(ResumedLogTest, APartThatRepeatsALineWithoutAnEndGoesOnBehindItsLastRedraw) {
  std::string text;
  ResumedLog log([&text](std::string_view piece) { text += piece; }, /*redraws=*/true);
  log.Add("2026-05-01T12:00:01Z old\rline\n2026-05-01T12:00:02Z a\rb\rc");
  text.clear();
  const std::string repeated = "2026-05-01T12:00:01Z old\rline\n2026-05-01T12:00:02Z a\r";
  log.Resume();
  log.Add(repeated);  // the connection is lost again
  log.Resume();
  log.Add(repeated + "b\rc\rd\r");
  EXPECT_EQ(text, "c\rd\r");
  log.Resume();
  log.Add("2026-05-01T12:00:03Z of a log that was rotated\n");
  log.End();
  EXPECT_EQ(text, "c\rd\r\n2026-05-01T12:00:03Z of a log that was rotated\n");
}

}  // namespace
}  // namespace lockstep::cli
