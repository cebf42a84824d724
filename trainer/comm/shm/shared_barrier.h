// A barrier among processes over shared memory that also carries the group's health: any rank can
// break it, for a reason that all ranks then read, and a rank that dies breaks it for the others.
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

// What a rank is about to do; compared across ranks at the first barrier of every collective.
struct CollectiveId {
  CollectiveKind kind = CollectiveKind::kNone;
  std::int32_t root = 0;
  std::uint64_t offset = 0, count = 0;
  std::string ToString() const;
  bool operator==(const CollectiveId&) const = default;
};

// The shared memory itself: all zero is its valid first state. One line a rank, so that ranks do
// not write to each other's lines on their way in.
struct BarrierMemory {
  struct alignas(64) Rank {
    std::atomic<std::uint32_t> arrived;  // barriers this rank has reached
    // Of two collectives in turn: the next may be announced while a peer still reads this one.
    std::array<CollectiveId, 2> announced;
  };
  // What waiters sleep on. Bit 0: broken; above it, barriers completed (modulo 2^31).
  alignas(64) std::atomic<std::uint32_t> word;
  std::atomic<std::uint64_t> blame;  // 0, else reason << 32 | rank; the first one stays
  alignas(64) std::atomic<std::uint32_t> arrivals;  // of all ranks, ever (modulo 2^32)
  std::array<Rank, kMaxSharedRanks> ranks;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// One rank's side. Announce and Arrive are called by one thread at a time, Break by any.
class SharedBarrier {
 public:
  enum class Reason : std::uint32_t { kNone, kAborted, kLeft, kDied, kTimedOut, kMismatch };
  struct Options {
    int rank = 0, size = 1;
    Duration timeout{};                   // of a wait
    std::function<bool(int rank)> alive;  // asked about ranks that keep the others waiting
  };
  SharedBarrier(BarrierMemory& memory, Options options);

  // The barrier that opens a collective: FailedPrecondition if a rank announces another one.
  absl::Status Announce(const CollectiveId& id);
  // Returns when all ranks have arrived; what they wrote before is then visible here.
  absl::Status Arrive();
  // Ok, or why the group is broken.
  absl::Status Health() const;
  // Fails this and all later barriers of all ranks; the first call of all counts.
  void Break(Reason reason, int culprit);
  // Break for this rank's own sake: from now on its own errors are Cancelled.
  void Abort();

 private:
  bool Reached(std::uint32_t word) const;
  absl::Status Wait();
  void LookForTheDead();
  int FirstMissing() const;

  BarrierMemory& memory_;
  const Options options_;
  const int spins_;
  std::uint32_t barriers_;  // this rank has arrived at
  std::uint32_t collectives_ = 0;
  std::atomic<bool> aborted_{false};
};

}  // namespace lockstep::train
