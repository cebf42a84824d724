#include "operator/cli/ui/log_window.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep::cli {
namespace {

LogLine LineAt(int second, const std::string& text) {
  return {Time(std::chrono::seconds(second)), "worker-0", text};
}

TEST(LogWindowTest, TerminalsSequencesAndControlCharactersAreNotShown) {
  EXPECT_EQ("red end", ShownLine("\033[1;31mred\033[0m end"));
  EXPECT_EQ("after", ShownLine("\033]0;a title\aafter"));
  EXPECT_EQ("after", ShownLine("\033]8;;http://evil\033\\after"));
  EXPECT_EQ("", ShownLine("\033"));
  EXPECT_EQ("", ShownLine("\033[31"));
  EXPECT_EQ("", ShownLine("\033]0;no end"));
  EXPECT_EQ("<b>?a?b", ShownLine("<b>\aa\u202Eb"));
  EXPECT_EQ("100%", ShownLine("1%\r50%\r100%\r"));
  EXPECT_LE(ShownLine(std::string(100'000, 'x')).size(), 4010U);
}

TEST(LogWindowTest, APageGetsWhatItHasNotHadInTheOrderOfTime) {
  LogWindow window;
  window.Add({LineAt(2, "b"), LineAt(1, "a")});
  EXPECT_EQ(
      R"({"start":0,"next":2,"more":false,"lines":[[1000,"worker-0","a"],[2000,"worker-0","b"]]})",
      window.After(0).dump());
  EXPECT_EQ(R"({"start":0,"next":2,"more":false,"lines":[]})", window.After(2).dump());
  window.Add({LineAt(3, "c")});
  EXPECT_EQ(R"({"start":0,"next":3,"more":false,"lines":[[3000,"worker-0","c"]]})",
            window.After(2).dump());
  // A page has had lines of a window before this one.
  LogWindow next(1000);
  for (int i = 0; i < 5; ++i) next.Add({LineAt(i, "x")});
  for (const std::uint64_t after : {0, 3, 999, 2000}) {
    const auto answer = next.After(after);
    EXPECT_EQ(5U, answer.at("lines").size()) << after;
    EXPECT_EQ(1000, answer.at("start"));
    EXPECT_EQ(1005, answer.at("next"));
  }
  EXPECT_EQ(2U, next.After(1003).at("lines").size());
}

TEST(LogWindowTest, ItHoldsTheLastLinesAndBytes) {
  LogWindow window;
  for (int i = 0; i < 3000; ++i) window.Add({LineAt(i, "x")});
  EXPECT_EQ(LogWindow::kMostLines, window.After(0).at("lines").size());
  EXPECT_EQ(3000, window.After(0).at("next"));
  for (int i = 0; i < 1000; ++i) window.Add({LineAt(3000 + i, std::string(4000, 'y'))});
  EXPECT_LE(window.After(0).at("lines").size() * 4000, LogWindow::kMostBytes + 8000);
}

TEST(LogWindowTest, APageGetsManyLinesInSeveralAnswers) {
  LogWindow window;
  for (int i = 0; i < 250; ++i) window.Add({LineAt(i, std::string(4000, 'y'))});
  std::uint64_t next = 0;
  std::size_t lines = 0;
  for (bool more = true; more;) {
    const auto answer = window.After(next);
    ASSERT_FALSE(answer.at("lines").empty());
    EXPECT_LE(answer.at("lines").size() * 4000, LogWindow::kMostBytesAtOnce);
    next = answer.at("next");
    lines += answer.at("lines").size();
    more = answer.at("more");
  }
  EXPECT_EQ(250U, next);
  EXPECT_EQ(250U, lines);
}

}  // namespace
}  // namespace lockstep::cli
