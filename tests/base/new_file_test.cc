#include "base/new_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "tests/support/planted_link.h"
#include "tests/support/temp_directory.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

class PlantedLinkTest : public ::testing::TestWithParam<testing::Link> {
 protected:
  PlantedLinkTest() { WriteTextFile(victim_, "mine"); }

  const TempDirectory folder_;
  const std::string victim_ = folder_.At("victim"), name_ = folder_.At("name");
};

INSTANTIATE_TEST_SUITE_P(Links, PlantedLinkTest, ::testing::ValuesIn(testing::kLinks));

TEST_P(PlantedLinkTest, ANewFileIsNotWrittenThroughIt) {
  testing::PlantLink(name_, victim_, GetParam());
  {
    const Descriptor file = CreateAnew(name_, 0600);
    ASSERT_GE(file.fd(), 0);
    EXPECT_EQ(::write(file.fd(), "new", 3), 3);
  }
  EXPECT_EQ(ReadTextFile(victim_), "mine");
  EXPECT_FALSE(std::filesystem::is_symlink(name_));
  EXPECT_EQ(ReadTextFile(name_), "new");
}

TEST_P(PlantedLinkTest, AFileIsReplacedThoughItsDraftsNameIsOneToo) {
  testing::PlantLink(name_, victim_, GetParam());
  testing::PlantLink(name_ + ".new", victim_, GetParam());
  ASSERT_TRUE(ReplaceFile(name_, "new", 0600).ok());
  EXPECT_EQ(ReadTextFile(victim_), "mine");
  EXPECT_FALSE(std::filesystem::is_symlink(name_));
  EXPECT_EQ(ReadTextFile(name_), "new");
  EXPECT_FALSE(std::filesystem::exists(name_ + ".new"));
}

TEST_P(PlantedLinkTest, AFileThatStaysIsNotOpenedThroughIt) {
  testing::PlantLink(name_, victim_, GetParam());
  for (const int flags : {O_RDWR, O_WRONLY | O_APPEND, O_WRONLY | O_TRUNC}) {
    EXPECT_LT(OpenOwn(name_, flags, 0600).fd(), 0);
    EXPECT_EQ(errno, ELOOP);
  }
  EXPECT_EQ(ReadTextFile(victim_), "mine");
  EXPECT_LT(OpenOwnToRead(name_).fd(), 0);
  EXPECT_EQ(errno, ELOOP);
  EXPECT_EQ(ReadOwn(name_, 100), "");
}

TEST(ReadOwnTest, TheLastBytesAreRead) {
  const TempDirectory folder;
  WriteTextFile(folder.At("log"), "0123456789");
  EXPECT_EQ(ReadOwn(folder.At("log"), 10), "0123456789");
  EXPECT_EQ(ReadOwn(folder.At("log"), 3), "789");
  EXPECT_EQ(ReadOwn(folder.At("none"), 3), "");
}

TEST(OpenOwnTest, AFileIsMadeOrKeptOrEmptied) {
  const TempDirectory folder;
  const auto write = [&folder](int flags, const char* text) {
    const Descriptor file = OpenOwn(folder.At("log"), flags, 0600);
    EXPECT_EQ(::write(file.fd(), text, 1), 1);
    EXPECT_EQ(::fcntl(file.fd(), F_GETFL) & O_NONBLOCK, 0);
    return ReadTextFile(folder.At("log"));
  };
  EXPECT_EQ(write(O_WRONLY | O_APPEND, "a"), "a");
  EXPECT_EQ(write(O_WRONLY | O_APPEND, "b"), "ab");
  EXPECT_EQ(write(O_WRONLY | O_TRUNC, "c"), "c");
}

TEST(OpenOwnTest, APipeIsNeitherWaitedForNorWrittenTo) {
  const TempDirectory folder;
  ASSERT_EQ(mkfifo(folder.At("pipe").c_str(), 0600), 0);
  EXPECT_EQ(ReadOwn(folder.At("pipe"), 1), "");
  EXPECT_LT(OpenOwn(folder.At("pipe"), O_WRONLY, 0600).fd(), 0);
  EXPECT_EQ(errno, ENXIO);
  const Descriptor reader(::open(folder.At("pipe").c_str(), O_RDONLY | O_NONBLOCK));
  EXPECT_LT(OpenOwn(folder.At("pipe"), O_WRONLY, 0600).fd(), 0);
  EXPECT_EQ(errno, ENXIO);
}

TEST(CreateAnewTest, APipeInItsPlaceIsRemoved) {
  const TempDirectory folder;
  ASSERT_EQ(mkfifo(folder.At("name").c_str(), 0600), 0);
  EXPECT_GE(CreateAnew(folder.At("name"), 0600).fd(), 0);
  EXPECT_TRUE(std::filesystem::is_regular_file(folder.At("name")));
}

TEST(CreateAnewTest, AFolderInItsPlaceStays) {
  const TempDirectory folder;
  std::filesystem::create_directory(folder.At("name"));
  EXPECT_LT(CreateAnew(folder.At("name"), 0600).fd(), 0);
  EXPECT_EQ(errno, EISDIR);
  EXPECT_TRUE(std::filesystem::is_directory(folder.At("name")));
}

TEST(CreateAnewTest, TheModeIsTheNewFilesOwn) {
  const TempDirectory folder;
  WriteTextFile(folder.At("name"), "old");
  std::filesystem::permissions(folder.At("name"), std::filesystem::perms::all);
  ASSERT_TRUE(ReplaceFile(folder.At("name"), "secret", 0600).ok());
  struct stat info{};
  ASSERT_EQ(::stat(folder.At("name").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST(ReplaceFileTest, AFailureNamesTheFile) {
  const TempDirectory folder;
  const absl::Status failed = ReplaceFile(folder.At("none/name"), "text", 0600);
  EXPECT_TRUE(absl::IsNotFound(failed)) << failed;
  EXPECT_THAT(std::string(failed.message()),
              HasSubstr("cannot write " + folder.At("none/name") + ": No such file"));
}

TEST(ReplaceFileTest, AFailureLeavesNoDraft) {
  const TempDirectory folder;
  std::filesystem::create_directories(folder.At("name/full"));
  const absl::Status failed = ReplaceFile(folder.At("name"), "text", 0600);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("Is a directory"));
  EXPECT_FALSE(std::filesystem::exists(folder.At("name.new")));
}

}  // namespace
}  // namespace lockstep
