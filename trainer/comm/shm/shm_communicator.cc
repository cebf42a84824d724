#include "trainer/comm/shm/shm_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "trainer/comm/sum_ranks.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kHalfBytes = kBounceBytes / 2;
constexpr std::size_t kBounceFloats = kBounceBytes / sizeof(float);
// The offset announced for memory outside the gradient buffers.
constexpr std::uint64_t kOutside = ~std::uint64_t{0};

}  // namespace

ShmCommunicator::ShmCommunicator(ShmView view, Duration timeout, std::stop_token cancel)
    : view_(std::move(view)),
      barrier_(*view_.barrier,
               {.rank = view_.rank, .size = view_.size, .timeout = timeout, .alive = view_.alive}),
      addends_(static_cast<std::size_t>(view_.size)),
      on_cancel_(std::move(cancel), [this] { Abort(); }) {}

ShmCommunicator::~ShmCommunicator() {
  // Peers must not wait for this rank any longer.
  barrier_.Break(SharedBarrier::Reason::kLeft, view_.rank);
}

absl::Status ShmCommunicator::AllReduceSum(std::span<float> data) {
  if (data.empty()) return barrier_.Health();
  const float* own = view_.gradients[static_cast<std::size_t>(view_.rank)];
  const std::less_equal<const float*> not_after;  // `<=` is not defined across objects
  if (not_after(own, data.data()) && not_after(data.data() + data.size(), own + view_.floats))
    return SumInPlace(static_cast<std::size_t>(data.data() - own), data.size());
  return SumThroughBounces(data);
}

absl::Status ShmCommunicator::SumInPlace(std::size_t offset, std::size_t count) {
  LOCKSTEP_RETURN_IF_ERROR(barrier_.Announce(
      {.kind = CollectiveKind::kAllReduce, .root = 0, .offset = offset, .count = count}));
  std::transform(view_.gradients.begin(), view_.gradients.end(), addends_.begin(),
                 [offset](float* gradients) { return gradients + offset; });
  const auto [begin, end] = ShareOf(view_.rank, view_.size, count);
  SumRanks(addends_, begin, end);
  return barrier_.Arrive();
}

absl::Status ShmCommunicator::SumThroughBounces(std::span<float> data) {
  std::transform(view_.bounces.begin(), view_.bounces.end(), addends_.begin(),
                 [](std::byte* bounce) { return reinterpret_cast<float*>(bounce); });
  float* own = addends_[static_cast<std::size_t>(view_.rank)];
  for (std::span<float> rest = data; !rest.empty();) {
    const std::span<float> piece = rest.first(std::min(rest.size(), kBounceFloats));
    std::memcpy(own, piece.data(), piece.size_bytes());
    LOCKSTEP_RETURN_IF_ERROR(barrier_.Announce(
        {.kind = CollectiveKind::kAllReduce, .root = 0, .offset = kOutside, .count = rest.size()}));
    const auto [begin, end] = ShareOf(view_.rank, view_.size, piece.size());
    SumRanks(addends_, begin, end);
    LOCKSTEP_RETURN_IF_ERROR(barrier_.Arrive());
    std::memcpy(piece.data(), own, piece.size_bytes());
    rest = rest.subspan(piece.size());
  }
  return absl::OkStatus();
}

// The root fills one half of its bounce area while the others read the other half. One barrier per
// piece suffices: a rank that arrives at a piece's barrier is done with the previous piece.
absl::Status ShmCommunicator::Broadcast(std::span<std::byte> data, int root) {
  LOCKSTEP_CHECK(root >= 0 && root < view_.size, "broadcast: root is {}, expected a rank below {}",
                 root, view_.size);
  if (data.empty()) return barrier_.Health();
  const std::byte* own = GradientBytes(view_.rank);
  const std::less_equal<const std::byte*> not_after;  // `<=` is not defined across objects
  if (not_after(own, data.data()) &&
      not_after(data.data() + data.size(), own + view_.floats * sizeof(float))) {
    return BroadcastInPlace(data, static_cast<std::size_t>(data.data() - own), root);
  }
  std::byte* bounce = view_.bounces[static_cast<std::size_t>(root)];
  std::size_t half = 0;
  for (std::span<std::byte> rest = data; !rest.empty(); half = kHalfBytes - half) {
    const std::span<std::byte> piece = rest.first(std::min(rest.size(), kHalfBytes));
    if (view_.rank == root) std::memcpy(bounce + half, piece.data(), piece.size());
    LOCKSTEP_RETURN_IF_ERROR(barrier_.Announce({.kind = CollectiveKind::kBroadcast,
                                                .root = root,
                                                .offset = kOutside,
                                                .count = rest.size()}));
    if (view_.rank != root) std::memcpy(piece.data(), bounce + half, piece.size());
    rest = rest.subspan(piece.size());
  }
  return barrier_.Arrive();  // the bounce area is free again
}

absl::Status ShmCommunicator::BroadcastInPlace(std::span<std::byte> data, std::size_t offset,
                                               int root) {
  LOCKSTEP_RETURN_IF_ERROR(barrier_.Announce(
      {.kind = CollectiveKind::kBroadcast, .root = root, .offset = offset, .count = data.size()}));
  if (view_.rank != root) std::memcpy(data.data(), GradientBytes(root) + offset, data.size());
  return barrier_.Arrive();  // the root may write to its buffer again
}

std::byte* ShmCommunicator::GradientBytes(int rank) const {
  return reinterpret_cast<std::byte*>(view_.gradients[static_cast<std::size_t>(rank)]);
}

absl::Status ShmCommunicator::Barrier() {
  return barrier_.Announce({.kind = CollectiveKind::kBarrier, .root = 0, .offset = 0, .count = 0});
}

}  // namespace lockstep::train
