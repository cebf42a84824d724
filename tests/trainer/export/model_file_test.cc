#include "trainer/export/model_file.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/support/fault_file_system.h"
#include "tests/support/temp_directory.h"
#include "tests/trainer/export/exported.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kFile[] = "/out/model.safetensors";
constexpr char kOther[] = "/out/other.safetensors";

// The longest name that Linux's file systems have.
std::string LongestName() {
  const std::string ending = ".safetensors";
  return std::string(255 - ending.size(), 'm') + ending;
}

TrainedModel SmallModel() {
  const ModelDescription model{
      .layers = {{{"type", "Dense"}, {"units", 2}}}, .input = {3}, .outputs = 2};
  return {.origin = "a test", .step = 1, .model = model, .tensors = TensorsOf(model)};
}

class ModelFileTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(files_.CreateDirectories("/out").ok()); }
  // The process dies while it writes its draft.
  void DieInExport(const std::string& path, const Incarnation& writer) {
    files_.CrashInOperation(1);
    EXPECT_FALSE(WriteModelFile(SmallModel(), path, writer, files_).ok());
    files_.Reboot(FaultFileSystem::kKeepAll);
  }
  std::vector<std::string> Names() const { return *files_.ListDirectory("/out"); }

  mutable FaultFileSystem files_;
};

TEST_F(ModelFileTest, ProcessesOfDifferentPodsHaveDifferentDrafts) {
  DieInExport(kFile, {.pod_started = 1, .process_number = 1});
  DieInExport(kFile, {.pod_started = 2, .process_number = 1});
  DieInExport(kFile, {.pod_started = 2, .process_number = 2});
  EXPECT_THAT(Names(), SizeIs(3));
}

TEST_F(ModelFileTest, TheDraftsOfEarlierProcessesAreRemoved) {
  const Incarnation writer{.pod_started = 10, .process_number = 1};
  DieInExport(kFile, {.pod_started = 10});
  DieInExport(kFile, {.pod_started = 9, .process_number = 20});
  EXPECT_THAT(Names(), SizeIs(2));
  EXPECT_TRUE(PrepareModelFile(kFile, writer, files_).ok());
  EXPECT_THAT(Names(), IsEmpty());
}

// A pod that counts as lost may be started again while its successor exports.
TEST_F(ModelFileTest, TheDraftsOfLaterProcessesAndOfOtherFilesStay) {
  DieInExport(kFile, {.pod_started = 2, .process_number = 1});
  DieInExport(kOther, {.pod_started = 1, .process_number = 1});
  const std::vector<std::string> before = Names();
  EXPECT_THAT(before, SizeIs(2));
  EXPECT_TRUE(PrepareModelFile(kFile, {.pod_started = 1, .process_number = 5}, files_).ok());
  EXPECT_EQ(Names(), before);
}

TEST_F(ModelFileTest, AFileMayHaveTheLongestName) {
  const TempDirectory folder;
  const std::string path = folder.At(LongestName());
  EXPECT_TRUE(PrepareModelFile(path, {}, RealFileSystem()).ok());
  const absl::Status written = WriteModelFile(SmallModel(), path, {}, RealFileSystem());
  EXPECT_TRUE(written.ok()) << written;
  EXPECT_TRUE(PrepareModelFile(path, {}, RealFileSystem()).ok()) << "it is there";
  EXPECT_THAT(*RealFileSystem().ListDirectory(folder.path()), ElementsAre(LongestName()));
}

TEST_F(ModelFileTest, ANameThatIsTooLongIsRefused) {
  const TempDirectory folder;
  const std::string path = folder.At("m" + LongestName());
  const absl::Status refused = PrepareModelFile(path, {}, RealFileSystem());
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(path));
}

}  // namespace
}  // namespace lockstep::train
