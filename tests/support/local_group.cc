#include "tests/support/local_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "trainer/comm/sum_ranks.h"

namespace lockstep::train {
namespace {

// The state that the threads share.
class LocalGroup {
 public:
  // A rank's part in a collective.
  struct Call {
    const char* name = "";
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    int root = 0;
  };

  LocalGroup(int size, Duration timeout)
      : size_(size), timeout_(timeout), calls_(static_cast<std::size_t>(size)) {}

  int size() const { return size_; }
  // Between Enter and Leave of all ranks, calls() is fixed and all ranks' data may be accessed.
  const std::vector<Call>& calls() const { return calls_; }

  absl::Status Enter(int rank, const Call& call) {
    {
      const std::lock_guard lock(mutex_);
      if (!broken_.ok()) return broken_;  // peers may still read this rank's last call
      calls_[static_cast<std::size_t>(rank)] = call;
    }
    LOCKSTEP_RETURN_IF_ERROR(Arrive());
    for (int peer = 0; peer < size_; ++peer) {
      const Call& other = calls_[static_cast<std::size_t>(peer)];
      if (std::strcmp(other.name, call.name) == 0 && other.bytes == call.bytes &&
          other.root == call.root)
        continue;
      const auto message =
          fmt::format("collective: rank {} calls {} of {} bytes, rank {} calls {} of {} bytes",
                      rank, call.name, call.bytes, peer, other.name, other.bytes);
      Break(absl::FailedPreconditionError(message));
      return absl::FailedPreconditionError(message);
    }
    return absl::OkStatus();
  }

  absl::Status Leave() { return Arrive(); }

  absl::Status Health() {
    const std::lock_guard lock(mutex_);
    return broken_;
  }

  // Keeps the first reason.
  void Break(absl::Status why) {
    const std::lock_guard lock(mutex_);
    if (broken_.ok()) broken_ = std::move(why);
    changed_.notify_all();
  }

 private:
  absl::Status Arrive() {
    std::unique_lock lock(mutex_);
    if (!broken_.ok()) return broken_;
    const std::uint64_t target = completed_ + 1;
    if (++arrived_ == size_) {
      arrived_ = 0;
      completed_ = target;
      changed_.notify_all();
      return absl::OkStatus();
    }
    const auto done = [&] { return completed_ >= target || !broken_.ok(); };
    if (!changed_.wait_for(lock, timeout_, done))
      broken_ = absl::UnavailableError("collective: a peer did not arrive in time");
    changed_.notify_all();
    return completed_ >= target ? absl::OkStatus() : broken_;
  }

  const int size_;
  const Duration timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Call> calls_;
  absl::Status broken_;
  int arrived_ = 0;
  std::uint64_t completed_ = 0;
};

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<LocalGroup> group, int rank)
      : group_(std::move(group)), rank_(rank), addends_(static_cast<std::size_t>(group_->size())) {}
  ~LocalCommunicator() override {
    group_->Break(
        absl::UnavailableError(fmt::format("collective: rank {} has left the group", rank_)));
  }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  std::string Name() const override { return "local"; }

  absl::Status AllReduceSum(std::span<float> data) override {
    if (data.empty()) return Explain(group_->Health());
    const auto bytes = std::as_writable_bytes(data);
    LOCKSTEP_RETURN_IF_ERROR(
        Explain(group_->Enter(rank_, {"AllReduceSum", bytes.data(), bytes.size(), 0})));
    std::transform(group_->calls().begin(), group_->calls().end(), addends_.begin(),
                   [](const auto& call) { return reinterpret_cast<float*>(call.data); });
    const auto [begin, end] = ShareOf(rank_, size(), data.size());
    SumRanks(addends_, begin, end);
    return Explain(group_->Leave());
  }

  absl::Status Broadcast(std::span<std::byte> data, int root) override {
    LOCKSTEP_CHECK(root >= 0 && root < size(), "broadcast: root is {}, expected a rank below {}",
                   root, size());
    if (data.empty()) return Explain(group_->Health());
    LOCKSTEP_RETURN_IF_ERROR(
        Explain(group_->Enter(rank_, {"Broadcast", data.data(), data.size(), root})));
    if (rank_ != root)
      std::memcpy(data.data(), group_->calls()[static_cast<std::size_t>(root)].data, data.size());
    return Explain(group_->Leave());
  }

  absl::Status Barrier() override {
    LOCKSTEP_RETURN_IF_ERROR(Explain(group_->Enter(rank_, {"Barrier", nullptr, 0, 0})));
    return Explain(group_->Leave());
  }

  void Abort() override {
    aborted_.store(true);
    group_->Break(absl::UnavailableError(fmt::format("collective: rank {} aborted it", rank_)));
  }

 private:
  absl::Status Explain(absl::Status status) const {
    if (aborted_.load()) return absl::CancelledError("collective: aborted by this process");
    return status;
  }

  const std::shared_ptr<LocalGroup> group_;
  const int rank_;
  std::vector<float*> addends_;  // scratch: pointers to the ranks' addends
  std::atomic<bool> aborted_{false};
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> MakeLocalGroup(int size, Duration timeout) {
  LOCKSTEP_CHECK(size >= 1, "local group: size is {}, must be positive", size);
  const auto group = std::make_shared<LocalGroup>(size, timeout);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<LocalCommunicator>(group, rank));
  return ranks;
}

}  // namespace lockstep::train
