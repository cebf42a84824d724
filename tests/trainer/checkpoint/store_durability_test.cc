// What the real file system asks of the kernel, and when: a loss of power cannot be had in a test,
// but the calls that protect from it can be seen. The fakes take durability for granted.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temp_directory.h"
#include "tests/trainer/checkpoint/piece.h"
#include "tests/trainer/checkpoint/snapshots.h"
#include "trainer/checkpoint/store.h"

namespace {

// "fsync PATH" and "rename FROM TO", in order. One thread writes them.
std::vector<std::string>& Calls() {
  static std::vector<std::string> calls;
  return calls;
}

}  // namespace

// They stand before libc's, for the whole of this test program.
extern "C" int fsync(int fd) {
  static const auto real = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, "fsync"));
  std::error_code error;
  const auto path = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd), error);
  Calls().push_back("fsync " + path.string());
  return real(fd);
}

extern "C" int rename(const char* from, const char* to) noexcept {
  static const auto real =
      reinterpret_cast<int (*)(const char*, const char*)>(dlsym(RTLD_NEXT, "rename"));
  Calls().push_back(fmt::format("rename {} {}", from, to));
  return real(from, to);
}

namespace lockstep::train {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

TEST(StoreDurabilityTest, AWrittenFileIsSyncedBeforeItsCallReturns) {
  const TempDirectory folder;
  Calls().clear();
  ASSERT_TRUE(RealFileSystem().WriteFile(folder.At("a"), {PieceOf("x")}).ok());
  EXPECT_THAT(Calls(), ElementsAre("fsync " + folder.At("a")));
}

TEST(StoreDurabilityTest, FoldersAreSyncedIntoTheirParents) {
  const TempDirectory folder;
  Calls().clear();
  ASSERT_TRUE(RealFileSystem().CreateDirectories(folder.At("a/b")).ok());
  EXPECT_THAT(Calls(), ElementsAre("fsync " + folder.path(), "fsync " + folder.At("a")));
}

TEST(StoreDurabilityTest, AManifestGetsItsNameAfterAllThatItListsIsSynced) {
  const TempDirectory folder;
  auto store = *CheckpointStore::Open(RealFileSystem(), folder.path(), 2, kFirstOwner);
  Calls().clear();
  const std::string saved = *store->Save(SnapshotOfStep(10));
  const auto commit =
      std::find(Calls().begin(), Calls().end(),
                fmt::format("rename {0}/manifest.json.tmp {0}/manifest.json", saved));
  ASSERT_NE(commit, Calls().end());
  const std::vector<std::string> before(Calls().begin(), commit), after(commit, Calls().end());
  for (const char* file : {"/model.safetensors", "/optimizer.safetensors", "/manifest.json.tmp"}) {
    EXPECT_THAT(before, Contains("fsync " + saved + file));
  }
  EXPECT_THAT(before, Contains("fsync " + saved));          // the files' names
  EXPECT_THAT(before, Contains("fsync " + folder.path()));  // the folder's own
  EXPECT_THAT(after, Contains("fsync " + saved));           // the commit itself
}

}  // namespace
}  // namespace lockstep::train
