#include "trainer/observe/termination_message.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/planted_link.h"
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
  for (const testing::Link link : testing::kLinks) {
    testing::PlantLink(folder.At("message"), folder.At("victim"), link);
    LeaveTerminationMessage(folder.At("message"), "why");
    EXPECT_EQ(ReadTextFile(folder.At("victim")), "mine");
  }
}

TEST(TerminationMessageTest, WaitsForNobodyToReadIt) {
  const TempDirectory folder;
  ASSERT_EQ(mkfifo(folder.At("pipe").c_str(), 0600), 0);
  LeaveTerminationMessage(folder.At("pipe"), "why");
}

}  // namespace
}  // namespace lockstep::train
