#include "operator/cli/exit_codes.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

TEST(ExitCodesTest, EachHasALineInTheirOrder) {
  EXPECT_EQ(ExitCodesText({{3, "Failed"}, {1, "Any", 255}, {1, "One"}, {0, "Success"}}),
            "Exit codes:\n"
            "  0                           Success\n"
            "  1                           One\n"
            "  1-255                       Any\n"
            "  3                           Failed\n");
}

TEST(ExitCodesTest, ALongMeaningIsBrokenBetweenWords) {
  const std::string words = std::string(40, 'a') + " " + std::string(29, 'b');
  const std::string indent(30, ' ');
  EXPECT_EQ(ExitCodesText({{0, words}}), "Exit codes:\n  0" + indent.substr(3) + words + "\n");
  const std::string text = words + " c d";
  EXPECT_EQ(ExitCodesText({{0, text}}),
            "Exit codes:\n  0" + indent.substr(3) + words + "\n" + indent + "c d\n");
  const std::string word(80, 'a');
  EXPECT_EQ(ExitCodesText({{0, word}}), "Exit codes:\n  0" + indent.substr(3) + word + "\n");
}

TEST(ExitCodesTest, ACodeIsDeclaredWithItsMeaning) {
  EXPECT_TRUE(IsOneOf(kExitNoAnswer, {kExitDone, kExitNoAnswer}));
  EXPECT_FALSE(IsOneOf(kExitNoAnswer, {kExitDone, kExitInternalError}));
  EXPECT_FALSE(IsOneOf(kExitDone, {}));
  const ExitCode of_replica{42, kExitReplicaFailed.meaning};
  EXPECT_TRUE(IsOneOf(of_replica, {kExitReplicaFailed}));
  EXPECT_FALSE(IsOneOf({256, kExitReplicaFailed.meaning}, {kExitReplicaFailed}));
  EXPECT_FALSE(IsOneOf({0, kExitReplicaFailed.meaning}, {kExitReplicaFailed}));
}

}  // namespace
}  // namespace lockstep::cli
