#include "trainer/comm/gradient_buffer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <limits>
#include <span>

#include "trainer/comm/shm/shared_segment.h"
#include "trainer/core/available_memory.h"

namespace lockstep::train {
namespace {

// Limits the size of files that this process can write, until its destruction.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limited{bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

TEST(GradientBufferTest, IsZeroedAndAligned) {
  const auto buffer = GradientBuffer::Create(1001);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ((*buffer)->size(), 1001u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*buffer)->data()) % 64, 0u);
  const std::span<const float> data((*buffer)->data(), (*buffer)->size());
  EXPECT_TRUE(std::all_of(data.begin(), data.end(), [](float x) { return x == 0; }));
}

TEST(GradientBufferTest, RenewMovesToNewMemoryIfPeersMayHaveSeenIt) {
  const auto buffer = GradientBuffer::Create(100);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  const float* const data = (*buffer)->data();
  const std::string name = (*buffer)->name();
  ASSERT_FALSE(name.empty());
  for (int generation = 0; generation < 3; ++generation) {
    ASSERT_TRUE((*buffer)->Renew().ok());
    EXPECT_EQ((*buffer)->name(), name) << "groups of one, or over sockets";
  }
  (*buffer)->WillBeShared();
  ASSERT_TRUE((*buffer)->Renew().ok());
  EXPECT_NE((*buffer)->name(), name);
  const std::string renewed = (*buffer)->name();
  ASSERT_TRUE((*buffer)->Renew().ok());
  EXPECT_EQ((*buffer)->name(), renewed);
  EXPECT_EQ((*buffer)->data(), data);
  (*buffer)->data()[99] = 7;
  EXPECT_EQ(data[99], 7);
}

// The room that a buffer's file takes, its first page included.
std::int64_t RoomOf(GradientBuffer& buffer) {
  struct stat info{};
  EXPECT_EQ(fstat(buffer.segment()->locator().fd, &info), 0);
  return static_cast<std::int64_t>(info.st_blocks) * 512;
}

TEST(GradientBufferTest, WhatIsNotReservedTakesNoRoomInAnyGeneration) {
  constexpr std::size_t kMany = 1 << 20;
  const auto buffer = *GradientBuffer::Create(kMany, /*reserves=*/false);
  for (int generation = 0; generation < 3; ++generation) {
    buffer->WillBeShared();
    ASSERT_TRUE(buffer->Renew().ok());
    EXPECT_LT(RoomOf(*buffer), 64 << 10);
  }
  ASSERT_TRUE(buffer->Reserve().ok());
  for (int generation = 0; generation < 3; ++generation) {
    EXPECT_GE(RoomOf(*buffer), static_cast<std::int64_t>(kMany * sizeof(float)));
    buffer->WillBeShared();
    ASSERT_TRUE(buffer->Renew().ok());
  }
}

TEST(GradientBufferTest, CreateIsUnavailableIfMemoryIsShort) {
  // If the check under test were missing, posix_fallocate would take pages until the kernel killed
  // other processes of this machine. With the file size limit it fails at once.
  ASSERT_LT(AvailableMemory(), std::numeric_limits<std::uint64_t>::max())
      << "without the check, this test would exhaust the memory";
  const FileSizeLimit limit(64 << 20);
  for (const std::size_t floats :
       {std::numeric_limits<std::size_t>::max(), std::size_t{1} << 62, std::size_t{1} << 50}) {
    const auto buffer = GradientBuffer::Create(floats);
    EXPECT_EQ(buffer.status().code(), absl::StatusCode::kUnavailable) << buffer.status();
  }
  const auto later = GradientBuffer::Create(AvailableMemory() / 2, /*reserves=*/false);
  if (later.ok()) {
    EXPECT_EQ((*later)->Reserve().code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(SharedSegment::Create(std::size_t{1} << 50).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace lockstep::train
