#include "base/printable.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lockstep
