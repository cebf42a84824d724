// Runs the `lockstep` program without a verb. tests/cli_docs_test.py reads what --help prints.
#include <gmock/gmock.h>

#include "tests/operator/cli/program.h"

namespace lockstep::cli {
namespace {

using testing::RunProgram;
using ::testing::StartsWith;

TEST(MainTest, PrintsItsVersion) {
  const testing::Ended ended = RunProgram("/", {"--version"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, StartsWith("lockstep "));
}

TEST(MainTest, RequiresOneVerb) {
  EXPECT_EQ(RunProgram("/", {}).code, 2);
  EXPECT_EQ(RunProgram("/", {"fly"}).code, 2);
  EXPECT_EQ(RunProgram("/", {"validate"}).code, 2) << "FILE is missing";
}

}  // namespace
}  // namespace lockstep::cli
