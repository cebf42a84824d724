#include "operator/cli/local/work_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/planted_link.h"
#include "tests/support/temp_directory.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

// A folder that others may write to as well: they have put links to a file of this user's there.
class SharedWorkDirTest : public ::testing::Test {
 protected:
  SharedWorkDirTest() { WriteTextFile(victim_, "mine"); }
  void Plant(const std::string& name, testing::Link link = testing::Link::kSymbolic) {
    testing::PlantLink(folder_.At(name), victim_, link);
  }

  const TempDirectory folder_, elsewhere_;
  const std::string victim_ = elsewhere_.At("victim");
};

TEST_F(SharedWorkDirTest, ALinkInPlaceOfTheLockIsRefused) {
  for (const testing::Link link : testing::kLinks) {
    Plant(".lock", link);
    const absl::Status refused = WorkDir::Open(folder_.path(), "j").status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr(folder_.path() + ": its .lock is a link"));
    EXPECT_EQ(ReadTextFile(victim_), "mine");
  }
}

TEST_F(SharedWorkDirTest, APipeInPlaceOfTheAddressesIsNotWaitedFor) {
  ASSERT_EQ(mkfifo(folder_.At("metrics.json").c_str(), 0600), 0);
  const auto dir = WorkDir::Open(folder_.path(), "j");
  ASSERT_TRUE(dir.ok()) << dir.status();
  EXPECT_FALSE(WorkDir::ReadMetricsAddresses(folder_.path()).ok());
}

TEST_F(SharedWorkDirTest, ReportsAreNotWrittenThroughALink) {
  const auto dir = WorkDir::Open(folder_.path(), "j");
  ASSERT_TRUE(dir.ok()) << dir.status();
  for (const char* name : {"report.json", "report.json.new", "metrics.json", "metrics.json.new"}) {
    Plant(name);
  }
  EXPECT_TRUE(dir->WriteReport("{}").ok());
  EXPECT_TRUE(dir->WriteMetricsAddresses({{"worker-0", "127.77.0.1:8080"}}).ok());
  EXPECT_EQ(ReadTextFile(victim_), "mine");
  EXPECT_EQ(ReadTextFile(folder_.At("report.json")), "{}\n");
  EXPECT_EQ(WorkDir::ReadMetricsAddresses(folder_.path())->at("worker-0"), "127.77.0.1:8080");
}

}  // namespace
}  // namespace lockstep::cli
