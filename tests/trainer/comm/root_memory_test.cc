#include "trainer/comm/root_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <span>

#include "tests/support/in_memory_store.h"
#include "tests/support/spawn_ranks.h"
#include "trainer/comm/make_communicator.h"
#include "trainer/core/arena.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kBytes = 3 * 4096 + 64;

// A rank's block, as a model has it.
struct Block {
  explicit Block(bool is_root, std::size_t bytes = kBytes) : memory(is_root) {
    arena.Reserve(bytes);
    arena.Allocate(memory);
  }
  std::span<std::byte> bytes() const { return {arena.At(0), arena.bytes()}; }

  RootMemory memory;
  Arena arena;
};

bool IsAll(std::span<const std::byte> bytes, int value) {
  return std::ranges::all_of(bytes, [&](std::byte b) { return b == std::byte(value); });
}

// The kernel refuses to write there on the process' behalf, instead of ending it.
bool IsWritable(std::byte* at) {
  const int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  const bool wrote = read(zeros, at, 1) == 1;
  EXPECT_TRUE(wrote || errno == EFAULT);
  close(zeros);
  return wrote;
}

TEST(RootMemoryTest, OthersReadWhatTheRootWritesAtTheirOwnAddress) {
  const Block root(true);
  Block other(false);
  EXPECT_TRUE(IsAll(other.bytes(), 0));
  std::ranges::fill(other.bytes(), std::byte{9});
  std::ranges::fill(root.bytes(), std::byte{1});
  std::byte* const before = other.bytes().data();
  ASSERT_TRUE(other.memory.Map(root.memory.locator()).ok());
  EXPECT_EQ(other.bytes().data(), before);
  EXPECT_TRUE(IsAll(other.bytes(), 1));
  std::ranges::fill(root.bytes(), std::byte{2});
  EXPECT_TRUE(IsAll(other.bytes(), 2));
  EXPECT_FALSE(IsWritable(other.bytes().data()));
}

TEST(RootMemoryTest, OnceWithdrawnEachHasItsOwn) {
  const Block root(true);
  Block other(false);
  std::ranges::fill(root.bytes(), std::byte{1});
  ASSERT_TRUE(other.memory.Map(root.memory.locator()).ok());
  other.memory.Confirm();
  EXPECT_TRUE(other.memory.is_shared());
  other.memory.Withdraw();
  EXPECT_FALSE(other.memory.is_shared());
  EXPECT_TRUE(IsAll(other.bytes(), 0));
  std::ranges::fill(other.bytes(), std::byte{3});
  EXPECT_TRUE(IsAll(root.bytes(), 1));
}

TEST(RootMemoryTest, TheMemoryOfARootThatIsGoneStaysUntilItIsReplaced) {
  auto first = std::make_unique<Block>(true);
  Block other(false);
  std::ranges::fill(first->bytes(), std::byte{1});
  ASSERT_TRUE(other.memory.Map(first->memory.locator()).ok());
  first.reset();
  EXPECT_TRUE(IsAll(other.bytes(), 1));
  const Block second(true);
  std::ranges::fill(second.bytes(), std::byte{2});
  ASSERT_TRUE(other.memory.Map(second.memory.locator()).ok());
  EXPECT_TRUE(IsAll(other.bytes(), 2));
}

TEST(RootMemoryTest, WhatCannotBeMappedChangesNothing) {
  const Block larger(true, 2 * kBytes);
  Block other(false);
  std::ranges::fill(other.bytes(), std::byte{9});
  EXPECT_TRUE(absl::IsFailedPrecondition(other.memory.Map(larger.memory.locator())));
  EXPECT_TRUE(absl::IsInvalidArgument(other.memory.Map("none")));
  EXPECT_TRUE(IsAll(other.bytes(), 9));
  EXPECT_TRUE(IsWritable(other.bytes().data()));
}

// A new group forms, with shared memory or without.
TEST(RootMemoryTest, ItIsSharedAsLongAsTheGroupHasSharedMemory) {
  std::array<InMemoryStore, 3> stores;
  SpawnThreads(3, [&](int rank) {
    Block block(rank == 0);
    const auto buffer = *GradientBuffer::Create(16);
    for (const std::size_t generation : {0u, 1u, 2u}) {
      const bool allow_shm = generation != 1;
      CommunicatorOptions options{.rank = rank, .size = 3, .bind_address = "127.0.0.1"};
      options.allow_shm = allow_shm;
      options.root_memory = &block.memory;
      const auto communicator = MakeCommunicator(options, stores.at(generation), *buffer);
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      ASSERT_EQ(block.memory.is_shared(), allow_shm);
      const int value = static_cast<int>(generation) + 1;
      if (rank == 0) std::ranges::fill(block.bytes(), std::byte(value));
      ASSERT_TRUE((*communicator)->Barrier().ok());
      EXPECT_TRUE(IsAll(block.bytes(), rank == 0 || allow_shm ? value : 0));
      ASSERT_TRUE((*communicator)->Barrier().ok());
    }
  });
}

}  // namespace
}  // namespace lockstep::train
