// Synchronous data parallelism. Buckets are a few megabytes, because even a tiny collective costs
// about 1 ms over Gloo and some tens of microseconds over shared memory. The first bucket (the last
// layers and the step's totals) is sent while the backward pass is still running.
#include <algorithm>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/status.h"
#include "trainer/comm/gradient_reducer.h"
#include "trainer/comm/make_communicator.h"
#include "trainer/comm/make_stream_communicator.h"
#include "trainer/strategy/generation_stop.h"
#include "trainer/strategy/group_options.h"
#include "trainer/strategy/member_callers.h"
#include "trainer/strategy/patience.h"
#include "trainer/strategy/strategy.h"

namespace lockstep::train {
namespace {

class CollectiveStrategy final : public Strategy {
 public:
  CollectiveStrategy(GradientBuffer& buffer, CollectiveOptions options,
                     std::optional<DeviceSums> sums)
      : buffer_(buffer),
        sums_(sums),
        options_(std::move(options)),
        patience_(options_.least_timeout),
        callers_(options_.address_patience),
        buckets_(BucketsOf(buffer, options_, /*ring=*/1)) {}

  // Sums that are queued on a device may wait for peers that never come.
  ~CollectiveStrategy() override { LeaveGroup(); }

  absl::Status Connect(const Membership& membership, KeyValueStore& store) override {
    LeaveAll();
    buckets_ = BucketsOf(buffer_, options_, /*ring=*/1);
    CommunicatorOptions options = GroupOptions(membership, options_, callers_, patience_.timeout(),
                                               stop_.Begin(membership.generation));
    options.root_memory = options_.root_memory;
    {
      const std::jthread stop =
          When(options_.stop_requested, [this, &membership] { Abort(membership.generation); });
      LOCKSTEP_ASSIGN_OR_RETURN(communicator_, MakeCommunicator(options, store, buffer_));
      LOCKSTEP_ASSIGN_OR_RETURN(collectives_,
                                MakeStreamCommunicator({.road = options_.device_road,
                                                        .connect_timeout = options.connect_timeout,
                                                        .timeout = options.timeout,
                                                        .cancel = options.cancel},
                                                       *communicator_, sums_, buckets_, floats()));
    }
    if (communicator_->size() > 1 && PassesThroughHost()) {
      LOCKSTEP_RETURN_IF_ERROR(buffer_.Reserve());
      if (communicator_->SumsInARing()) {
        buckets_ = BucketsOf(buffer_, options_, communicator_->size());
      }
    }
    patience_.Begin(options.timeout);
    reducer_ = MakeReducer();
    if (!options.cancel.stop_requested()) return absl::OkStatus();
    return absl::CancelledError("the generation ended while its group was being formed");
  }

  // Only GPUs' own group is left as late as possible: its end may hang until the process ends (see
  // NcclCommunicator), and the state may have to be saved first. What it maps of its peers has no
  // pages, unless an earlier generation's sums passed through the host.
  void Disconnect() override {
    if (PassesThroughHost()) LeaveAll();
  }

  bool TrustsAddresses() const override { return callers_.AreTrusted(); }

  absl::Status Broadcast(std::span<std::byte> data, int root) override {
    return patience_.RecordEnd(communicator_->Broadcast(data, root));
  }
  absl::Status Sum(std::span<float> data) override {
    return patience_.RecordEnd(communicator_->AllReduceSum(data));
  }
  void GradientsReady(std::int64_t begin) override { reducer_->Ready(begin); }
  absl::Status FinishGradients() override {
    absl::Status summed = reducer_->Wait();
    return sums_ ? summed : patience_.RecordEnd(std::move(summed));  // of a device's: see StepEnded
  }
  absl::Status BroadcastShares(std::span<const FlatRange> shares) override {
    absl::Status sent = reducer_->BroadcastShares(shares);
    return sums_ ? sent : patience_.RecordEnd(std::move(sent));
  }
  absl::Status Barrier() override { return patience_.RecordEnd(communicator_->Barrier()); }
  absl::Status SumStatus() const override {
    return reducer_ ? reducer_->status() : absl::OkStatus();
  }
  void StepEnded(const absl::Status& summed) override {
    if (sums_) patience_.RecordEnd(summed).IgnoreError();
  }
  std::string CommunicatorName() const override {
    if (!communicator_) return "none";
    return PassesThroughHost() ? communicator_->Name() : collectives_->Name();
  }

  void Abort(std::uint64_t generation) override { stop_.Abort(generation); }

 private:
  std::unique_ptr<GradientReducer> MakeReducer() {
    if (!sums_) return GradientReducer::Create(*communicator_, floats(), buckets_);
    return GradientReducer::CreateOnStreams(communicator_->size(), *collectives_, buckets_, *sums_);
  }
  bool PassesThroughHost() const { return !collectives_ || collectives_->Name() == "staged"; }
  std::span<float> floats() const { return {buffer_.data(), buffer_.size()}; }

  void LeaveAll() {
    LeaveGroup();
    if (options_.root_memory != nullptr) options_.root_memory->Withdraw();
  }

  void LeaveGroup() {
    if (communicator_) communicator_->Abort();
    if (collectives_) collectives_->Abort();
    reducer_.reset();
    collectives_.reset();
    communicator_.reset();
  }

  GradientBuffer& buffer_;
  const std::optional<DeviceSums> sums_;
  const CollectiveOptions options_;
  Patience patience_;
  MemberCallers callers_;
  std::vector<GradientReducer::Bucket> buckets_;  // of the present group
  GenerationStop stop_;
  std::unique_ptr<Communicator> communicator_;
  // Each uses the one before, so it is destroyed first.
  std::unique_ptr<StreamCommunicator> collectives_;  // null if gradients are in host memory
  std::unique_ptr<GradientReducer> reducer_;
};

}  // namespace

std::vector<GradientReducer::Bucket> BucketsOf(const GradientBuffer& buffer,
                                               const CollectiveOptions& options, int ring) {
  constexpr std::int64_t kRanksOfABucket = 16;
  const std::int64_t floats =
      std::max(options.bucket_floats, options.bucket_floats / kRanksOfABucket * std::int64_t{ring});
  return GradientReducer::PlanBuckets(options.layer_starts,
                                      static_cast<std::int64_t>(buffer.size()), floats);
}

std::unique_ptr<Strategy> MakeCollectiveStrategy(GradientBuffer& buffer, CollectiveOptions options,
                                                 std::optional<DeviceSums> sums) {
  return std::make_unique<CollectiveStrategy>(buffer, std::move(options), sums);
}

}  // namespace lockstep::train
