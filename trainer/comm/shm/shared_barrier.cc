#include "trainer/comm/shm/shared_barrier.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <ctime>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace lockstep::train {
namespace {

constexpr std::uint32_t kBroken = 1;
constexpr std::uint32_t kOneBarrier = 2;
// The interval at which a waiting rank checks that its peers are alive.
constexpr Duration kLivenessPeriod = std::chrono::milliseconds(100);
// Spinning this often takes about as long as going to sleep and waking up.
constexpr int kSpins = 200;

// No FUTEX_PRIVATE_FLAG: the waiters are other processes.
void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Duration timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec relative{seconds.count(), (timeout - seconds).count()};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &relative, nullptr, 0);
}

void FutexWakeAll(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // About as long as the other processor's pause; "yield" does nothing on most.
  asm volatile("isb");
#endif
}

// Spinning helps only if the awaited peer can run at the same time. In a process bound to one core,
// it would only delay the process's own training thread.
int SpinsFor(int ranks) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 0;
  return CPU_COUNT(&cores) > 1 && CPU_COUNT(&cores) >= ranks ? kSpins : 0;
}

}  // namespace

std::string CollectiveId::ToString() const {
  switch (kind) {
    case CollectiveKind::kNone:
      return "nothing";
    case CollectiveKind::kAllReduce:
      return fmt::format("AllReduceSum of {} at {}", count, offset);
    case CollectiveKind::kBroadcast:
      return fmt::format("Broadcast of {} from {}", count, root);
    case CollectiveKind::kBarrier:
      return "Barrier";
  }
  return "an unknown collective";
}

SharedBarrier::SharedBarrier(BarrierMemory& memory, Options options)
    : memory_(memory),
      options_(std::move(options)),
      spins_(SpinsFor(options_.size)),
      barriers_(memory.word.load(std::memory_order_acquire) / kOneBarrier) {
  LOCKSTEP_CHECK(options_.size <= kMaxSharedRanks, "shared barrier: {} ranks, at most {}",
                 options_.size, kMaxSharedRanks);
}

absl::Status SharedBarrier::Announce(const CollectiveId& id) {
  // Must be first: in a broken group no call waits, so this rank could run ahead by several
  // collectives and overwrite a slot that a peer still reads, if that peer woke up late from the
  // last barrier that was completed.
  LOCKSTEP_RETURN_IF_ERROR(Health());
  const std::size_t slot = collectives_++ % 2;
  memory_.ranks[static_cast<std::size_t>(options_.rank)].announced[slot] = id;
  LOCKSTEP_RETURN_IF_ERROR(Arrive());
  for (int rank = 0; rank < options_.size; ++rank) {
    const CollectiveId& other = memory_.ranks[static_cast<std::size_t>(rank)].announced[slot];
    if (other == id) continue;
    Break(Reason::kMismatch, rank);
    return absl::FailedPreconditionError(
        fmt::format("collective: rank {} calls {}, rank {} calls {}", options_.rank, id.ToString(),
                    rank, other.ToString()));
  }
  return absl::OkStatus();
}

absl::Status SharedBarrier::Arrive() {
  LOCKSTEP_RETURN_IF_ERROR(Health());
  ++barriers_;
  auto& own = memory_.ranks[static_cast<std::size_t>(options_.rank)];
  own.arrived.store(barriers_, std::memory_order_release);
  // acq_rel: the last rank to arrive sees all earlier writes and publishes them through `word`.
  const std::uint32_t total = memory_.arrivals.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (total == barriers_ * static_cast<std::uint32_t>(options_.size)) {
    memory_.word.fetch_add(kOneBarrier, std::memory_order_acq_rel);
    FutexWakeAll(memory_.word);
    return absl::OkStatus();
  }
  return Wait();
}

absl::Status SharedBarrier::Wait() {
  for (int i = 0; i < spins_; ++i) {
    if (Reached(memory_.word.load(std::memory_order_acquire))) return absl::OkStatus();
    Relax();
  }
  const SteadyTime start = std::chrono::steady_clock::now();
  SteadyTime next_check = start + kLivenessPeriod;
  for (;;) {
    const std::uint32_t word = memory_.word.load(std::memory_order_acquire);
    if (Reached(word)) return absl::OkStatus();  // even if broken since: its data is complete
    if ((word & kBroken) != 0) return Health();
    const SteadyTime now = std::chrono::steady_clock::now();
    if (now >= next_check) {
      BreakIfAPeerDied();
      next_check = now + kLivenessPeriod;
    }
    if (now - start >= options_.timeout) {
      // If the barrier completes just now, the next iteration still returns OK.
      Break(Reason::kTimedOut, FirstMissing());
      continue;
    }
    // Completion and Break both change the word, so FutexWait cannot miss either.
    FutexWait(memory_.word, word, std::min<Duration>(next_check - now, kLivenessPeriod));
  }
}

bool SharedBarrier::Reached(std::uint32_t word) const {
  return static_cast<std::int32_t>((word & ~kBroken) - barriers_ * kOneBarrier) >= 0;
}

void SharedBarrier::BreakIfAPeerDied() {
  // Also checks ranks whose `arrived` is set: a rank may die after setting it and before it is
  // added to `arrivals`. No rank exits normally while a barrier is incomplete, so none is blamed
  // wrongly.
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank != options_.rank && !options_.alive(rank)) Break(Reason::kDied, rank);
  }
}

int SharedBarrier::FirstMissing() const {
  for (int rank = 0; rank < options_.size; ++rank) {
    const auto& peer = memory_.ranks[static_cast<std::size_t>(rank)];
    if (peer.arrived.load(std::memory_order_acquire) != barriers_) return rank;
  }
  return options_.rank;  // all have arrived by now
}

void SharedBarrier::Break(Reason reason, int culprit) {
  std::uint64_t none = 0;
  memory_.blame.compare_exchange_strong(
      none, static_cast<std::uint64_t>(reason) << 32 | static_cast<std::uint32_t>(culprit));
  memory_.word.fetch_or(kBroken, std::memory_order_acq_rel);
  FutexWakeAll(memory_.word);
}

void SharedBarrier::Abort() {
  aborted_.store(true);
  Break(Reason::kAborted, options_.rank);
}

absl::Status SharedBarrier::Health() const {
  if (aborted_.load()) return absl::CancelledError("collective: aborted by this process");
  if ((memory_.word.load(std::memory_order_acquire) & kBroken) == 0) return absl::OkStatus();
  const std::uint64_t blame = memory_.blame.load();
  const auto rank = static_cast<std::uint32_t>(blame);
  switch (static_cast<Reason>(blame >> 32)) {
    case Reason::kNone:
      break;
    case Reason::kAborted:
      return absl::UnavailableError(fmt::format("collective: rank {} aborted it", rank));
    case Reason::kLeft:
      return absl::UnavailableError(fmt::format("collective: rank {} has left the group", rank));
    case Reason::kDied:
      return absl::UnavailableError(
          fmt::format("collective: the process of rank {} has died", rank));
    case Reason::kTimedOut:
      return absl::UnavailableError(fmt::format(
          "collective: rank {} did not arrive within {} ms", rank,
          std::chrono::duration_cast<std::chrono::milliseconds>(options_.timeout).count()));
    case Reason::kMismatch:
      return absl::FailedPreconditionError(
          fmt::format("collective: rank {} called a different collective from the others", rank));
  }
  return absl::UnavailableError("collective: the group is broken");
}

}  // namespace lockstep::train
