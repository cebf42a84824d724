// A group of simulated GPUs, whose ranks may be threads or processes: memory that all of them map.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace cuda_sim {

inline constexpr int kMostRanks = 8;
inline constexpr std::size_t kSlotFloats = 1 << 16;

// What a rank shows the others. A rank that is lost just does not go on.
struct RankPart {
  std::atomic<bool> is_taken;          // a communicator has been made for it
  std::atomic<int> stage;              // 1: it has joined; 2: it has called a collective
  std::atomic<std::uint64_t> offered;  // how many parts it has put into the slot
  std::atomic<std::uint64_t> taken;    // how many parts of all ranks it has taken
  std::array<char, 16> gpu;
  std::atomic<std::uint64_t> floats;  // of the part in the slot
  std::atomic<bool> has_given_up;     // what it offers and takes from then on is nothing
  std::array<float, kSlotFloats> slot;
};
struct SharedGroup {
  std::array<RankPart, kMostRanks> ranks;
};

// Names a group's memory, as long as the process that has made it lives.
struct GroupId {
  std::uint64_t nonce;
  int pid, fd;
};
GroupId MakeGroup();
// Null if there is none of that name.
SharedGroup* MapGroup(const GroupId& id);
void UnmapGroup(SharedGroup* group);

// Waits until is_true(), or `gives_up`; returns is_true().
bool AwaitPeers(const std::function<bool()>& is_true, const std::atomic<bool>& gives_up);

}  // namespace cuda_sim
