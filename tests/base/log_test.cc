#include "base/log.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/rfc3339.h"

namespace lockstep {
namespace {

std::string Logged(const std::function<void()>& action) {
  ::testing::internal::CaptureStderr();
  action();
  return ::testing::internal::GetCapturedStderr();
}

TEST(LogTest, ARecordIsALineOfJson) {
  const std::string line =
      Logged([] { LogWarning("low on \"disk\"\n", {{"pod", "mnist-0"}, {"rank", 1}}); });
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto record = nlohmann::ordered_json::parse(line);
  const std::string time = record.at("time");
  EXPECT_TRUE(ParseRfc3339(time)) << time;
  EXPECT_EQ(time.size(), std::string("2026-05-01T12:00:00.123Z").size()) << time;
  EXPECT_EQ(line, "{\"time\":\"" + time +
                      "\",\"level\":\"warning\",\"message\":\"low on \\\"disk\\\"\\n\","
                      "\"pod\":\"mnist-0\",\"rank\":1}\n");
}

TEST(LogTest, TextThatIsNotUtf8IsReplaced) {
  const auto record = nlohmann::json::parse(Logged([] { LogError("a\xff"); }));
  EXPECT_EQ(record.at("message"), "a\uFFFD");
}

TEST(LogTest, LowerLevelsAreLeftOut) {
  EXPECT_EQ(Logged([] { Log(LogLevel::kDebug, "details"); }), "");
  SetLogLevel(LogLevel::kError);
  EXPECT_EQ(Logged([] { LogWarning("warning"); }), "");
  SetLogLevel(LogLevel::kDebug);
  EXPECT_NE(Logged([] { Log(LogLevel::kDebug, "details"); }), "");
  SetLogLevel(LogLevel::kInfo);
}

}  // namespace
}  // namespace lockstep
