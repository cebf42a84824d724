#include "trainer/export/model_file.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/support/fault_file_system.h"
#include "tests/support/temp_directory.h"
#include "tests/support/unlisted_folder.h"
#include "tests/trainer/export/exported.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kFile[] = "/out/model.safetensors";
constexpr char kOther[] = "/out/other.safetensors";

ModelWriter Writer(std::int64_t pod_started, std::int64_t process_number = 0,
                   const std::string& job_uid = "uid") {
  return {.job_uid = job_uid,
          .process = {.pod_started = pod_started, .process_number = process_number}};
}

// The longest name that Linux's file systems have.
std::string LongestName() {
  const std::string ending = ".safetensors";
  return std::string(255 - ending.size(), 'm') + ending;
}

TrainedModel SmallModel() {
  return {.origin = "a test",
          .step = 1,
          .model = OneDenseLayer(),
          .tensors = TensorsOf(OneDenseLayer())};
}

class ModelFileTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(files_.CreateDirectories("/out").ok()); }
  // The process dies while it writes its draft.
  void DieInExport(const std::string& path, const ModelWriter& writer) {
    files_.CrashInOperation(1);
    EXPECT_FALSE(WriteModelFile(SmallModel(), path, writer, files_).ok());
    files_.Reboot(FaultFileSystem::kKeepAll);
  }
  std::vector<std::string> Names() const { return *files_.ListDirectory("/out"); }

  mutable FaultFileSystem files_;
};

TEST_F(ModelFileTest, ProcessesOfDifferentPodsHaveDifferentDrafts) {
  DieInExport(kFile, Writer(1, 1));
  DieInExport(kFile, Writer(2, 1));
  DieInExport(kFile, Writer(2, 2));
  EXPECT_THAT(Names(), SizeIs(3));
}

TEST_F(ModelFileTest, TheDraftsOfEarlierProcessesAreRemoved) {
  DieInExport(kFile, Writer(10));
  DieInExport(kFile, Writer(9, 20));
  EXPECT_THAT(Names(), SizeIs(2));
  EXPECT_TRUE(PrepareModelFile(kFile, Writer(10, 1), files_).ok());
  EXPECT_THAT(Names(), IsEmpty());
}

// A pod that counts as lost may be started again while its successor exports.
TEST_F(ModelFileTest, TheDraftsOfLaterProcessesAndOfOtherFilesStay) {
  DieInExport(kFile, Writer(2, 1));
  DieInExport(kOther, Writer(1, 1));
  const std::vector<std::string> before = Names();
  EXPECT_THAT(before, SizeIs(2));
  EXPECT_TRUE(PrepareModelFile(kFile, Writer(1, 5), files_).ok());
  EXPECT_EQ(Names(), before);
}

// Two jobs may have the same exportTo, and people may run `lockstep export` beside a job.
TEST_F(ModelFileTest, TheDraftsThatOtherJobsAndExportsWriteStay) {
  for (const std::string job : {"uid", "other", ""}) DieInExport(kFile, Writer(1, 1, job));
  EXPECT_THAT(Names(), SizeIs(3));
  EXPECT_TRUE(PrepareModelFile(kFile, Writer(2, 1, ""), files_).ok());
  EXPECT_THAT(Names(), SizeIs(3)) << "drafts of writers without a job may be anybody's";
  EXPECT_TRUE(PrepareModelFile(kFile, Writer(2, 1), files_).ok());
  EXPECT_THAT(Names(), SizeIs(2));
  EXPECT_TRUE(PrepareModelFile(kFile, Writer(2, 1), files_).ok());
  EXPECT_THAT(Names(), SizeIs(2));
}

TEST_F(ModelFileTest, AFolderThatCannotBeListedKeepsOldDraftsAndTakesTheFile) {
  DieInExport(kFile, Writer(1));
  files_.FailInRead(2);
  const absl::Status prepared = PrepareModelFile(kFile, Writer(2), files_);
  EXPECT_TRUE(prepared.ok()) << prepared;
  EXPECT_THAT(Names(), SizeIs(1));
}

TEST_F(ModelFileTest, APathThatCannotBeLookedUpIsRefusedForNow) {
  files_.FailInRead(1);
  const absl::Status refused = PrepareModelFile(kFile, Writer(1), files_);
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
}

TEST_F(ModelFileTest, AFolderThatMayNotBeListedTakesTheFileAndItsSuccessor) {
  const UnlistedFolder folder;
  if (!folder.works()) GTEST_SKIP() << "this user may list every folder";
  const std::string path = folder.At("model.safetensors");
  for (const std::int64_t pod_started : {1, 2}) {
    const absl::Status prepared = PrepareModelFile(path, Writer(pod_started), RealFileSystem());
    EXPECT_TRUE(prepared.ok()) << prepared;
    const absl::Status written =
        WriteModelFile(SmallModel(), path, Writer(pod_started), RealFileSystem());
    EXPECT_TRUE(written.ok()) << written;
  }
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
