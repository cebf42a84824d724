#include "operator/cli/logs/resumed_log.h"

#include <gtest/gtest.h>

#include <string>

#include "base/rfc3339.h"

namespace lockstep::cli {
namespace {

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

}  // namespace
}  // namespace lockstep::cli
