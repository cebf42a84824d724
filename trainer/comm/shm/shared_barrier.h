// A barrier between processes in shared memory that also carries the group's health. Any rank can
// break it, with a reason that all ranks read; the others break it if a rank dies.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"

namespace lockstep::train {

inline constexpr int kMaxSharedRanks = 128;

enum class CollectiveKind : std::uint32_t { kNone, kAllReduce, kBroadcast, kBarrier };

// Describes a collective; compared across ranks at its first barrier.
struct CollectiveId {
  CollectiveKind kind = CollectiveKind::kNone;
  std::int32_t root = 0;
  std::uint64_t offset = 0, count = 0;
  std::string ToString() const;
  bool operator==(const CollectiveId&) const = default;
};

// The shared memory. All zeros is the valid initial state. Each rank has its own cache lines, so
// that arriving ranks do not write to each other's.
struct BarrierMemory {
  struct alignas(64) Rank {
    std::atomic<std::uint32_t> arrived;  // barriers this rank has reached
    // Two slots, used in turn: the next collective may be announced while a peer reads this one.
    std::array<CollectiveId, 2> announced;
  };
  // The futex of waiters. Bit 0: broken. Other bits: barriers completed (modulo 2^31).
  alignas(64) std::atomic<std::uint32_t> word;
  std::atomic<std::uint64_t> blame;  // 0, or reason << 32 | rank; the first one stays
  alignas(64) std::atomic<std::uint32_t> arrivals;  // of all ranks, ever (modulo 2^32)
  std::array<Rank, kMaxSharedRanks> ranks;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// One rank's side of the barrier. One thread at a time may call Announce and Arrive; Health, Break
// and Abort are thread-safe.
class SharedBarrier {
 public:
  enum class Reason : std::uint32_t { kNone, kAborted, kLeft, kDied, kTimedOut, kMismatch };
  struct Options {
    int rank = 0, size = 1;
    Duration timeout{};                   // for each wait
    std::function<bool(int rank)> alive;  // called while waiting; thread of the waiter
  };
  SharedBarrier(BarrierMemory& memory, Options options);

  // The barrier that starts a collective. FailedPrecondition: a rank announced a different one.
  // Other errors: those of Arrive.
  absl::Status Announce(const CollectiveId& id);
  // Blocks until all ranks have arrived. What they wrote before is then visible to this rank.
  // Errors: those of Health.
  absl::Status Arrive();
  // Returns OK, or why the group is broken. Cancelled: Abort was called here. Unavailable: a peer
  // aborted, left or died, or came too late. FailedPrecondition: ranks announced different
  // collectives.
  absl::Status Health() const;
  // Fails this and all later barriers of all ranks. The first call in the group sets the reason.
  void Break(Reason reason, int culprit);
  // Breaks the barrier with kAborted. From now on this rank's own calls return Cancelled.
  void Abort();

 private:
  bool Reached(std::uint32_t word) const;
  absl::Status Wait();
  void BreakIfAPeerDied();
  int FirstMissing() const;

  BarrierMemory& memory_;
  const Options options_;
  const int spins_;
  std::uint32_t barriers_;  // barriers that this rank has reached
  std::uint32_t collectives_ = 0;
  std::atomic<bool> aborted_{false};
};

}  // namespace lockstep::train
