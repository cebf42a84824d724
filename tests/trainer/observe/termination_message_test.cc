#include "trainer/observe/termination_message.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/temp_directory.h"

namespace lockstep::train {
namespace {

TEST(TerminationMessageTest, ReplacesWhatTheFileHas) {
  const TempDirectory folder;
  WriteTextFile(folder.At("message"), "an earlier and longer one");
  LeaveTerminationMessage(folder.At("message"), "why");
  EXPECT_EQ(ReadTextFile(folder.At("message")), "why");
}

TEST(TerminationMessageTest, IsNotWrittenThroughALink) {
  const TempDirectory folder;
  WriteTextFile(folder.At("victim"), "mine");
  std::filesystem::create_symlink("victim", folder.At("message"));
  LeaveTerminationMessage(folder.At("message"), "why");
  std::filesystem::create_hard_link(folder.At("victim"), folder.At("second name"));
  LeaveTerminationMessage(folder.At("second name"), "why");
  EXPECT_EQ(ReadTextFile(folder.At("victim")), "mine");
}

TEST(TerminationMessageTest, WaitsForNobodyToReadIt) {
  const TempDirectory folder;
  ASSERT_EQ(mkfifo(folder.At("pipe").c_str(), 0600), 0);
  LeaveTerminationMessage(folder.At("pipe"), "why");
}

}  // namespace
}  // namespace lockstep::train
