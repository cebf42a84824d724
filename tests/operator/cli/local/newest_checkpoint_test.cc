#include "operator/cli/local/newest_checkpoint.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "tests/support/temp_directory.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

class NewestCheckpointTest : public ::testing::Test {
 protected:
  // `written`: minutes ago.
  void Save(const std::string& name, int written) const {
    fs::create_directories(folder_.At(name));
    const std::string manifest = folder_.At(name + "/manifest.json");
    WriteTextFile(manifest, "{}");
    fs::last_write_time(manifest, fs::file_time_type::clock::now() - std::chrono::minutes(written));
  }
  const TempDirectory folder_;
};

// A copy of the folder has the times of the copying.
TEST_F(NewestCheckpointTest, ItIsThatOfTheHighestStep) {
  EXPECT_EQ(NewestCheckpoint(folder_.path(), false), "");
  Save("step-00000006", 3);
  Save("step-00000004", 1);
  EXPECT_EQ(NewestCheckpoint(folder_.path(), false), folder_.At("step-00000006"));
  Save("step-00000006.1", 2);
  Save("step-of-mine", 0);
  Save("backup", 0);
  Save("step-9", 0);  // the trainer writes eight digits, and reads no other name
  fs::create_directories(folder_.At("step-00000008"));  // not complete
  EXPECT_EQ(NewestCheckpoint(folder_.path(), false), folder_.At("step-00000006.1"));
}

TEST_F(NewestCheckpointTest, AmongVariantsItIsTheOneWrittenLast) {
  Save("slow/step-00000006", 1);
  Save("fast/step-00000009", 3);
  Save("fast/step-00000007", 0);
  EXPECT_EQ(NewestCheckpoint(folder_.path(), true), folder_.At("slow/step-00000006"));
}

}  // namespace
}  // namespace lockstep::cli
