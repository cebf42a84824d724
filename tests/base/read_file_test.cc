#include "base/read_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_directory.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(ReadFileTest, GivesAllBytes) {
  const TempDirectory folder;
  const std::string content = std::string(10'000, 'x') + std::string("\0\xff\n", 3);
  WriteTextFile(folder.At("file"), content);
  EXPECT_EQ(*ReadFile(folder.At("file"), "the content"), content);
  WriteTextFile(folder.At("file"), "");
  EXPECT_EQ(*ReadFile(folder.At("file"), "the content"), "");
  EXPECT_FALSE(ReadFile("/proc/self/environ", "the environment")->empty());  // its size is 0
}

TEST(ReadFileTest, AFailureNamesTheFileAndWhatItShouldProvide) {
  const TempDirectory folder;
  const absl::Status missing = ReadFile(folder.At("none"), "the token").status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(missing.ToString(),
              HasSubstr(folder.At("none") + ": the token cannot be read: No such file"));
  EXPECT_THAT(ReadFile(folder.path(), "the token").status().ToString(),
              HasSubstr(folder.path() + ": the token cannot be read: Is a directory"));
}

}  // namespace
}  // namespace lockstep
