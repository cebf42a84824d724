// Pipelines of stages, side by side. A process belongs to up to three kinds of groups: all ranks,
// for what they decide together; the ranks with its stage, which sum gradients; and pairs, with its
// neighbours and with rank 0. Each process forms its groups in the same order, so that no two wait
// for each other.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "trainer/comm/make_communicator.h"
#include "trainer/comm/prefixed_store.h"
#include "trainer/strategy/generation_stop.h"
#include "trainer/strategy/group_options.h"
#include "trainer/strategy/member_callers.h"
#include "trainer/strategy/patience.h"
#include "trainer/strategy/stage_groups.h"

namespace lockstep::train {
namespace {

// For groups that exchange a few numbers, or tensors through the communicator's own memory.
constexpr std::size_t kSmallFloats = 1024;

std::size_t FloatsOf(const StageMessages& messages) {
  const std::size_t bytes = messages.bytes * static_cast<std::size_t>(messages.slots);
  return (bytes + sizeof(float) - 1) / sizeof(float);
}

// The members whose ranks `ranks` has, in its order. Requires: this rank is among them.
Membership PartOf(const Membership& all, const std::vector<int>& ranks) {
  Membership part{.generation = all.generation, .rank = -1, .members = {}};
  for (const int rank : ranks) {
    if (rank == all.rank) part.rank = static_cast<int>(part.members.size());
    part.members.push_back(all.members[static_cast<std::size_t>(rank)]);
  }
  LOCKSTEP_CHECK(part.rank >= 0, "pipeline: rank {} is not in its own group", all.rank);
  return part;
}

CollectiveOptions WithoutGradients(CollectiveOptions options) {
  options.layer_starts.clear();
  options.device_road = DeviceRoad::kHost;
  return options;
}

class PipelineStrategy final : public Strategy, public StageGroups {
 public:
  PipelineStrategy(int stages, const StageTraffic& traffic, GradientBuffer& gradients,
                   const CollectiveOptions& options, std::optional<DeviceSums> sums,
                   std::unique_ptr<GradientBuffer> small)
      : stages_(stages),
        traffic_(traffic),
        options_(options),
        patience_(options.least_timeout),
        callers_(options.address_patience),
        small_(std::move(small)),
        all_(MakeCollectiveStrategy(*small_, WithoutGradients(options))),
        peers_(MakeCollectiveStrategy(gradients, options, sums)) {}

  ~PipelineStrategy() override { LeavePairs(); }

  absl::Status Connect(const Membership& membership, KeyValueStore& store) override {
    LeavePairs();
    const int world = membership.world();
    LOCKSTEP_CHECK(world % stages_ == 0, "pipeline: {} ranks for {} stages", world, stages_);
    place_ = PlaceOf(membership.rank, stages_, world);
    LOCKSTEP_RETURN_IF_ERROR(MakeBuffers());
    Group group{.membership = membership, .cancel = stop_.Begin(membership.generation)};
    const std::jthread stop = When(options_.stop_requested, [&] { Abort(membership.generation); });
    LOCKSTEP_RETURN_IF_ERROR(all_->Connect(membership, store));
    PrefixedStore of_stage(store, fmt::format("stage/{}/", place_.stage));
    LOCKSTEP_RETURN_IF_ERROR(peers_->Connect(PartOf(membership, RanksOfStage()), of_stage));
    patience_.Begin(patience_.timeout());
    LOCKSTEP_RETURN_IF_ERROR(ConnectNeighbours(group, store));
    LOCKSTEP_RETURN_IF_ERROR(ConnectRankZero(group, store));
    if (!group.cancel.stop_requested()) return absl::OkStatus();
    return absl::CancelledError("the generation ended while its group was being formed");
  }

  void Disconnect() override {
    LeavePairs();
    peers_->Disconnect();
    all_->Disconnect();
  }
  bool TrustsAddresses() const override {
    return callers_.AreTrusted() && peers_->TrustsAddresses() && all_->TrustsAddresses();
  }

  absl::Status Broadcast(std::span<std::byte> data, int root) override {
    return patience_.RecordEnd(all_->Broadcast(data, root));
  }
  absl::Status Sum(std::span<float> data) override { return patience_.RecordEnd(all_->Sum(data)); }
  absl::Status Barrier() override { return patience_.RecordEnd(all_->Barrier()); }
  void GradientsReady(std::int64_t begin) override { peers_->GradientsReady(begin); }
  absl::Status FinishGradients() override { return peers_->FinishGradients(); }
  absl::Status BroadcastShares(std::span<const FlatRange> shares) override {
    return peers_->BroadcastShares(shares);
  }
  absl::Status SumStatus() const override { return peers_->SumStatus(); }
  // Only this tells that a wait at a link has failed.
  void StepEnded(const absl::Status& summed) override {
    patience_.RecordEnd(summed).IgnoreError();
    peers_->StepEnded(summed);
  }
  std::string CommunicatorName() const override { return all_->CommunicatorName(); }
  StageGroups* stages() override { return this; }

  void Abort(std::uint64_t generation) override {
    stop_.Abort(generation);
    peers_->Abort(generation);
    all_->Abort(generation);
  }

  const StagePlace& place() const override { return place_; }
  Strategy& peers() override { return *peers_; }
  StageLink* from_previous() override { return from_previous_.link.get(); }
  StageLink* to_previous() override { return to_previous_.link.get(); }
  StageLink* to_next() override { return to_next_.link.get(); }
  StageLink* from_next() override { return from_next_.link.get(); }

  absl::Status FromRankZero(int stage, std::span<std::byte> data) override {
    return patience_.RecordEnd(Pair(stage).Broadcast(data, /*root=*/0));
  }
  absl::Status ToRankZero(int stage, std::span<std::byte> data) override {
    return patience_.RecordEnd(Pair(stage).Broadcast(data, /*root=*/1));
  }

 private:
  struct Group {
    const Membership& membership;
    std::stop_token cancel;
  };
  struct Direction {
    std::unique_ptr<GradientBuffer> buffer;
    std::unique_ptr<StageLink> link;
  };
  // Rank 0, and the first pipeline's rank with another stage.
  struct WithRankZero {
    std::unique_ptr<GradientBuffer> buffer;
    std::unique_ptr<Communicator> communicator;
  };

  Communicator& Pair(int stage) {
    const bool is_zero = place_.stage == 0;
    LOCKSTEP_CHECK(place_.pipeline == 0 && stage > 0 && (is_zero || place_.stage == stage),
                   "pipeline: stage {} of pipeline {} deals for stage {} with rank 0", place_.stage,
                   place_.pipeline, stage);
    return *with_rank_zero_[is_zero ? static_cast<std::size_t>(stage - 1) : 0].communicator;
  }

  std::vector<int> RanksOfStage() const {
    std::vector<int> ranks;
    for (int i = 0; i < place_.pipelines; ++i) ranks.push_back(i * stages_ + place_.stage);
    return ranks;
  }

  absl::Status MakeBuffers() {
    LOCKSTEP_RETURN_IF_ERROR(MakeBuffer(traffic_.from_previous, from_previous_));
    LOCKSTEP_RETURN_IF_ERROR(MakeBuffer(traffic_.to_previous, to_previous_));
    LOCKSTEP_RETURN_IF_ERROR(MakeBuffer(traffic_.to_next, to_next_));
    return MakeBuffer(traffic_.from_next, from_next_);
  }

  static absl::Status MakeBuffer(const StageMessages& messages, Direction& direction) {
    if (messages.bytes == 0 || direction.buffer != nullptr) return absl::OkStatus();
    LOCKSTEP_ASSIGN_OR_RETURN(direction.buffer, GradientBuffer::Create(FloatsOf(messages)));
    return absl::OkStatus();
  }

  // Connects this process and another one. Both have the same `name` for it.
  absl::StatusOr<std::unique_ptr<Communicator>> ConnectPair(const Group& group,
                                                            const std::vector<int>& ranks,
                                                            KeyValueStore& store,
                                                            const std::string& name,
                                                            GradientBuffer& buffer) {
    const Membership pair = PartOf(group.membership, ranks);
    PrefixedStore of_pair(store, fmt::format("{}/", name));
    return MakeCommunicator(
        GroupOptions(pair, options_, callers_, patience_.timeout(), group.cancel), of_pair, buffer);
  }

  // The links of a pipeline are formed from its first stage to its last.
  absl::Status ConnectNeighbours(const Group& group, KeyValueStore& store) {
    const int own = group.membership.rank;
    if (!place_.is_first()) {
      LOCKSTEP_RETURN_IF_ERROR(
          ConnectLink(group, {own - 1, own}, traffic_.from_previous, store, from_previous_));
      LOCKSTEP_RETURN_IF_ERROR(
          ConnectLink(group, {own, own - 1}, traffic_.to_previous, store, to_previous_));
    }
    if (place_.is_last()) return absl::OkStatus();
    LOCKSTEP_RETURN_IF_ERROR(ConnectLink(group, {own, own + 1}, traffic_.to_next, store, to_next_));
    return ConnectLink(group, {own + 1, own}, traffic_.from_next, store, from_next_);
  }

  // `ranks`: the sender's, and the receiver's.
  absl::Status ConnectLink(const Group& group, const std::vector<int>& ranks,
                           const StageMessages& messages, KeyValueStore& store,
                           Direction& direction) {
    const bool sends = ranks.front() == group.membership.rank;
    LOCKSTEP_ASSIGN_OR_RETURN(
        std::unique_ptr<Communicator> communicator,
        ConnectPair(group, ranks, store, fmt::format("link/{}/{}", ranks[0], ranks[1]),
                    *direction.buffer));
    LOCKSTEP_RETURN_IF_ERROR(direction.buffer->Reserve());
    const std::span<std::byte> ring(reinterpret_cast<std::byte*>(direction.buffer->data()),
                                    messages.bytes * static_cast<std::size_t>(messages.slots));
    direction.link = std::make_unique<StageLink>(
        std::move(communicator), sends ? StageLink::End::kSends : StageLink::End::kReceives, ring,
        messages.slots);
    return absl::OkStatus();
  }

  absl::Status ConnectRankZero(const Group& group, KeyValueStore& store) {
    if (place_.pipeline != 0) return absl::OkStatus();
    const bool is_zero = place_.stage == 0;
    for (int stage = is_zero ? 1 : place_.stage; stage < (is_zero ? stages_ : place_.stage + 1);
         ++stage) {
      WithRankZero& pair = with_rank_zero_.emplace_back();
      LOCKSTEP_ASSIGN_OR_RETURN(pair.buffer, GradientBuffer::Create(kSmallFloats));
      LOCKSTEP_ASSIGN_OR_RETURN(
          pair.communicator,
          ConnectPair(group, {0, stage}, store, fmt::format("zero/{}", stage), *pair.buffer));
    }
    return absl::OkStatus();
  }

  void LeavePairs() {
    for (Direction* direction : {&from_previous_, &to_previous_, &to_next_, &from_next_}) {
      direction->link.reset();
    }
    for (WithRankZero& pair : with_rank_zero_) {
      if (pair.communicator) pair.communicator->Abort();
      pair.communicator.reset();
    }
    with_rank_zero_.clear();
  }

  const int stages_;
  const StageTraffic traffic_;
  const CollectiveOptions options_;
  StagePlace place_;
  Patience patience_;
  MemberCallers callers_;
  GenerationStop stop_;
  const std::unique_ptr<GradientBuffer> small_;  // of all ranks' group, which it outlives
  const std::unique_ptr<Strategy> all_;
  const std::unique_ptr<Strategy> peers_;
  Direction from_previous_, to_previous_, to_next_, from_next_;
  std::vector<WithRankZero> with_rank_zero_;  // by stage; of rank 0, else of this stage
};

}  // namespace

StagePlace PlaceOf(int rank, int stages, int world) {
  return {.stage = rank % stages,
          .stages = stages,
          .pipeline = rank / stages,
          .pipelines = world / stages};
}

absl::StatusOr<std::unique_ptr<Strategy>> MakePipelineStrategy(int stages,
                                                               const StageTraffic& traffic,
                                                               GradientBuffer& gradients,
                                                               const CollectiveOptions& options,
                                                               std::optional<DeviceSums> sums) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<GradientBuffer> small,
                            GradientBuffer::Create(kSmallFloats));
  return std::make_unique<PipelineStrategy>(stages, traffic, gradients, options, sums,
                                            std::move(small));
}

}  // namespace lockstep::train
