// NCCL's functions on the simulated devices, for communicators that do not block. Like the real
// ones:
// - Calls return ncclInProgress, and a thread of the communicator's own finishes them. The first
//   collective connects, and so is queued on its stream only once all ranks have called it.
// - A collective whose peer is lost waits without end, until ncclCommAbort. It then leaves the
//   buffer half summed, and what is queued behind it runs. Its peers find that its data are there,
//   and end with whatever lies there.
// - Two ranks cannot share a GPU, and a rank cannot join a group twice.
// - Where NCCL_SOCKET_IFNAME names no network, it does not connect.
// It ends the process where the real one may do anything: if a communicator is aborted while a
// thread is in one of its functions, or used afterwards, or if the ranks' counts differ.
#include <net/if.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "tests/support/cuda_sim/device_memory.h"
#include "tests/support/cuda_sim/devices.h"
#include "tests/support/cuda_sim/export.h"
#include "tests/support/cuda_sim/nccl_group.h"
#include "tests/support/cuda_sim/sim_stream.h"

namespace {

using cuda_sim::AwaitPeers;
using cuda_sim::RankPart;
using cuda_sim::SharedGroup;
using cuda_sim::SimStream;

enum Result {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kInProgress = 7,
};
constexpr int kVersion = 22809, kFloat = 7, kSum = 0, kLeastRanks = 1;

struct UniqueId {
  char internal[128];
};
struct Config {
  std::size_t size;
  unsigned magic, version;
  int blocking;
};

void Require(bool is_true, const char* what) {
  if (is_true) return;
  std::fprintf(stderr, "cuda_sim: nccl: %s\n", what);
  std::abort();
}

// As NCCL's environment variable chooses the network.
bool HasNetwork() {
  const char* interface = std::getenv("NCCL_SOCKET_IFNAME");
  return interface == nullptr || ::if_nametoindex(interface) != 0;
}

class Comm : public std::enable_shared_from_this<Comm> {
 public:
  Comm(SharedGroup* group, int ranks, int rank, const std::array<char, 16>& gpu)
      : group_(group), ranks_(ranks), rank_(rank) {
    const bool is_first = !own().is_taken.exchange(true);
    if (is_first) own().gpu = gpu;
    thread_.Enqueue([this, is_first] { result_ = is_first ? Join() : kSystemError; });
  }

  int result() const { return result_; }
  void GiveUp() { gives_up_ = true; }
  // Queues collective(*this), once all ranks have called the first one.
  int Enqueue(std::function<void(Comm&)> collective, SimStream* stream) {
    if (result_ != kSuccess) return kInvalidUsage;  // the last call is not done
    result_ = kInProgress;
    thread_.Enqueue([this, stream, collective = std::move(collective)]() mutable {
      if (!std::exchange(is_connected_, true) && !Meet(2)) return;
      const std::shared_ptr<Comm> self = weak_from_this().lock();
      if (self == nullptr) return;  // aborted, and nothing that was queued is left
      const int queued = stream->EnqueueUncaptured(
          [self, collective = std::move(collective)] { collective(*self); });
      Require(queued == cuda_sim::kSuccess, "a collective cannot be captured here");
      result_ = kSuccess;
    });
    return kInProgress;
  }

  // Calls combine(slots, at, count) for each part of [0, count) once the slots of all ranks have
  // it: at least two, so that one may be done and another not.
  template <typename Combine>
  void Exchange(const float* from, std::size_t count, const Combine& combine) {
    const std::size_t part = std::min((count + 1) / 2, cuda_sim::kSlotFloats);
    bool is_given_up = false;
    for (std::size_t begin = 0; begin < count; begin += part) {
      const std::size_t size = std::min(part, count - begin);
      const std::uint64_t turn = ++turn_;
      is_given_up = is_given_up || !AwaitAll(&RankPart::taken, turn - 1);
      if (is_given_up) own().has_given_up = true;
      if (!is_given_up) std::copy_n(from + begin, size, own().slot.begin());
      own().floats = size;
      own().offered = turn;
      is_given_up = is_given_up || !AwaitAll(&RankPart::offered, turn);
      if (is_given_up) {  // as the real one, it tells its peers that its data are there
        own().has_given_up = true;
        own().taken = turn;
        continue;
      }
      for (int rank = 0; rank < ranks_; ++rank) {
        // One that has given up is further on.
        Require(part_of(rank).floats == size || part_of(rank).has_given_up,
                "the ranks' counts differ");
      }
      combine(begin, size);
      own().taken = turn;
    }
  }
  int ranks() const { return ranks_; }
  RankPart& part_of(int rank) { return group_->ranks.at(static_cast<std::size_t>(rank)); }

 private:
  RankPart& own() { return part_of(rank_); }
  int Join() {
    if (!HasNetwork() || !Meet(1)) return kSystemError;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank != rank_ && part_of(rank).gpu == own().gpu) return kInvalidUsage;
    }
    return kSuccess;
  }
  bool Meet(int stage) {
    own().stage = stage;
    return AwaitAll(&RankPart::stage, stage);
  }
  template <typename Count>
  bool AwaitAll(std::atomic<Count> RankPart::* count, Count least) {
    return AwaitPeers(
        [&] {
          for (int rank = 0; rank < ranks_; ++rank) {
            if (part_of(rank).*count < least) return false;
          }
          return true;
        },
        gives_up_);
  }

  struct Unmap {
    void operator()(SharedGroup* group) const { cuda_sim::UnmapGroup(group); }
  };
  const std::unique_ptr<SharedGroup, Unmap> group_;
  const int ranks_, rank_;
  std::atomic<int> result_ = kInProgress;
  std::atomic<bool> gives_up_ = false;
  bool is_connected_ = false;      // used by thread_ alone
  std::uint64_t turn_ = 0;         // used by the streams' work alone, which an event must order
  lockstep::SerialThread thread_;  // last: uses all of the above
};

// The communicators that are not aborted, and how many threads are in a function of each.
struct Live {
  std::mutex mutex;
  std::map<Comm*, std::pair<std::shared_ptr<Comm>, int>> comms;
};
Live& TheLive() {
  static Live live;
  return live;
}

// A thread's stay in a function of a communicator.
class Stay {
 public:
  explicit Stay(Comm* comm) {
    const std::lock_guard lock(TheLive().mutex);
    const auto found = TheLive().comms.find(comm);
    Require(found != TheLive().comms.end(), "a communicator is used after ncclCommAbort");
    ++found->second.second;
    comm_ = comm;
  }
  ~Stay() {
    const std::lock_guard lock(TheLive().mutex);
    --TheLive().comms.at(comm_).second;
  }
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;
  Comm& comm() const { return *comm_; }

 private:
  Comm* comm_ = nullptr;
};

}  // namespace

CUDA_SIM_EXPORT int ncclGetVersion(int* version) {
  *version = kVersion;
  return kSuccess;
}
CUDA_SIM_EXPORT const char* ncclGetErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "no error";
    case kUnhandledCudaError:
      return "unhandled cuda error";
    case kSystemError:
      return "unhandled system error";
    case kInvalidArgument:
      return "invalid argument";
    case kInvalidUsage:
      return "invalid usage";
    case kInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}
CUDA_SIM_EXPORT const char* ncclGetLastError(Comm*) {
  return "";
}
CUDA_SIM_EXPORT int ncclGetUniqueId(UniqueId* id) {
  const cuda_sim::GroupId group = cuda_sim::MakeGroup();
  *id = {};
  std::memcpy(id->internal, &group, sizeof(group));
  return group.fd < 0 ? kSystemError : kSuccess;
}
CUDA_SIM_EXPORT int ncclCommInitRankConfig(Comm** comm, int ranks, UniqueId id, int rank,
                                           Config* config) {
  if (cuda_sim::ContextError() != cuda_sim::kSuccess) return kUnhandledCudaError;
  if (ranks < kLeastRanks || ranks > cuda_sim::kMostRanks || rank < 0 || rank >= ranks ||
      config->magic != 0xcafebeef || config->blocking != 0) {
    return kInvalidArgument;
  }
  cuda_sim::GroupId group = {};
  std::memcpy(&group, id.internal, sizeof(group));
  SharedGroup* const shared = cuda_sim::MapGroup(group);
  if (shared == nullptr) return kSystemError;
  auto made =
      std::make_shared<Comm>(shared, ranks, rank, cuda_sim::UuidOf(cuda_sim::CurrentDevice()));
  *comm = made.get();
  const std::lock_guard lock(TheLive().mutex);
  TheLive().comms[*comm] = {std::move(made), 0};
  return kInProgress;
}
CUDA_SIM_EXPORT int ncclCommGetAsyncError(Comm* comm, int* result) {
  const Stay stay(comm);
  *result = comm->result();
  return kSuccess;
}
CUDA_SIM_EXPORT int ncclCommAbort(Comm* comm) {
  const std::lock_guard lock(TheLive().mutex);
  const auto found = TheLive().comms.find(comm);
  Require(found != TheLive().comms.end(), "a communicator is aborted twice");
  Require(found->second.second == 0, "aborted while a thread is in a function of NCCL");
  comm->GiveUp();
  TheLive().comms.erase(found);  // what is queued may still hold it
  return kSuccess;
}
CUDA_SIM_EXPORT int ncclAllReduce(const void* from, void* to, std::size_t count, int type,
                                  int operation, Comm* comm, SimStream* stream) {
  if (type != kFloat || operation != kSum) return kInvalidArgument;
  const Stay stay(comm);
  return stay.comm().Enqueue(
      [from, to, count](Comm& of) {
        const auto* own = static_cast<const float*>(cuda_sim::RealAddress(from));
        auto* sums = static_cast<float*>(const_cast<void*>(cuda_sim::RealAddress(to)));
        of.Exchange(own, count, [&](std::size_t begin, std::size_t size) {
          for (std::size_t i = 0; i < size; ++i) {
            float sum = 0;
            for (int rank = 0; rank < of.ranks(); ++rank) sum += of.part_of(rank).slot[i];
            sums[begin + i] = sum;
          }
        });
      },
      stream);
}
CUDA_SIM_EXPORT int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root,
                                  Comm* comm, SimStream* stream) {
  if (type != kFloat) return kInvalidArgument;
  const Stay stay(comm);
  if (root < 0 || root >= comm->ranks()) return kInvalidArgument;
  return stay.comm().Enqueue(
      [from, to, count, root](Comm& of) {
        const auto* own = static_cast<const float*>(cuda_sim::RealAddress(from));
        auto* target = static_cast<float*>(const_cast<void*>(cuda_sim::RealAddress(to)));
        of.Exchange(own, count, [&](std::size_t begin, std::size_t size) {
          std::copy_n(of.part_of(root).slot.begin(), size, target + begin);
        });
      },
      stream);
}
