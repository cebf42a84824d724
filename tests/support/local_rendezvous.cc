#include "tests/support/local_rendezvous.h"

#include <algorithm>

#include "tests/support/get_each.h"
#include "tests/support/time_limit.h"

namespace lockstep::train {

class LocalRendezvousClient final : public Rendezvous, public KeyValueStore {
 public:
  LocalRendezvousClient(LocalRendezvousHub& hub, int rank) : hub_(hub), rank_(rank) {}
  // Waits for calls of its callback, whose owner may be gone afterwards.
  ~LocalRendezvousClient() override {
    std::unique_lock lock(hub_.mutex_);
    hub_.members_[Index()].on_end = nullptr;
    hub_.changed_.wait(lock, [this] { return hub_.calling_ == 0; });
  }

  absl::StatusOr<Membership> Join(std::int64_t step, const std::string&) override {
    auto membership = hub_.Join(rank_, step);
    if (membership.ok()) generation_ = membership->generation;
    return membership;
  }
  void WithholdAddress() override {}  // it has none
  bool LostMember() const override { return false; }
  void OnGenerationEnd(EndCallback callback) override {
    const std::lock_guard lock(hub_.mutex_);
    hub_.members_[Index()].on_end = std::move(callback);
  }
  KeyValueStore& store() override { return *this; }
  void Report(const api::Progress&) override {}
  void SetActivity(api::Activity) override {}
  void SetStepPart(api::StepPart) override {}
  bool StopRequested() const override {
    const std::lock_guard lock(hub_.mutex_);
    return hub_.stop_;
  }
  absl::Status Finish() override { return hub_.Finish(rank_); }

  absl::Status Set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(hub_.mutex_);
    hub_.store_[{generation_, key}] = value;
    hub_.changed_.notify_all();
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                                  const GetOptions& options) override {
    return GetEach(keys, options, [this](const std::string& key, Duration timeout) {
      return GetOne(key, timeout);
    });
  }
  absl::StatusOr<std::string> GetOne(const std::string& key, Duration timeout) {
    std::unique_lock lock(hub_.mutex_);
    const auto found = [&] { return hub_.store_.contains({generation_, key}); };
    const bool ready = hub_.changed_.wait_for(
        lock, timeout, [&] { return found() || !hub_.live_ || hub_.generation_ != generation_; });
    if (found()) return hub_.store_[{generation_, key}];
    if (!ready) return absl::DeadlineExceededError("nobody has set '" + key + "'");
    return absl::CancelledError("the generation has ended");
  }

 private:
  std::size_t Index() const { return static_cast<std::size_t>(rank_); }

  LocalRendezvousHub& hub_;
  const int rank_;
  std::uint64_t generation_ = 0;
};

std::unique_ptr<Rendezvous> LocalRendezvousHub::Client(int rank) {
  return std::make_unique<LocalRendezvousClient>(*this, rank);
}

absl::StatusOr<Membership> LocalRendezvousHub::Join(int rank, std::int64_t step) {
  std::unique_lock lock(mutex_);
  if (live_) EndLocked("a rank has joined again", lock);
  Place& place = members_[static_cast<std::size_t>(rank)];
  place.member = {.role = "worker", .index = rank, .step = step};
  place.waiting = true;
  place.finished = false;
  const std::uint64_t next = generation_ + 1;
  if (std::all_of(members_.begin(), members_.end(), [](const Place& p) { return p.waiting; })) {
    generation_ = next;
    live_ = true;
    for (Place& member : members_) member.waiting = false;
    changed_.notify_all();
  }
  const bool joined = changed_.wait_for(lock, testing::Slowed(std::chrono::seconds(30)),
                                        [&] { return generation_ >= next; });
  if (!joined) return absl::DeadlineExceededError("not all ranks have joined");
  Membership membership{.generation = generation_, .rank = rank};
  for (const Place& member : members_) membership.members.push_back(member.member);
  return membership;
}

absl::Status LocalRendezvousHub::Finish(int rank) {
  std::unique_lock lock(mutex_);
  const std::uint64_t mine = generation_;
  members_[static_cast<std::size_t>(rank)].finished = true;
  changed_.notify_all();
  const auto all = [&] {
    return std::all_of(members_.begin(), members_.end(), [](const Place& p) { return p.finished; });
  };
  changed_.wait(lock, [&] { return all() || !live_ || generation_ != mine; });
  return all() ? absl::OkStatus() : absl::AbortedError("the generation has ended");
}

void LocalRendezvousHub::EndGeneration(const std::string& reason) {
  std::unique_lock lock(mutex_);
  if (live_) EndLocked(reason, lock);
}

void LocalRendezvousHub::EndLocked(const std::string& reason, std::unique_lock<std::mutex>& lock) {
  live_ = false;
  std::vector<Rendezvous::EndCallback> callbacks;
  for (const Place& place : members_) {
    if (place.on_end) callbacks.push_back(place.on_end);
  }
  const std::uint64_t ended = generation_;
  ++calling_;
  changed_.notify_all();
  lock.unlock();
  for (const auto& callback : callbacks) callback(ended, reason);
  lock.lock();
  --calling_;
  changed_.notify_all();
}

}  // namespace lockstep::train
