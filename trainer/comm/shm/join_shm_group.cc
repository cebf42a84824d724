#include "trainer/comm/shm/join_shm_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>
#include <vector>

#include "base/host_identity.h"
#include "base/status.h"
#include "trainer/comm/shm/peer_process.h"
#include "trainer/comm/shm/shared_barrier.h"
#include "trainer/comm/shm/shared_segment.h"
#include "trainer/comm/shm/shm_communicator.h"

namespace lockstep::train {
namespace {

constexpr char kYes[] = "yes";
constexpr char kNone[] = "none";
constexpr std::size_t kBounceOffset = (sizeof(BarrierMemory) + 4095) / 4096 * 4096;

std::size_t ControlBytes(int ranks) {
  return kBounceOffset + static_cast<std::size_t>(ranks) * kBounceBytes;
}

// Returns a name that is equal for processes of one host and pid namespace, or "none" if unknown.
std::string Host() {
  const std::string boot = BootId(), pids = PidNamespace();
  return boot.empty() || pids.empty() ? kNone : boot + "/" + pids;
}

// What a rank publishes about itself. No field contains spaces.
struct Offer {
  std::string host, buffer = kNone, control = kNone, root_memory = kNone;
  std::size_t floats = 0;

  std::string ToString() const {
    return fmt::format("{} {} {} {} {}", host, buffer, control, root_memory, floats);
  }
  static absl::StatusOr<Offer> Parse(const std::string& text) {
    Offer offer;
    std::istringstream words(text);
    if (words >> offer.host >> offer.buffer >> offer.control >> offer.root_memory >> offer.floats) {
      return offer;
    }
    return absl::InvalidArgumentError(fmt::format(
        "shared memory: offer is '{}', expected host, buffer, control, root memory, floats", text));
  }
};

struct Mappings {
  std::vector<std::unique_ptr<SharedSegment>> segments;
  std::vector<PeerProcess> processes;  // by rank, this one included
};

class Joining {
 public:
  Joining(const CommunicatorOptions& options, KeyValueStore& store, GradientBuffer& buffer)
      : options_(options),
        store_(store),
        buffer_(buffer),
        deadline_(std::chrono::steady_clock::now() + options.connect_timeout) {}

  absl::StatusOr<ShmVerdict> Run() {
    if (options_.size > kMaxSharedRanks) {  // the same on all ranks: no exchange is needed
      return ShmVerdict{nullptr, fmt::format("more than {} ranks", kMaxSharedRanks)};
    }
    absl::Status able = PrepareOffer();
    LOCKSTEP_RETURN_IF_ERROR(store_.Set(Key("offer", options_.rank), offer_.ToString()));
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> offers, GetAll("offer"));
    if (able.ok()) able = MapAll(offers);
    if (able.ok()) buffer_.WillBeShared();  // peers may write to it as soon as all have said yes
    const std::string vote = able.ok() ? kYes : std::string(able.message());
    LOCKSTEP_RETURN_IF_ERROR(store_.Set(Key("vote", options_.rank), vote));
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> votes, GetAll("vote"));
    for (int rank = 0; rank < options_.size; ++rank) {
      const std::string& peer_vote = votes[static_cast<std::size_t>(rank)];
      if (peer_vote != kYes)
        return ShmVerdict{nullptr, fmt::format("rank {}: {}", rank, peer_vote)};
    }
    if (shares_root_memory_) options_.root_memory->Confirm();
    return ShmVerdict{
        std::make_unique<ShmCommunicator>(std::move(view_), options_.timeout, options_.cancel), ""};
  }

 private:
  static std::string Key(const char* what, int rank) {
    return fmt::format("shm/{}/{}", what, rank);
  }

  absl::StatusOr<std::vector<std::string>> GetAll(const char* what) {
    std::vector<std::string> keys;
    for (int rank = 0; rank < options_.size; ++rank) keys.push_back(Key(what, rank));
    const Duration left = deadline_ - std::chrono::steady_clock::now();
    return store_.GetAll(keys,
                         {.timeout = std::max(left, Duration::zero()), .stop = options_.cancel});
  }

  // On failure, the error says why this rank cannot take part.
  absl::Status PrepareOffer() {
    offer_.host = Host();
    offer_.floats = buffer_.size();
    if (!options_.allow_shm) return absl::UnimplementedError("shared memory is switched off");
    if (buffer_.segment() == nullptr)
      return absl::UnimplementedError("its gradients are in private memory");
    if (options_.rank == 0) {
      LOCKSTEP_ASSIGN_OR_RETURN(control_, SharedSegment::Create(ControlBytes(options_.size)));
      offer_.control = control_->locator().ToString();
      if (options_.root_memory != nullptr && !options_.root_memory->locator().empty()) {
        offer_.root_memory = options_.root_memory->locator();
      }
    }
    offer_.buffer = buffer_.name();
    return absl::OkStatus();
  }

  absl::Status MapAll(const std::vector<std::string>& offers) {
    auto mappings = std::make_shared<Mappings>();
    for (int rank = 0; rank < options_.size; ++rank) {
      LOCKSTEP_ASSIGN_OR_RETURN(const Offer offer,
                                Offer::Parse(offers[static_cast<std::size_t>(rank)]));
      LOCKSTEP_RETURN_IF_ERROR(Map(rank, offer, *mappings));
    }
    mappings->segments.push_back(std::move(control_));
    std::byte* control = mappings->segments.back()->data();
    view_.rank = options_.rank;
    view_.size = options_.size;
    view_.floats = buffer_.size();
    view_.barrier = reinterpret_cast<BarrierMemory*>(control);
    for (int rank = 0; rank < options_.size; ++rank)
      view_.bounces.push_back(control + kBounceOffset +
                              static_cast<std::size_t>(rank) * kBounceBytes);
    view_.alive = [processes = &mappings->processes](int rank) {
      return (*processes)[static_cast<std::size_t>(rank)].Alive();
    };
    view_.owner = std::move(mappings);
    return absl::OkStatus();
  }

  absl::Status Map(int rank, const Offer& offer, Mappings& mappings) {
    if (offer.host == kNone || offer.host != offer_.host)
      return absl::NotFoundError(fmt::format("rank {} is on another host or in another pod", rank));
    if (offer.floats != offer_.floats)
      return absl::FailedPreconditionError(
          fmt::format("rank {} has a gradient buffer of {} floats, expected {}", rank, offer.floats,
                      offer_.floats));
    LOCKSTEP_ASSIGN_OR_RETURN(const auto where, SharedSegment::Locator::Parse(offer.buffer));
    // Opens the process before its memory, so that the token also proves the process's identity.
    LOCKSTEP_ASSIGN_OR_RETURN(PeerProcess process, PeerProcess::Open(where.pid));
    mappings.processes.push_back(std::move(process));
    if (rank == 0 && options_.rank != 0) {
      LOCKSTEP_ASSIGN_OR_RETURN(const auto control, SharedSegment::Locator::Parse(offer.control));
      LOCKSTEP_ASSIGN_OR_RETURN(control_,
                                SharedSegment::Attach(control, ControlBytes(options_.size)));
    }
    if (rank == 0 && options_.root_memory != nullptr && offer.root_memory != kNone) {
      if (options_.rank != 0) {
        LOCKSTEP_RETURN_IF_ERROR(options_.root_memory->Map(offer.root_memory));
      }
      shares_root_memory_ = true;
    }
    if (rank == options_.rank) {
      view_.gradients.push_back(buffer_.data());
      return absl::OkStatus();
    }
    LOCKSTEP_ASSIGN_OR_RETURN(auto segment,
                              SharedSegment::Attach(where, buffer_.segment()->size()));
    view_.gradients.push_back(reinterpret_cast<float*>(segment->data()));
    mappings.segments.push_back(std::move(segment));
    return absl::OkStatus();
  }

  const CommunicatorOptions& options_;
  KeyValueStore& store_;
  GradientBuffer& buffer_;
  const SteadyTime deadline_;
  Offer offer_;
  std::unique_ptr<SharedSegment> control_;
  ShmView view_;
  bool shares_root_memory_ = false;
};

}  // namespace

absl::StatusOr<ShmVerdict> JoinShmGroup(const CommunicatorOptions& options, KeyValueStore& store,
                                        GradientBuffer& buffer) {
  return Joining(options, store, buffer).Run();
}

}  // namespace lockstep::train
