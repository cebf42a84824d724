#include "trainer/checkpoint/file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <map>

#include "tests/support/temp_directory.h"
#include "tests/support/unlisted_folder.h"
#include "tests/trainer/checkpoint/make_socket.h"
#include "tests/trainer/checkpoint/piece.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

TEST(RealFileSystemTest, WritesPiecesAndReadsThemBack) {
  const TempDirectory folder;
  FileSystem& files = RealFileSystem();
  ASSERT_TRUE(files.WriteFile(folder.At("a"), {PieceOf("one "), PieceOf(""), PieceOf("two")}).ok());
  EXPECT_EQ(*files.ReadFile(folder.At("a"), kMostJsonBytes), "one two");
  ASSERT_TRUE(files.WriteFile(folder.At("a"), {PieceOf("x")}).ok());
  EXPECT_EQ(*files.ReadFile(folder.At("a"), kMostJsonBytes), "x");
}

TEST(RealFileSystemTest, FoldersAreMadeRenamedListedRemoved) {
  const TempDirectory folder;
  FileSystem& files = RealFileSystem();
  ASSERT_TRUE(files.CreateDirectories(folder.At("a/b/c")).ok());
  ASSERT_TRUE(files.CreateDirectories(folder.At("a/b/c/")).ok());
  ASSERT_TRUE(files.Rename(folder.At("a/b"), folder.At("a/d")).ok());
  ASSERT_TRUE(files.SyncDirectory(folder.At("a")).ok());
  EXPECT_THAT(*files.ListDirectory(folder.At("a")), ::testing::ElementsAre("d"));
  ASSERT_TRUE(files.RemoveRecursively(folder.At("a")).ok());
  ASSERT_TRUE(files.RemoveRecursively(folder.At("a")).ok());  // already gone
  EXPECT_FALSE(std::filesystem::exists(folder.At("a")));
}

// As a mount of an object store answers that knows no rename.
bool RefuseRenames(int error) {
  const auto number = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
  const auto refuse = SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
  std::array filter = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
#ifdef SYS_rename
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rename, 2, 0),
#endif
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat, 1, 0),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, refuse),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = filter.size(), .filter = filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Ends the process with the code that the rename has returned.
[[noreturn]] void RenameWhereThatIsRefused(int error, const std::string& from,
                                           const std::string& to) {
  if (!RefuseRenames(error)) std::_Exit(0);
  const absl::Status refused = RealFileSystem().Rename(from, to);
  std::cerr << refused.message() << "\n";
  std::_Exit(refused.raw_code());
}

TEST(RealFileSystemTest, AFileSystemWithoutRenamesIsRefusedForGood) {
  // Without a filter a kernel that takes them finds a bad address, and QEMU a bad argument.
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, nullptr) == 0 || errno != EFAULT) {
    GTEST_SKIP() << "this system takes no filter of its calls";
  }
  const TempDirectory folder;
  WriteTextFile(folder.At("draft"), "x");
  for (const int error : {ENOSYS, ENOTSUP}) {
    EXPECT_EXIT(RenameWhereThatIsRefused(error, folder.At("draft"), folder.At("name")),
                ::testing::ExitedWithCode(static_cast<int>(absl::StatusCode::kFailedPrecondition)),
                ::testing::StartsWith(folder.path() + ": found a file system that cannot rename"));
  }
  EXPECT_TRUE(std::filesystem::exists(folder.At("draft")));
}

TEST(RealFileSystemTest, ErrorsNamePathAndReason) {
  const TempDirectory folder;
  FileSystem& files = RealFileSystem();
  const absl::Status missing = files.ReadFile(folder.At("nothing"), kMostJsonBytes).status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(std::string(missing.message()), HasSubstr(folder.At("nothing") + ": cannot open"));
  EXPECT_TRUE(absl::IsNotFound(files.ListDirectory(folder.At("nothing")).status()));
  EXPECT_TRUE(absl::IsNotFound(files.SyncDirectory(folder.At("nothing"))));
  EXPECT_TRUE(absl::IsNotFound(files.Rename(folder.At("nothing"), folder.At("b"))));
  EXPECT_TRUE(absl::IsDataLoss(files.ReadFile(folder.path(), kMostJsonBytes).status()));
  WriteTextFile(folder.At("file"), "x");
  EXPECT_TRUE(absl::IsFailedPrecondition(files.CreateDirectories(folder.At("file"))));
  EXPECT_FALSE(files.CreateDirectories(folder.At("file/below")).ok());
}

TEST(RealFileSystemTest, AKindIsThatOfWhatALinkLeadsTo) {
  using Kind = FileSystem::Kind;
  const TempDirectory folder;
  WriteTextFile(folder.At("file"), "x");
  MakeSocket(folder.At("socket"));
  std::filesystem::create_symlink("file", folder.At("to-file"));
  std::filesystem::create_symlink(".", folder.At("to-folder"));
  std::filesystem::create_symlink("nothing", folder.At("to-nothing"));
  std::filesystem::create_symlink("loop", folder.At("loop"));
  for (const std::string name : {"file", "socket", "to-file", "to-nothing", "loop"}) {
    EXPECT_EQ(*RealFileSystem().KindOf(folder.At(name)), Kind::kFile) << name;
  }
  EXPECT_EQ(*RealFileSystem().KindOf(folder.At("to-folder")), Kind::kFolder);
  EXPECT_EQ(*RealFileSystem().KindOf(folder.path()), Kind::kFolder);
  EXPECT_EQ(*RealFileSystem().KindOf(folder.At("nothing")), Kind::kNothing);
  EXPECT_EQ(*RealFileSystem().KindOf(folder.At("nothing/below")), Kind::kNothing);
}

TEST(RealFileSystemTest, AFolderThatMayNotBeReadTakesFiles) {
  const UnlistedFolder folder;
  if (!folder.works()) GTEST_SKIP() << "this user may list every folder";
  FileSystem& files = RealFileSystem();
  EXPECT_TRUE(absl::IsPermissionDenied(files.ListDirectory(folder.path()).status()));
  EXPECT_EQ(*files.KindOf(folder.At("a")), FileSystem::Kind::kNothing);
  EXPECT_TRUE(files.WriteFile(folder.At("a"), {PieceOf("x")}).ok());
  EXPECT_EQ(*files.KindOf(folder.At("a")), FileSystem::Kind::kFile);
  const absl::Status synced = files.SyncDirectory(folder.path());
  EXPECT_TRUE(synced.ok()) << synced;
  EXPECT_TRUE(files.CreateDirectories(folder.At("b/c")).ok());
  EXPECT_EQ(*files.KindOf(folder.At("b/c")), FileSystem::Kind::kFolder);
}

// They do not pass.
TEST(RealFileSystemTest, APathThatCannotBeAFilesIsRefusedForGood) {
  const TempDirectory folder;
  FileSystem& files = RealFileSystem();
  WriteTextFile(folder.At("file"), "x");
  std::filesystem::create_symlink("loop", folder.At("loop"));
  const std::string too_long(256, 'x');
  for (const std::string& name : {std::string("file/below"), std::string("loop"), too_long}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(files.ListDirectory(folder.At(name)).status())) << name;
    EXPECT_TRUE(absl::IsDataLoss(files.ReadFile(folder.At(name), kMostJsonBytes).status())) << name;
    if (name == "loop") continue;  // a link, which may be replaced
    EXPECT_TRUE(absl::IsFailedPrecondition(files.WriteFile(folder.At(name), {}))) << name;
    EXPECT_TRUE(absl::IsFailedPrecondition(files.KindOf(folder.At(name)).status())) << name;
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(files.CreateDirectories(folder.At(too_long))));
  EXPECT_TRUE(absl::IsFailedPrecondition(files.CreateDirectory(folder.At(too_long))));
  ASSERT_TRUE(files.CreateDirectory(folder.At("a")).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(files.WriteFile(folder.At("a"), {})));
  EXPECT_TRUE(absl::IsFailedPrecondition(files.Rename(folder.At("a"), folder.At("a/b"))));
}

TEST(RealFileSystemTest, AFileOfMoreBytesThanExpectedIsNotRead) {
  const TempDirectory folder;
  WriteTextFile(folder.At("file"), "four");
  EXPECT_EQ(*RealFileSystem().ReadFile(folder.At("file"), 4), "four");
  std::filesystem::resize_file(folder.At("file"), std::uintmax_t{60} << 30U);  // sparse
  const absl::Status read = RealFileSystem().ReadFile(folder.At("file"), 4).status();
  EXPECT_TRUE(absl::IsDataLoss(read)) << read;
  EXPECT_THAT(std::string(read.message()),
              HasSubstr(folder.At("file") + ": found 64424509440 bytes, expected at most 4"));
}

TEST(RealFileSystemTest, APipeWithoutAWriterIsNoFileAndIsNotWaitedFor) {
  const TempDirectory folder;
  ASSERT_EQ(mkfifo(folder.At("pipe").c_str(), 0600), 0);
  auto read = std::async(std::launch::async, [&] {
    return RealFileSystem().ReadFile(folder.At("pipe"), kMostJsonBytes).status();
  });
  const bool waits = read.wait_for(std::chrono::seconds(60)) != std::future_status::ready;
  EXPECT_FALSE(waits);
  if (waits) std::ofstream(folder.At("pipe")) << "so that the reader ends";
  EXPECT_TRUE(absl::IsDataLoss(read.get()));
}

// Others may be able to write to the folder of checkpoints, and know the names of drafts.
TEST(RealFileSystemTest, WhatHasANewFilesNameIsReplacedAndNotWrittenTo) {
  const TempDirectory folder;
  WriteTextFile(folder.At("victim"), "mine");
  std::filesystem::create_symlink("victim", folder.At("link"));
  std::filesystem::create_symlink("loop", folder.At("loop"));
  std::filesystem::create_hard_link(folder.At("victim"), folder.At("second name"));
  ASSERT_EQ(mkfifo(folder.At("pipe").c_str(), 0600), 0);
  MakeSocket(folder.At("socket"));
  for (const char* name : {"link", "loop", "second name", "pipe", "socket"}) {
    const absl::Status written = RealFileSystem().WriteFile(folder.At(name), {PieceOf("new")});
    EXPECT_TRUE(written.ok()) << name << ": " << written;
    EXPECT_FALSE(std::filesystem::is_symlink(folder.At(name))) << name;
    EXPECT_EQ(ReadTextFile(folder.At(name)), "new") << name;
  }
  EXPECT_EQ(ReadTextFile(folder.At("victim")), "mine");
}

TEST(RealFileSystemTest, ASocketIsNoFile) {
  const TempDirectory folder;
  MakeSocket(folder.At("socket"));
  const absl::Status read = RealFileSystem().ReadFile(folder.At("socket"), kMostJsonBytes).status();
  EXPECT_TRUE(absl::IsDataLoss(read)) << read;
}

TEST(FileErrorTest, TheCodeSaysWhetherAnotherTryMayHelp) {
  const std::map<int, absl::StatusCode> codes = {
      {ENOENT, absl::StatusCode::kNotFound},
      {EEXIST, absl::StatusCode::kAlreadyExists},
      {ENOSPC, absl::StatusCode::kResourceExhausted},
      {EDQUOT, absl::StatusCode::kResourceExhausted},
      {EFBIG, absl::StatusCode::kResourceExhausted},
      {EACCES, absl::StatusCode::kPermissionDenied},
      {EPERM, absl::StatusCode::kPermissionDenied},
      {EROFS, absl::StatusCode::kPermissionDenied},
      {EISDIR, absl::StatusCode::kFailedPrecondition},
      {ENOTDIR, absl::StatusCode::kFailedPrecondition},
      {ENAMETOOLONG, absl::StatusCode::kFailedPrecondition},
      {ELOOP, absl::StatusCode::kFailedPrecondition},
      {EIO, absl::StatusCode::kUnavailable},
      {ESTALE, absl::StatusCode::kUnavailable},
  };
  for (const auto& [error, code] : codes) {
    const absl::Status status = FileError(error, "write", "/p");
    EXPECT_EQ(status.code(), code) << status;
  }
  EXPECT_EQ(std::string(FileError(ENOSPC, "write", "/p").message()),
            "/p: cannot write: No space left on device");
}

TEST(RealFileSystemTest, AFileThatMayNotGrowIsResourceExhausted) {
  const TempDirectory folder;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const absl::Status status = RealFileSystem().WriteFile(folder.At("a"), {PieceOf("x")});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(folder.At("a") + ": cannot write: File too"));
}

}  // namespace
}  // namespace lockstep::train
