#include "operator/cli/text/console.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/support/fake_clock.h"
#include "tests/support/temp_directory.h"

namespace lockstep::cli {
namespace {

// What missing replicas are called is up to the trainer.
TEST(ConsoleTest, NothingInALineActsOnATerminal) {
  const TempDirectory folder;
  const testing::FakeClock clock;
  std::FILE* out = std::fopen(folder.At("out").c_str(), "w");
  ASSERT_NE(out, nullptr);
  Console console(out, clock, /*quiet=*/false);
  console.Progress("waiting for \x1b[2Jworker");
  console.Note("\u202Enote");
  std::fclose(out);
  EXPECT_EQ(ReadTextFile(folder.At("out")), "waiting for ?[2Jworker\n?note\n");
}

}  // namespace
}  // namespace lockstep::cli
