#include "operator/local/plain_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temp_directory.h"

namespace lockstep::local {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::StartsWith;

class PlainLinksTest : public ::testing::Test {
 protected:
  PlainLinksTest() { fs::create_directories(folder_.At("my dir/volumes/data")); }
  std::string To(const std::string& path) {
    const auto name = links_->To(folder_.At(path));
    EXPECT_TRUE(name.ok()) << name.status();
    return name.value_or("");
  }

  const TempDirectory folder_;
  const std::string of_links_ = folder_.At("shared/links");
  std::unique_ptr<PlainLinks> links_ = std::make_unique<PlainLinks>(of_links_);
};

TEST_F(PlainLinksTest, AVolumeBelowAFolderWithASpaceIsNoLink) {
  const std::string data = To("my dir/volumes/data");
  EXPECT_FALSE(HasShellCharacters(data)) << data;
  EXPECT_THAT(data, StartsWith(of_links_));
  EXPECT_THAT(data, EndsWith("/volumes/data"));
  EXPECT_TRUE(fs::equivalent(data, folder_.At("my dir/volumes/data")));
  EXPECT_FALSE(fs::is_symlink(data));
  EXPECT_EQ(To("my dir/volumes/data"), data);
}

TEST_F(PlainLinksTest, AFolderWhoseOwnNameIsNotPlainIsAFolder) {
  const std::string dir = To("my dir");
  EXPECT_TRUE(fs::equivalent(dir, folder_.At("my dir")));
  EXPECT_FALSE(fs::is_symlink(dir)) << "find would find nothing below it";
}

TEST_F(PlainLinksTest, APathNeedNotExist) {
  const std::string file = To("my dir/later $1");
  WriteTextFile(file, "by a pod");
  EXPECT_EQ(ReadTextFile(folder_.At("my dir/later $1")), "by a pod");
}

// The name can be computed, and the folder above may be one that others can write to.
TEST_F(PlainLinksTest, LinksInAFolderThatIsALinkStay) {
  links_.reset();
  fs::create_directories(folder_.At("env/bin"));
  fs::create_symlink("/bin/sh", folder_.At("env/bin/python"));
  fs::create_directories(folder_.At("shared"));
  fs::create_directory_symlink(folder_.At("env/bin"), of_links_);
  PlainLinks(of_links_).To(folder_.At("my dir")).IgnoreError();
  EXPECT_TRUE(fs::is_symlink(folder_.At("env/bin/python")));
  fs::create_directory_symlink(folder_.At("env"), folder_.At("elsewhere"));
  RemoveLinks(folder_.At("elsewhere/bin"));
  EXPECT_TRUE(fs::is_symlink(folder_.At("env/bin/python")));
}

TEST_F(PlainLinksTest, LinksEndWithTheRun) {
  To("my dir");
  EXPECT_TRUE(fs::exists(of_links_));
  links_.reset();
  EXPECT_FALSE(fs::exists(of_links_));
  EXPECT_TRUE(fs::exists(folder_.At("my dir/volumes/data")));
}

TEST_F(PlainLinksTest, LinksOfAKilledRunAreReplaced) {
  fs::create_directories(of_links_);
  fs::create_symlink("/nowhere", of_links_ + "/old");
  links_ = std::make_unique<PlainLinks>(of_links_);
  EXPECT_FALSE(fs::exists(of_links_));
}

TEST(PlainTest, KnowsWhatAShellTakesApart) {
  for (const char* path : {"/a/B-0_c.d", "/runs/lr=0.1,b@c:d+e%",
                           "/gr\xc3\xb6\xc3\x9f"
                           "e"}) {
    EXPECT_FALSE(HasShellCharacters(path)) << path;
  }
  for (const char* path :
       {"/a b", "/a'b", "/a\"b", "/$a", "/a;b", "/a*", "/a\nb", "/a&", "/(a)", "/a~"}) {
    EXPECT_TRUE(HasShellCharacters(path)) << path;
  }
  EXPECT_TRUE(
      IsUtf8("/gr\xc3\xb6\xc3\x9f"
             "e"));
  EXPECT_FALSE(IsUtf8("/caf\xe9"));
}

}  // namespace
}  // namespace lockstep::local
