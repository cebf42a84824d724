// Runs `lockstep export` as a program. tests/local_run/export_test.py exports what a run has saved.
#include "operator/cli/export_command.h"

#include <gmock/gmock.h>

#include "tests/operator/cli/program.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

TEST(ExportCommandTest, SaysWhatIsWrongWithTheCheckpoint) {
  const TempDirectory folder;
  const testing::Ended ended =
      testing::RunProgram(folder.path(), {"export", "missing", "model.onnx"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.out, "");
  EXPECT_THAT(ended.err, HasSubstr("missing: cannot list the folder: No such file or directory"));
}

TEST(ExportCommandTest, NeedsBothArguments) {
  const TempDirectory folder;
  const testing::Ended ended = testing::RunProgram(folder.path(), {"export", "missing"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("FILE is required"));
}

TEST(ExportCommandTest, NamesInACheckpointDoNotCommandTheTerminal) {
  const TempDirectory folder;
  const testing::Ended ended =
      testing::RunProgram(folder.path(), {"export", "\033]0;owned\007", "model.onnx"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("?]0;owned?: cannot list the folder"));
}

// A name that starts like an option is a name.
TEST(ExportCommandTest, NamesAreNotOptionsOfTheTrainer) {
  const TempDirectory folder;
  const testing::Ended ended =
      testing::RunProgram(folder.path(), {"export", "--", "--help", "model.onnx"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("--help: cannot list the folder: No such file or directory"));
}

}  // namespace
}  // namespace lockstep::cli
