#include "base/text_table.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(TextTableTest, ColumnsAreAsWideAsTheirWidestCell) {
  EXPECT_EQ(TextTable({{"NAME", "STATE"}, {"mnist", "Running"}, {"a", "Failed"}}),
            "NAME    STATE\n"
            "mnist   Running\n"
            "a       Failed\n");
  EXPECT_EQ(TextTable({}), "");
}

TEST(TextTableTest, NumbersAreAlignedAtTheirRight) {
  EXPECT_EQ(TextTable({{"op", "ms"}, {"conv", "10.5"}}, {.gap = 1, .numbers = 1}),
            "op     ms\n"
            "conv 10.5\n");
  EXPECT_EQ(TextTable({{"layer", "shape", "n", "FLOPs"}, {"a", "(1)", "832", ""}},
                      {.gap = 2, .numbers = 2}),
            "layer  shape    n  FLOPs\n"
            "a      (1)    832\n");
}

TEST(TextTableTest, NoLineEndsInSpaces) {
  EXPECT_EQ(TextTable({{"worker-0", ""}, {"a", "straggler"}, {"b"}}),
            "worker-0\n"
            "a          straggler\n"
            "b\n");
  EXPECT_EQ(TextTable({{"abc", "d"}}, {.width = 5}), "abc\n");
}

TEST(TextTableTest, WidthsAreOfCharacters) {
  EXPECT_EQ(TextTable({{"größe", "µs"}, {"abcdef", "1"}}),
            "größe    µs\n"
            "abcdef   1\n");
}

TEST(TextTableTest, ALineIsCutBetweenCharacters) {
  EXPECT_EQ(TextTable({{"é", "→→→"}}, {.width = 6}), "é   →→\n");
  EXPECT_EQ(TextTable({{"é", "→→→"}}, {.width = 7}), "é   →→→\n");
}

}  // namespace
}  // namespace lockstep
