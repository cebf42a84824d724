#include "trainer/comm/nccl/join_nccl_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "trainer/comm/nccl/nccl_api.h"
#include "trainer/comm/nccl/nccl_communicator.h"

namespace lockstep::train {
namespace {

// What a rank says about itself.
struct NcclOffer {
  std::array<std::byte, 16> gpu = {};  // its UUID
  std::int32_t version = 0;            // of NCCL; 0: it has none
  bool has_gpu = false;
};

// Every rank's offer, in the order of the ranks. As the communicator has no gather, each rank adds
// its bytes, as floats, to zeros.
absl::StatusOr<std::vector<NcclOffer>> GatherOffers(Communicator& host, const NcclOffer& own) {
  std::vector<float> floats(static_cast<std::size_t>(host.size()) * sizeof(NcclOffer));
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&own, 1));
  std::ranges::transform(
      bytes, floats.begin() + host.rank() * static_cast<std::ptrdiff_t>(sizeof(NcclOffer)),
      [](std::byte byte) { return static_cast<float>(byte); });
  LOCKSTEP_RETURN_IF_ERROR(host.AllReduceSum(floats));
  std::vector<NcclOffer> offers(static_cast<std::size_t>(host.size()));
  std::ranges::transform(floats, std::as_writable_bytes(std::span(offers)).begin(),
                         [](float sum) { return static_cast<std::byte>(sum); });
  return offers;
}

// Empty: there is none.
std::string ObstacleAmong(const std::vector<NcclOffer>& offers) {
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    const NcclOffer& offer = offers[rank];
    if (!offer.has_gpu) return fmt::format("rank {} does not compute on a GPU", rank);
    if (offer.version == 0) return fmt::format("rank {} has no NCCL; its own log says why", rank);
    if (offer.version != offers[0].version) {
      return fmt::format("rank {} has NCCL of version {}, and rank 0 of version {}", rank,
                         offer.version, offers[0].version);
    }
    for (std::size_t other = 0; other < rank; ++other) {
      if (offers[other].gpu == offer.gpu) {
        return fmt::format("ranks {} and {} share a GPU, and NCCL needs one for each rank", other,
                           rank);
      }
    }
  }
  return "";
}

// The id that rank 0 makes. All zeros if it cannot.
absl::StatusOr<nccl::UniqueId> ShareId(const nccl::Api& api, Communicator& host) {
  nccl::UniqueId id = {};
  if (host.rank() == 0) {
    const int result = api.GetUniqueId(&id);
    if (result != nccl::kSuccess) {
      LogWarning("NCCL cannot be used: ncclGetUniqueId failed",
                 {{"result", result}, {"reason", std::string(api.GetErrorString(result))}});
      id = {};
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(host.Broadcast(std::as_writable_bytes(std::span(&id, 1)), /*root=*/0));
  return id;
}

bool IsZero(const nccl::UniqueId& id) {
  return std::ranges::all_of(id.internal, [](char byte) { return byte == 0; });
}

// The first rank for which `fails` is true; -1 if there is none.
absl::StatusOr<int> FirstThatFails(Communicator& host, bool fails) {
  std::vector<float> failures(static_cast<std::size_t>(host.size()));
  failures[static_cast<std::size_t>(host.rank())] = fails ? 1.0f : 0.0f;
  LOCKSTEP_RETURN_IF_ERROR(host.AllReduceSum(failures));
  const auto first = std::ranges::find_if(failures, [](float failure) { return failure > 0; });
  return first == failures.end() ? -1 : static_cast<int>(first - failures.begin());
}

absl::StatusOr<std::unique_ptr<NcclCommunicator>> Connect(
    const nccl::Api& api, const NcclCommunicator::Options& options, const DeviceSums& sums,
    std::span<const GradientReducer::Bucket> ranges) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto communicator,
                            NcclCommunicator::Create(api, options, *sums.transfer));
  sums.transfer->Wait(sums.compute->Record());  // an earlier generation's work may use the memory
  const absl::Status tried = communicator->Try(sums.memory, ranges, *sums.transfer);
  if (tried.ok()) return communicator;
  communicator->Abort();
  sums.transfer->Record()->Wait();
  return tried;
}

// Requires: `sums` are on a GPU of this rank's own.
absl::StatusOr<NcclVerdict> ConnectAll(const nccl::Api& api, const NcclOptions& options,
                                       Communicator& host, const DeviceSums& sums,
                                       std::span<const GradientReducer::Bucket> ranges) {
  LOCKSTEP_ASSIGN_OR_RETURN(const nccl::UniqueId id, ShareId(api, host));
  if (IsZero(id)) {
    return NcclVerdict{.communicator = nullptr,
                       .obstacle = "rank 0 cannot prepare NCCL; its own log says why",
                       .may_pass = true};
  }
  auto communicator = Connect(api,
                              {.rank = host.rank(),
                               .size = host.size(),
                               .id = id,
                               .connect_timeout = options.connect_timeout,
                               .timeout = options.timeout,
                               .cancel = options.cancel},
                              sums, ranges);
  if (!communicator.ok()) {
    LogWarning("NCCL cannot be used: it does not connect",
               {{"reason", std::string(communicator.status().message())}});
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const int failed, FirstThatFails(host, !communicator.ok()));
  if (failed < 0) {
    (*communicator)->AgreeOver(host);
    return NcclVerdict{.communicator = *std::move(communicator), .obstacle = "", .may_pass = false};
  }
  return NcclVerdict{
      .communicator = nullptr,
      .obstacle = fmt::format("rank {} cannot connect; its own log says why", failed),
      .may_pass = true};
}

}  // namespace

absl::StatusOr<NcclVerdict> JoinNcclGroup(const NcclOptions& options, Communicator& host,
                                          const std::optional<DeviceSums>& sums,
                                          std::span<const GradientReducer::Bucket> ranges) {
  NcclOffer own;
  const nccl::Api* api = nullptr;
  if (const NativeStream native = sums ? sums->transfer->Native() : NativeStream{};
      native.handle != nullptr) {
    own.has_gpu = true;
    own.gpu = native.gpu;
    if (const auto opened = nccl::OpenNccl(); opened.ok()) {
      api = *opened;
      own.version = api->version;
    } else {
      LogWarning("NCCL cannot be used", {{"reason", std::string(opened.status().message())}});
    }
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<NcclOffer> offers, GatherOffers(host, own));
  std::string obstacle = ObstacleAmong(offers);
  if (obstacle.empty()) return ConnectAll(*api, options, host, *sums, ranges);
  return NcclVerdict{.communicator = nullptr, .obstacle = std::move(obstacle), .may_pass = false};
}

}  // namespace lockstep::train
