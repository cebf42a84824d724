#include "base/printable.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <string>

namespace lockstep {
namespace {

TEST(PrintableTest, WhatMovesTheCursorOrTurnsLettersIsReplacedAndOtherTextIsNot) {
  EXPECT_EQ(Printable("a\x1b[2J\r\x7f"), "a?[2J??");
  EXPECT_EQ(Printable("line\n\ttab"), "line\n\ttab");
  EXPECT_EQ(Printable("\u009b1m\u0085"), "?1m?");
  EXPECT_EQ(Printable("ab\u202Edc\u202C \u2066x\u2069"), "ab?dc? ?x?");
  EXPECT_EQ(Printable("a\u061Cb\u200Ec\u200Fd"), "a?b?c?d");
  EXPECT_EQ(Printable("größer \u2029 \u202F \u2065 \u206A 日本"),
            "größer \u2029 \u202F \u2065 \u206A 日本");
}

double SecondsOfThisThread() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The least CPU time of three tries to make so many controls printable.
double SecondsOf(std::size_t controls) {
  std::string text;
  for (std::size_t i = 0; i < controls; ++i) text += "\u202E";
  double least = 1e9;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const double start = SecondsOfThisThread();
    EXPECT_EQ(Printable(text).size(), controls);
    least = std::min(least, SecondsOfThisThread() - start);
  }
  return least;
}

// A pod chooses what it logs. With each control moved out of the text by itself, 16 times as many
// took 256 times as long.
TEST(PrintableTest, ItsTimeGrowsWithTheTextAndNoFaster) {
  EXPECT_LT(SecondsOf(1 << 17), 64 * SecondsOf(1 << 13));
}

}  // namespace
}  // namespace lockstep
