#include "trainer/checkpoint/owner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <utility>

#include "tests/support/fault_file_system.h"
#include "tests/support/temp_directory.h"
#include "tests/trainer/checkpoint/make_socket.h"
#include "tests/trainer/checkpoint/snapshots.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// Calls back before a file is written: what another process does meanwhile.
class Watched final : public FileSystem {
 public:
  explicit Watched(FileSystem& files) : files_(files) {}
  std::function<void(const std::string& path)> before_writing = [](const std::string&) {};

  absl::StatusOr<Kind> KindOf(const std::string& path) override { return files_.KindOf(path); }
  absl::Status CreateDirectories(const std::string& path) override {
    return files_.CreateDirectories(path);
  }
  absl::Status CreateDirectory(const std::string& path) override {
    return files_.CreateDirectory(path);
  }
  absl::Status WriteFile(const std::string& path,
                         const std::vector<std::span<const std::byte>>& pieces) override {
    before_writing(path);
    return files_.WriteFile(path, pieces);
  }
  absl::StatusOr<std::string> ReadFile(const std::string& path, std::uint64_t most) override {
    return files_.ReadFile(path, most);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return files_.Rename(from, to);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    return files_.SyncDirectory(path);
  }
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override {
    return files_.ListDirectory(path);
  }
  absl::Status RemoveRecursively(const std::string& path) override {
    return files_.RemoveRecursively(path);
  }

 private:
  FileSystem& files_;
};

class OwnerTest : public testing::Test {
 protected:
  std::unique_ptr<CheckpointStore> Open(FileSystem& files, const CheckpointOwner& owner) {
    auto store = CheckpointStore::Open(files, "/ckpt", 2, owner);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  std::vector<std::string> Names() { return *files_.ListDirectory("/ckpt"); }

  FaultFileSystem files_;
};

TEST(CheckpointOwnerTest, TheLaterPodSupersedesWhateverItsProcessesDo) {
  EXPECT_TRUE(kSecondOwner.Supersedes(kFirstOwner));
  EXPECT_FALSE(kFirstOwner.Supersedes(kSecondOwner));
  EXPECT_TRUE(kFirstOwner.Supersedes(kFirstOwner));
  CheckpointOwner restarted = kFirstOwner;  // by the old pod's supervisor, behind a partition
  restarted.process_number = 1000;
  EXPECT_TRUE(restarted.Supersedes(kFirstOwner));
  EXPECT_FALSE(restarted.Supersedes(kSecondOwner));
  CheckpointOwner next_attempt = kFirstOwner;
  next_attempt.attempt = 1;
  EXPECT_TRUE(next_attempt.Supersedes(kSecondOwner));
  CheckpointOwner other_job = kSecondOwner;  // its attempts are no measure
  other_job.job_uid = "uid-b";
  EXPECT_TRUE(other_job.Supersedes(next_attempt));
}

TEST(CheckpointOwnerTest, SurvivesJsonAndNamesWhatIsMissing) {
  const auto read = DecodeOwner(EncodeOwner(kFirstOwner), "p");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, kFirstOwner);
  for (const char* text : {"", "[]", "{}", R"({"jobUid":1})"}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeOwner(text, "p").status())) << text;
  }
}

// As another version of the trainer may have written it.
TEST(CheckpointOwnerTest, OneOfAnotherVersionIsKnownByItsPod) {
  const auto read = DecodeOwner(
      R"({"jobUid": "u", "attempt": 0, "podStarted": 2000, "processStarted": 2001})", "p");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE((CheckpointOwner{"u", 0, 1999, 5}).Supersedes(*read));
  EXPECT_TRUE((CheckpointOwner{"u", 0, 2001, 0}).Supersedes(*read));
}

TEST_F(OwnerTest, ALostProcessSavesNothingOnceItsSuccessorIsThere) {
  const auto lost = Open(files_, kFirstOwner);
  ASSERT_TRUE(lost->Save(SnapshotOfStep(10)).ok());
  const auto successor = Open(files_, kSecondOwner);
  EXPECT_EQ((**successor->LoadLatest("model-a")).step, 10);
  const absl::Status refused = lost->Save(SnapshotOfStep(20)).status();
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("/ckpt/owner.json"));
  EXPECT_THAT(Names(), UnorderedElementsAre("owner.json", "step-00000010"));
  EXPECT_TRUE(successor->Save(SnapshotOfStep(20)).ok());
}

TEST_F(OwnerTest, ALostPodsNextProcessDoesNotGetTheFolderBack) {
  Open(files_, kSecondOwner);
  CheckpointOwner restarted = kFirstOwner;
  restarted.process_number = 1000;
  const auto refused = CheckpointStore::Open(files_, "/ckpt", 2, restarted);
  EXPECT_TRUE(absl::IsAborted(refused.status())) << refused.status();
  EXPECT_EQ(*DecodeOwner(files_.Content("/ckpt/owner.json"), ""), kSecondOwner);
}

TEST_F(OwnerTest, AFolderThatIsLostInTheMiddleOfASaveGetsNoManifest) {
  Watched watched(files_);
  const auto lost = Open(watched, kFirstOwner);
  watched.before_writing = [&](const std::string& path) {
    if (!path.ends_with("manifest.json.tmp")) return;
    const std::string claim = EncodeOwner(kSecondOwner);
    ASSERT_TRUE(files_.WriteFile("/ckpt/owner.json", {std::as_bytes(std::span(claim))}).ok());
  };
  const absl::Status refused = lost->Save(SnapshotOfStep(10)).status();
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
  EXPECT_THAT(Names(), UnorderedElementsAre("owner.json"));
}

TEST_F(OwnerTest, TwoProcessesNeverWriteToOneFolder) {
  Watched watched(files_);
  const auto lost = Open(watched, kFirstOwner);
  std::unique_ptr<CheckpointStore> successor;
  Snapshot newer = SnapshotOfStep(10);
  newer.state["seed"] = 2;
  watched.before_writing = [&](const std::string& path) {
    if (!path.ends_with("optimizer.safetensors")) return;
    successor = Open(files_, kSecondOwner);
    EXPECT_TRUE(successor->Save(newer).ok());
  };
  EXPECT_FALSE(lost->Save(SnapshotOfStep(10)).ok());
  const auto loaded = successor->LoadLatest("model-a");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(SameSnapshot(**loaded, newer));
}

TEST(FolderClaimTest, AnOwnerThatCannotBeReadIsNone) {
  const std::vector<std::function<void(const std::string&)>> kinds = {
      &MakeSocket, [](const std::string& path) { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); },
      [](const std::string& path) { WriteTextFile(path, R"({"jobUid": 7})"); },
      [](const std::string& path) {
        WriteTextFile(path, EncodeOwner({.job_uid = "later", .pod_started = 1'000'000}));
        std::filesystem::resize_file(path, std::uintmax_t{60} << 30U);  // sparse
      }};
  for (const auto& make : kinds) {
    const TempDirectory folder;
    make(folder.At("owner.json"));
    const auto store = CheckpointStore::Open(RealFileSystem(), folder.path(), 2, kFirstOwner);
    ASSERT_TRUE(store.ok()) << store.status();
    const auto saved = (*store)->Save(SnapshotOfStep(10));
    EXPECT_TRUE(saved.ok()) << saved.status();
    EXPECT_EQ(*DecodeOwner(ReadTextFile(folder.At("owner.json")), ""), kFirstOwner);
  }
}

TEST(FolderClaimTest, AFolderInThePlaceOfTheOwnersFileIsAnError) {
  for (const char* name : {"owner.json", "owner.json.tmp"}) {
    const TempDirectory folder;
    const std::string path = folder.At(name);
    ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
    const absl::Status refused =
        CheckpointStore::Open(RealFileSystem(), folder.path(), 2, kFirstOwner).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(path + ": "));
  }
}

TEST_F(OwnerTest, AFullDiskDelaysTheClaimAndNotTheReading) {
  ASSERT_TRUE(Open(files_, kFirstOwner)->Save(SnapshotOfStep(10)).ok());
  files_.FillDiskInOperation(2,
                             /*stays_full=*/true);  // the first writes nothing: the folder is there
  const auto store = Open(files_, kSecondOwner);
  EXPECT_EQ((**store->LoadLatest("model-a")).step, 10);
  EXPECT_TRUE(absl::IsResourceExhausted(store->Save(SnapshotOfStep(20)).status()));
  files_.Reboot(FaultFileSystem::kKeepAll);  // and there is room
  EXPECT_TRUE(store->Save(SnapshotOfStep(20)).ok());
  EXPECT_EQ(*DecodeOwner(files_.Content("/ckpt/owner.json"), ""), kSecondOwner);
}

}  // namespace
}  // namespace lockstep::train
