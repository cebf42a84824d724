#include "trainer/comm/shm/shared_segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "tests/support/shared_memory.h"
#include "tests/support/spawn_ranks.h"
#include "trainer/comm/shm/peer_process.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kSegmentBytes = 10'000;

std::unique_ptr<SharedSegment> MakeSegment(std::size_t bytes = kSegmentBytes) {
  auto segment = SharedSegment::Create(bytes);
  EXPECT_TRUE(segment.ok()) << segment.status();
  return *std::move(segment);
}

TEST(SharedSegmentTest, StartsZeroedAndIsSeenByWhoAttaches) {
  const auto segment = MakeSegment();
  EXPECT_TRUE(std::all_of(segment->data(), segment->data() + kSegmentBytes,
                          [](std::byte b) { return b == std::byte{0}; }));
  const auto peer = SharedSegment::Attach(segment->locator(), kSegmentBytes);
  ASSERT_TRUE(peer.ok()) << peer.status();
  segment->data()[kSegmentBytes - 1] = std::byte{42};
  EXPECT_EQ((*peer)->data()[kSegmentBytes - 1], std::byte{42});
}

TEST(SharedSegmentTest, AnotherProcessWritesIntoItByItsLocator) {
  const auto segment = MakeSegment();
  const std::string where = segment->locator().ToString();
  ForkedRanks child(1, [&](int) {
    const auto locator = SharedSegment::Locator::Parse(where);
    if (!locator.ok()) return 1;
    auto peer = SharedSegment::Attach(*locator, kSegmentBytes);
    if (!peer.ok()) return 2;
    (*peer)->data()[7] = std::byte{7};
    return 0;
  });
  EXPECT_EQ(child.Wait(0), 0);
  EXPECT_EQ(segment->data()[7], std::byte{7});
}

// A hardened node refuses memory that could become a program.
TEST(SharedSegmentTest, CannotBeExecutedWhereTheKernelKnowsSuchMemory) {
  constexpr unsigned kNoExecSeal = 8;
  constexpr int kExecSeal = 0x20;
  const int probe = memfd_create("probe", kNoExecSeal);
  if (probe < 0) GTEST_SKIP() << "the kernel is older than 6.3";
  close(probe);
  const auto segment = SharedSegment::Create(100);
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_NE(fcntl((*segment)->locator().fd, F_GET_SEALS) & kExecSeal, 0);
}

TEST(SharedSegmentTest, AnotherSizeOrTokenIsRefused) {
  const auto segment = MakeSegment();
  auto locator = segment->locator();
  EXPECT_EQ(SharedSegment::Attach(locator, kSegmentBytes + 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
  locator.token[0] = locator.token[0] == 'a' ? 'b' : 'a';
  EXPECT_EQ(SharedSegment::Attach(locator, kSegmentBytes).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(SharedSegmentTest, WhatIsNoSegmentIsRefused) {
  const auto segment = MakeSegment();
  auto locator = segment->locator();
  locator.fd = 0;  // standard input
  EXPECT_FALSE(SharedSegment::Attach(locator, kSegmentBytes).ok());
  locator = segment->locator();
  locator.pid = 0x3fffffff;  // above the largest pid
  EXPECT_EQ(SharedSegment::Attach(locator, kSegmentBytes).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(SharedSegmentTest, ReplaceKeepsTheAddressButShedsOldPeersAndTheirMemory) {
  const auto segment = MakeSegment();
  const auto old_locator = segment->locator();
  auto old_peer = SharedSegment::Attach(old_locator, kSegmentBytes);
  ASSERT_TRUE(old_peer.ok()) << old_peer.status();
  std::byte* const data = segment->data();
  data[5] = std::byte{5};
  ASSERT_TRUE(segment->Replace().ok());
  EXPECT_EQ(segment->data(), data);
  EXPECT_EQ(data[5], std::byte{0});
  EXPECT_EQ((*old_peer)->data()[5], std::byte{0}) << "the old pages are still held";
  (*old_peer)->data()[5] = std::byte{99};  // a process given up for dead wakes up
  EXPECT_EQ(data[5], std::byte{0});
  EXPECT_FALSE(SharedSegment::Attach(old_locator, kSegmentBytes).ok());
  EXPECT_TRUE(SharedSegment::Attach(segment->locator(), kSegmentBytes).ok());
}

TEST(SharedSegmentTest, AKilledCreatorsMemoryLivesOnlyWithWhoHasItMapped) {
  Shared<std::atomic<int>> ready;
  Shared<std::array<char, 128>> where;
  ForkedRanks creator(1, [&](int) {
    const auto segment = MakeSegment();
    segment->data()[0] = std::byte{1};
    segment->locator().ToString().copy(where->data(), where->size() - 1);
    *ready = 1;
    for (;;) pause();
    return 0;
  });
  while (*ready == 0) std::this_thread::yield();
  const auto locator = SharedSegment::Locator::Parse(where->data());
  ASSERT_TRUE(locator.ok()) << locator.status();
  const auto peer = SharedSegment::Attach(*locator, kSegmentBytes);
  ASSERT_TRUE(peer.ok()) << peer.status();
  const auto process = PeerProcess::Open(creator.pid(0));
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_TRUE(process->Alive());
  creator.Signal(0, SIGKILL);
  EXPECT_EQ(creator.Wait(0), 128 + SIGKILL);
  EXPECT_FALSE(process->Alive());
  EXPECT_EQ((*peer)->data()[0], std::byte{1});
  EXPECT_EQ(SharedSegment::Attach(*locator, kSegmentBytes).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(SharedSegmentTest, LocatorsThatAreNoneAreNamed) {
  for (const char* text :
       {"", "none", "1:2", "1:2:short", "x:2:0123456789abcdef0123456789abcdef",
        "0:2:0123456789abcdef0123456789abcdef", "1:-2:0123456789abcdef0123456789abcdef"}) {
    const auto locator = SharedSegment::Locator::Parse(text);
    EXPECT_EQ(locator.status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  const auto segment = MakeSegment(1);
  const auto parsed = SharedSegment::Locator::Parse(segment->locator().ToString());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->pid, getpid());
  EXPECT_EQ(parsed->token, segment->locator().token);
}

TEST(PeerProcessTest, NoSuchProcessIsNotFound) {
  EXPECT_EQ(PeerProcess::Open(0x3fffffff).status().code(), absl::StatusCode::kNotFound);
}

TEST(PeerProcessTest, AZombieIsDead) {
  ForkedRanks child(1, [](int) { return 0; });
  const auto process = PeerProcess::Open(child.pid(0));
  ASSERT_TRUE(process.ok()) << process.status();
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid(0)), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(process->Alive());  // dead, though not reaped: kill(pid, 0) still succeeds
}

}  // namespace
}  // namespace lockstep::train
