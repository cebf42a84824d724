// Synchronous data parallelism. Bucket size: a collective over Gloo costs about 1 ms however small
// it is, and one over shared memory some tens of microseconds, so buckets are a few megabytes; the
// first to be ready (the last layers, and the step's totals) goes out while backward still runs.
#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "api/base/status.h"
#include "trainer/comm/gradient_reducer.h"
#include "trainer/comm/make_communicator.h"
#include "trainer/strategy/strategy.h"

namespace lockstep::train {
namespace {

class CollectiveStrategy final : public Strategy {
 public:
  CollectiveStrategy(GradientBuffer& buffer, CollectiveOptions options)
      : buffer_(buffer),
        options_(std::move(options)),
        buckets_(GradientReducer::PlanBuckets(options_.layer_starts,
                                              static_cast<std::int64_t>(buffer.size()),
                                              options_.bucket_floats)) {}

  absl::Status Connect(const Membership& membership, KeyValueStore& store) override {
    Disconnect();
    CommunicatorOptions options;
    options.rank = membership.rank;
    options.size = membership.world();
    options.bind_address = options_.bind_address;
    LOCKSTEP_ASSIGN_OR_RETURN(auto communicator, MakeCommunicator(options, store, buffer_));
    auto reducer =
        GradientReducer::Create(*communicator, {buffer_.data(), buffer_.size()}, buckets_);
    const std::lock_guard lock(mutex_);
    generation_ = membership.generation;
    communicator_ = std::move(communicator);
    reducer_ = std::move(reducer);
    if (ended_generation_ < generation_) return absl::OkStatus();
    communicator_->Abort();
    return absl::CancelledError("the generation ended while its group was being formed");
  }

  absl::Status Broadcast(std::span<std::byte> data, int root) override {
    return communicator_->Broadcast(data, root);
  }
  absl::Status Sum(std::span<float> data) override { return communicator_->AllReduceSum(data); }
  void GradientsReady(std::int64_t begin) override { reducer_->Ready(begin); }
  absl::Status FinishGradients() override { return reducer_->Wait(); }
  double ExposedSeconds() const override {
    return past_exposed_seconds_ + (reducer_ ? reducer_->ExposedSeconds() : 0.0);
  }
  std::string CommunicatorName() const override {
    return communicator_ ? communicator_->Name() : "none";
  }

  void Abort(std::uint64_t generation) override {
    const std::lock_guard lock(mutex_);
    ended_generation_ = std::max(ended_generation_, generation);
    if (communicator_ && ended_generation_ >= generation_) communicator_->Abort();
  }

 private:
  // Abort() may come from the rendezvous' thread at any time, hence the lock around the swap.
  void Disconnect() {
    past_exposed_seconds_ = ExposedSeconds();
    std::unique_ptr<GradientReducer> reducer;
    std::unique_ptr<Communicator> communicator;
    {
      const std::lock_guard lock(mutex_);
      if (communicator_) communicator_->Abort();
      reducer = std::move(reducer_);
      communicator = std::move(communicator_);
    }
    reducer.reset();
  }

  GradientBuffer& buffer_;
  const CollectiveOptions options_;
  const std::vector<GradientReducer::Bucket> buckets_;
  double past_exposed_seconds_ = 0;
  std::mutex mutex_;
  std::uint64_t generation_ = 0, ended_generation_ = 0;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<GradientReducer> reducer_;  // uses communicator_, so it is destroyed first
};

}  // namespace

std::unique_ptr<Strategy> MakeCollectiveStrategy(GradientBuffer& buffer,
                                                 CollectiveOptions options) {
  return std::make_unique<CollectiveStrategy>(buffer, std::move(options));
}

}  // namespace lockstep::train
