#include "trainer/comm/gloo/gloo_communicator.h"

#include <fmt/format.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/hmac.h"
#include "base/signal_fd.h"
#include "base/status.h"
#include "trainer/comm/gloo/gloo_transport.h"
#include "trainer/comm/gloo/packed_address.h"

namespace lockstep::train {
namespace {

constexpr char kAborted[] = "aborted by this process";
constexpr std::size_t kProofBytes = 32;
// Distinct from the slots that Gloo's collectives build from their own prefixes.
constexpr std::uint64_t kGreetingSlot = 0x4c4f434b53544550;
// The first slot of GatherAndSum; each of its rounds has one.
constexpr std::uint64_t kGatherSlot = kGreetingSlot + 1;
// Up to so many floats of all ranks together, a sum takes as long as its messages do that wait for
// each other, not as their bytes.
constexpr std::size_t kMostGathered = 1 << 14;

// Carries the store's error through Gloo's code back to Catching.
struct StoreFailure {
  absl::Status status;
};

// Adapts the group's store to Gloo's interface. Each rank sets one key of each kind ("<rank>" with
// its addresses for the others, "rank_<rank>" with its host's name, and our "nonce/<rank>") and
// gets the others' keys one by one; the first get of a kind fetches them all. A rank publishes one
// address per peer, of which a reader needs only its own.
class GlooStore final : public gloo::rendezvous::Store {
 public:
  GlooStore(KeyValueStore& store, const CommunicatorOptions& options)
      : store_(store), options_(options) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    std::string value(data.begin(), data.end());
    if (KindOf(key) == kAddresses) value = PackedByRank(value);
    if (auto status = store_.Set(Stored(key), value); !status.ok())
      throw StoreFailure{std::move(status)};
  }
  std::vector<char> get(const std::string& key) override {
    if (!values_.contains(key)) Fetch(KindOf(key));
    const auto at = values_.find(key);
    LOCKSTEP_CHECK(at != values_.end(), "gloo: asks for the key \"{}\" in a group of {}", key,
                   options_.size);
    const std::string value = KindOf(key) == kAddresses ? ListOf(at->second) : at->second;
    return {value.begin(), value.end()};
  }
  // Returns since when the peers' addresses are known, so that only connections remain to be made.
  std::optional<SteadyTime> has_addresses_since() const { return has_addresses_since_; }
  // No-op: Gloo calls get() for each key that it waits for, and get() blocks.
  void wait(const std::vector<std::string>& /*keys*/) override {}

 private:
  static constexpr std::string_view kAddresses = "";

  static std::string_view KindOf(std::string_view key) {
    return key.substr(0, key.find_last_not_of("0123456789") + 1);
  }
  static std::string Stored(const std::string& key) { return "gloo/" + key; }
  std::size_t Peers() const { return static_cast<std::size_t>(options_.size - 1); }
  std::size_t Rank() const { return static_cast<std::size_t>(options_.rank); }

  // Gloo's list omits this rank. The packed list has a placeholder for it, so that a reader finds
  // its address at the same offset in every list.
  std::string PackedByRank(std::string_view list) {
    LOCKSTEP_CHECK(list.size() % Peers() == 0, "gloo: found {} bytes of addresses for {} peers",
                   list.size(), Peers());
    length_ = list.size() / Peers();
    std::string packed;
    for (std::size_t peer = 0; peer < Peers(); ++peer) {
      const std::string address = PackAddress(list.substr(peer * length_, length_));
      packed_length_ = address.size();
      if (peer == Rank()) packed.append(packed_length_, '\0');
      packed += address;
    }
    if (Peers() == Rank()) packed.append(packed_length_, '\0');
    return packed;
  }

  // Builds a peer's list for Gloo, which reads only this rank's address from it: at index Rank(),
  // or one before if the peer's own rank is lower.
  std::string ListOf(const std::string& packed) const {
    auto address = UnpackAddress(packed, length_);
    if (!address.ok()) throw StoreFailure{std::move(address).status()};
    std::string list(length_ * Peers(), '\0');
    for (const std::size_t at : {Rank(), Rank() - 1}) {
      if (at < Peers()) list.replace(at * length_, length_, *address);
    }
    return list;
  }

  void Fetch(std::string_view kind) {
    std::vector<std::string> keys, stored;
    for (int rank = 0; rank < options_.size; ++rank) {
      keys.push_back(fmt::format("{}{}", kind, rank));
      stored.push_back(Stored(keys.back()));
    }
    KeyValueStore::GetOptions get{.timeout = options_.connect_timeout, .stop = options_.cancel};
    if (kind == kAddresses) {
      get.offset = Rank() * packed_length_;
      get.size = packed_length_;
    }
    auto values = store_.GetAll(stored, get);
    if (!values.ok()) throw StoreFailure{std::move(values).status()};
    for (std::size_t rank = 0; rank < keys.size(); ++rank) {
      values_[keys[rank]] = std::move((*values)[rank]);
    }
    if (kind == kAddresses) has_addresses_since_ = std::chrono::steady_clock::now();
  }

  KeyValueStore& store_;
  const CommunicatorOptions& options_;
  std::optional<SteadyTime> has_addresses_since_;
  std::size_t length_ = 0, packed_length_ = 0;  // of an address; set by PackedByRank
  std::map<std::string, std::string> values_;
};

// Runs `call` and converts Gloo's exceptions to a status.
template <typename Call>
absl::Status Catching(int rank, Call&& call) {
  try {
    call();
    return absl::OkStatus();
  } catch (const StoreFailure& failure) {
    return failure.status;
  } catch (const std::exception& error) {  // Gloo throws several unrelated types
    return absl::UnavailableError(fmt::format("gloo: rank {}: {}", rank, error.what()));
  }
}

std::chrono::milliseconds Milliseconds(Duration duration) {
  // Gloo reads 0 as "no timeout".
  return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(duration),
                  std::chrono::milliseconds(1));
}

class GlooCommunicator final : public Communicator {
 public:
  GlooCommunicator(const CommunicatorOptions& options, std::shared_ptr<AbortableDevice> device)
      : device_(std::move(device)),
        context_(std::make_shared<gloo::rendezvous::Context>(options.rank, options.size)),
        on_cancel_(options.cancel, [this] { Abort(); }) {
    context_->setTimeout(Milliseconds(options.connect_timeout));
  }

  absl::Status Connect(KeyValueStore& store, const CommunicatorOptions& options) {
    GlooStore gloo_store(store, options);
    std::shared_ptr<gloo::transport::Device> device = device_;
    const absl::Status connected = Run([&] { context_->connectFullMesh(gloo_store, device); });
    if (const auto start = gloo_store.has_addresses_since(); options.on_connected && start) {
      options.on_connected(connected, std::chrono::steady_clock::now() - *start);
    }
    LOCKSTEP_RETURN_IF_ERROR(connected);
    if (options.prove) {
      LOCKSTEP_RETURN_IF_ERROR(Run([&] { Authenticate(gloo_store, options); }));
    }
    context_->setTimeout(Milliseconds(options.timeout));  // collectives read it at each call
    return absl::OkStatus();
  }

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  std::string Name() const override { return "gloo"; }
  bool SumsInARing() const override { return true; }

  absl::Status AllReduceSum(std::span<float> data) override {
    return Run([&] {
      if (data.empty()) return;
      const auto ranks = static_cast<std::size_t>(size());
      if (data.size() <= kMostGathered / ranks) return GatherAndSum(data);
      gloo::AllreduceOptions options(context_);
      options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
      options.setOutput(data.data(), data.size());
      options.setReduceFunction([](void* sum, const void* a, const void* b, std::size_t count) {
        gloo::sum<float>(sum, a, b, count);
      });
      gloo::allreduce(options);
    });
  }

  absl::Status Broadcast(std::span<std::byte> data, int root) override {
    LOCKSTEP_CHECK(root >= 0 && root < size(), "broadcast: root is {}, expected a rank below {}",
                   root, size());
    return Run([&] {
      if (data.empty()) return;
      gloo::BroadcastOptions options(context_);
      options.setOutput(data.data(), data.size());
      options.setRoot(root);
      gloo::broadcast(options);
    });
  }

  absl::Status Barrier() override {
    return Run([&] {
      gloo::BarrierOptions options(context_);
      gloo::barrier(options);
    });
  }

  void Abort() override {
    if (!aborted_.exchange(true)) device_->Abort();
  }

 private:
  struct Greeting {
    std::string sent, received;
    std::unique_ptr<gloo::transport::UnboundBuffer> out, in;
  };

  // Gloo takes the first connection to each of its ports for the peer's. So before any tensor is
  // sent, every pair of ranks exchanges proofs for nonces from the rendezvous's store.
  void Authenticate(GlooStore& store, const CommunicatorOptions& options) {
    const auto nonce_key = [](int rank) { return fmt::format("nonce/{}", rank); };
    const auto text = [](int from, int to) { return fmt::format("{} to {}", from, to); };
    const std::string nonce = RandomBytes(kProofBytes);
    store.set(nonce_key(rank()), {nonce.begin(), nonce.end()});
    std::vector<Greeting> greetings(static_cast<std::size_t>(size()));
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      Greeting& greeting = greetings[static_cast<std::size_t>(peer)];
      const std::vector<char> theirs = store.get(nonce_key(peer));
      greeting.sent = options.prove({theirs.begin(), theirs.end()}, text(rank(), peer));
      greeting.received.resize(kProofBytes);
      greeting.out = context_->createUnboundBuffer(greeting.sent.data(), greeting.sent.size());
      greeting.in =
          context_->createUnboundBuffer(greeting.received.data(), greeting.received.size());
      greeting.in->recv(peer, kGreetingSlot);
      greeting.out->send(peer, kGreetingSlot);
    }
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      Greeting& greeting = greetings[static_cast<std::size_t>(peer)];
      greeting.in->waitRecv(Milliseconds(options.connect_timeout));
      greeting.out->waitSend(Milliseconds(options.connect_timeout));
      if (!EqualInConstantTime(greeting.received, options.prove(nonce, text(peer, rank())))) {
        throw std::runtime_error(
            fmt::format("who connected as rank {} does not know the job's token", peer));
      }
    }
  }

  // Gathers the data of all ranks (as Bruck et al., "Efficient algorithms for all-to-all
  // communications", 1997) and adds them in rank order. Of its messages, log2(ranks) follow each
  // other; in the ring, 2 (ranks - 1) do. Gloo's own algorithm of this kind waits for a peer as
  // long as connecting may take, not as long as a collective may.
  void GatherAndSum(std::span<float> data) {
    const auto ranks = static_cast<std::size_t>(size()), self = static_cast<std::size_t>(rank());
    const auto peer = [&](std::size_t after) { return static_cast<int>((self + after) % ranks); };
    std::vector<float> gathered(ranks * data.size());  // of this rank, then of those after it
    std::ranges::copy(data, gathered.begin());
    struct Round {
      std::size_t have, more;  // ranks' data
      std::unique_ptr<gloo::transport::UnboundBuffer> in;
    };
    std::vector<Round> rounds;
    for (std::size_t have = 1; have < ranks; have *= 2) {
      const std::size_t more = std::min(have, ranks - have);
      rounds.push_back({have, more,
                        context_->createUnboundBuffer(gathered.data() + have * data.size(),
                                                      more * data.size_bytes())});
      rounds.back().in->recv(peer(have), kGatherSlot + rounds.size() - 1);
    }
    const auto out =
        context_->createUnboundBuffer(gathered.data(), gathered.size() * sizeof(float));
    const std::chrono::milliseconds timeout = context_->getTimeout();
    std::uint64_t slot = kGatherSlot;
    for (const Round& round : rounds) {
      out->send(peer(ranks - round.have), slot++, 0, round.more * data.size_bytes());
      round.in->waitRecv(timeout);
    }
    for (std::size_t sent = 0; sent < rounds.size(); ++sent) out->waitSend(timeout);
    for (std::size_t other = 0; other < ranks; ++other) {
      const float* const theirs = gathered.data() + (ranks + other - self) % ranks * data.size();
      if (other == 0) {
        std::copy_n(theirs, data.size(), data.begin());
      } else {
        gloo::sum<float>(data.data(), data.data(), theirs, data.size());
      }
    }
  }

  template <typename Call>
  absl::Status Run(Call&& call) {
    if (!failure_.ok()) return Explain(failure_);
    if (aborted_.load()) return Explain(absl::OkStatus());
    failure_ = Catching(rank(), call);
    // Only neighbours of a lost rank see its connection break; closing ours informs the others.
    if (!failure_.ok()) device_->Abort();
    return Explain(failure_);
  }

  absl::Status Explain(const absl::Status& status) const {
    if (aborted_.load())
      return absl::CancelledError(fmt::format("gloo: rank {}: {}", rank(), kAborted));
    return status;
  }

  const std::shared_ptr<AbortableDevice> device_;
  const std::shared_ptr<gloo::rendezvous::Context> context_;
  absl::Status failure_;
  std::atomic<bool> aborted_{false};
  std::stop_callback<std::function<void()>> on_cancel_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> MakeGlooCommunicator(
    const CommunicatorOptions& options, KeyValueStore& store) {
  IgnoreBrokenPipes();
  std::shared_ptr<AbortableDevice> device;
  if (auto made = Catching(options.rank,
                           [&] {
                             device = std::make_shared<AbortableDevice>(
                                 options.bind_address, options.callers,
                                 Milliseconds(options.connect_timeout));
                           });
      !made.ok())
    return absl::UnavailableError(
        fmt::format("{} (bind address '{}')", std::string(made.message()), options.bind_address));
  auto communicator = std::make_unique<GlooCommunicator>(options, std::move(device));
  LOCKSTEP_RETURN_IF_ERROR(communicator->Connect(store, options));
  return communicator;
}

}  // namespace lockstep::train
