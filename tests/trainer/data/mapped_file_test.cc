#include "trainer/data/mapped_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/descriptor.h"
#include "tests/support/temp_directory.h"
#include "tests/trainer/data/pages.h"
#include "trainer/data/file_bytes.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kSize = 1 << 16;

// The handler before the first mapping. A sanitizer's would report the fault and exit.
[[maybe_unused]] const auto g_handler_before = ::signal(SIGBUS, SIG_DFL);

FileBytes Opened(const std::string& path) {
  WriteTextFile(path, std::string(kSize, 'a'));
  absl::StatusOr<FileBytes> file = FileBytes::OpenWhole(path);
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

int LastByte(const FileBytes& file) {
  const volatile std::uint8_t* const last = &file.bytes().back();
  return *last;
}

TEST(MappedFileDeathTest, AFileThatWasCutShortIsNamed) {
  const TempDirectory folder;
  const FileBytes file = Opened(folder.At("train.idx"));
  EXPECT_EQ(LastByte(file), 'a');
  EXPECT_EXIT(
      {
        if (::truncate(folder.At("train.idx").c_str(), 10) != 0) ::_exit(1);
        ::_exit(LastByte(file));
      },
      ::testing::ExitedWithCode(210), "train.idx: cannot read its mapped content");
}

TEST(MappedFileTest, AFileIsReadAheadToItsEnd) {
  const TempDirectory folder;
  const std::string path = folder.At("x.npy");
  WriteTextFile(path, std::string(std::size_t{64} << 20, 'a'));
  if (!DropFromMemory(path)) GTEST_SKIP() << "the file's pages stay in memory";
  const auto file = FileBytes::OpenWhole(path);
  ASSERT_TRUE(file.ok()) << file.status();
  file->Prefetch();
  const auto begin = std::chrono::steady_clock::now();
  while (ShareInMemory(path) < 1 &&
         std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(ShareInMemory(path), 1);
}

TEST(MappedFileDeathTest, AFaultElsewhereIsLeftToTheHandlerBefore) {
  const TempDirectory folder;
  const FileBytes file = Opened(folder.At("train.idx"));
  const Descriptor other(::open(folder.At("other").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  void* const mapped =
      ::mmap(nullptr, kSize, PROT_READ, MAP_PRIVATE, other.fd(), 0);  // it is empty
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EXIT(::_exit(*static_cast<const volatile char*>(mapped)),
              ::testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(
      {
        ::raise(SIGBUS);
        ::_exit(0);
      },
      ::testing::KilledBySignal(SIGBUS), "");
  ::munmap(mapped, kSize);
}

TEST(MappedFileDeathTest, AFileThatWasClosedIsNotNamedAnyMore) {
  const TempDirectory folder;
  {
    const FileBytes file = Opened(folder.At("first"));
  }
  const FileBytes file = Opened(folder.At("second"));  // may have the first one's place
  EXPECT_EXIT(
      {
        if (::truncate(folder.At("second").c_str(), 10) != 0) ::_exit(1);
        ::_exit(LastByte(file));
      },
      ::testing::ExitedWithCode(210), "second: cannot read its mapped content");
}

}  // namespace
}  // namespace lockstep::train
