// Runs `lockstep render` as a program: checks stdout and its exit code.
#include <gmock/gmock.h>

#include "tests/operator/cli/program.h"

namespace lockstep::cli {
namespace {

using testing::Ended;
using ::testing::HasSubstr;

TEST(RenderCommandTest, PrintsWhatTheOperatorWouldCreate) {
  const TempDirectory folder;
  WriteTextFile(folder.At("job.yaml"), testing::ShellJob("job", 2, "exit 0"));
  const Ended rendered = testing::RunProgram(folder.path(), {"render", "job.yaml"});
  EXPECT_EQ(rendered.code, 0) << rendered.err;
  for (const char* part : {"kind: Service", "name: job-worker-1", "job-worker-0.job.default.svc"}) {
    EXPECT_THAT(rendered.out, HasSubstr(part));
  }
}

TEST(RenderCommandTest, TheBundledTrainersImageIsTheOneOfThisVersion) {
  const TempDirectory folder;
  ASSERT_EQ(testing::RunProgram(folder.path(), {"init", "job.yaml"}).code, 0);
  const std::string said = testing::RunProgram(folder.path(), {"--version"}).out;  // "lockstep 1.2"
  const std::string version = said.substr(said.find(' ') + 1);
  const Ended rendered = testing::RunProgram(folder.path(), {"render", "job.yaml"});
  EXPECT_EQ(rendered.code, 0) << rendered.err;
  EXPECT_THAT(rendered.out, HasSubstr("image: lockstep-trainer:" + version));
}

TEST(RenderCommandTest, AFaultyJobIsAUsageErrorWithoutOutput) {
  const TempDirectory folder;
  WriteTextFile(folder.At("job.yaml"), testing::ShellJob("job", 2, "exit 0"));
  const Ended refused =
      testing::RunProgram(folder.path(), {"render", "job.yaml", "--set", "spec.suspend=maybe"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, HasSubstr("job.yaml: spec.suspend: found \"maybe\""));
}

}  // namespace
}  // namespace lockstep::cli
