// The coordinator's key-value store.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/printable.h"
#include "base/shorten.h"
#include "trainer/rendezvous/coordinator.h"
#include "trainer/rendezvous/generation_store.h"

namespace lockstep::train {
namespace {

// Limits of the store. A communicator needs two or three keys per rank, with some bytes per peer.
constexpr std::size_t kLongestKey = 256;
constexpr std::size_t kLargestValue = std::size_t{1} << 20;
constexpr std::size_t kMostStored = std::size_t{64} << 20;
constexpr std::size_t kBytesOfAnEntry = 128;  // beside its key and value, about
constexpr std::size_t kLargestAnswer = std::size_t{2} << 20;

// An unauthenticated caller learns nothing.
grpc::Status Refused() {
  return {grpc::StatusCode::UNAUTHENTICATED, ""};
}

// Keys are the callers' own texts.
std::string Quoted(const std::string& key) {
  return '"' + Shortened(Printable(key), kLongestKey, "…") + '"';
}

template <typename... Args>
grpc::Status TooLarge(fmt::format_string<Args...> text, Args&&... args) {
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, fmt::format(text, std::forward<Args>(args)...)};
}

grpc::Status TooLong(const std::string& key) {
  return TooLarge("key {} has {} bytes, expected at most {}", Quoted(key), key.size(), kLongestKey);
}

}  // namespace

std::string_view PendingGet::Wanted(std::string_view value) const {
  if (request_.size() == 0) return value;
  return value.substr(std::min<std::size_t>(request_.offset(), value.size()), request_.size());
}

// Copies the values only when all are there, so that waiting calls hold none.
const std::string* PendingGet::Take(const std::map<std::string, std::string>& store) {
  for (; found_ < request_.keys_size(); ++found_) {
    if (!store.contains(request_.keys(found_))) return &request_.keys(found_);
  }
  std::size_t bytes = 0;
  for (const std::string& key : request_.keys()) bytes += Wanted(store.at(key)).size();
  if (bytes > kLargestAnswer) {
    Finish(TooLarge(
        "the values of {} keys, from {} on, have {} bytes, expected at most {} in one answer",
        request_.keys_size(), Quoted(request_.keys(0)), bytes, kLargestAnswer));
    return nullptr;
  }
  for (const std::string& key : request_.keys()) {
    const std::string_view wanted = Wanted(store.at(key));
    response_.add_values(wanted.data(), wanted.size());
  }
  Finish(grpc::Status::OK);
  return nullptr;
}

void PendingGet::OnCancel() {
  coordinator_.Cancel(*this);
}

void PendingGet::OnDone() {
  Coordinator& coordinator = coordinator_;
  delete this;
  coordinator.ReactorGone();
}

// Clears the store when its generation ends.
void Coordinator::SyncStore() {
  const std::uint64_t current = roster_.active() ? roster_.generation() : 0;
  if (current == store_generation_) return;
  if (store_generation_ == 0) {
    LogInfo("all members are here", {{"generation", current}});
  } else {
    LogInfo(roster_.done() ? "all members have finished" : "the generation has ended",
            {{"generation", store_generation_}});
  }
  const grpc::Status ended(grpc::StatusCode::FAILED_PRECONDITION,
                           fmt::format("generation {} has ended", store_generation_));
  for (const auto& [key, get] : gets_) get->Finish(ended);
  gets_.clear();
  store_.clear();
  store_bytes_ = 0;
  store_generation_ = current;
}

grpc::Status Coordinator::CheckGeneration(std::uint64_t generation) const {
  if (generation != 0 && generation == store_generation_) return grpc::Status::OK;
  return {grpc::StatusCode::FAILED_PRECONDITION,
          fmt::format("generation {} is not the current one ({})", generation, store_generation_)};
}

grpc::Status Coordinator::Put(const proto::PutRequest& request) {
  const std::lock_guard lock(mutex_);
  const std::string content =
      api::PutProofContent(request.generation(), request.key(), request.value());
  if (!callers_.AcceptsStoreCall(request.session(), content, request.proof())) return Refused();
  if (grpc::Status current = CheckGeneration(request.generation()); !current.ok()) return current;
  const std::size_t key_bytes =
      store_.contains(request.key()) ? 0 : request.key().size() + kBytesOfAnEntry;
  if (request.key().size() > kLongestKey) return TooLong(request.key());
  if (request.value().size() > kLargestValue) {
    return TooLarge("the value of key {} has {} bytes, expected at most {}", Quoted(request.key()),
                    request.value().size(), kLargestValue);
  }
  if (const std::size_t all = store_bytes_ + key_bytes + request.value().size();
      all > kMostStored) {
    return TooLarge("with key {}, all entries of generation {} have {} bytes, expected at most {}",
                    Quoted(request.key()), store_generation_, all, kMostStored);
  }
  std::string& value = store_[request.key()];
  store_bytes_ += key_bytes + request.value().size() - value.size();
  value = request.value();
  const auto [first, last] = gets_.equal_range(request.key());
  std::vector<PendingGet*> waiting;
  for (auto at = first; at != last; ++at) waiting.push_back(at->second);
  gets_.erase(first, last);
  for (PendingGet* get : waiting) {
    if (const std::string* missing = get->Take(store_)) gets_.emplace(*missing, get);
  }
  return grpc::Status::OK;
}

grpc::Status Coordinator::CheckGet(const proto::GetRequest& request) {
  const std::string content =
      api::GetProofContent(request.generation(), {request.keys().begin(), request.keys().end()},
                           request.offset(), request.size());
  if (!callers_.AcceptsStoreCall(request.session(), content, request.proof())) return Refused();
  const auto is_long = [](const std::string& key) { return key.size() > kLongestKey; };
  const auto keys = static_cast<std::size_t>(request.keys_size());
  if (keys > kMostKeysOfAGet) {
    return TooLarge("a call from key {} on asks for {} keys, expected at most {}",
                    Quoted(request.keys(0)), keys, kMostKeysOfAGet);
  }
  const auto too_long = std::ranges::find_if(request.keys(), is_long);
  if (too_long != request.keys().end()) return TooLong(*too_long);
  return CheckGeneration(request.generation());
}

PendingGet* Coordinator::Get(const proto::GetRequest& request, proto::GetResponse* response) {
  const std::lock_guard lock(mutex_);
  auto* get = new PendingGet(*this, request, *response);  // deletes itself in OnDone
  ++reactors_;
  if (const grpc::Status allowed = CheckGet(request); !allowed.ok()) {
    get->Finish(allowed);
  } else if (const std::string* missing = get->Take(store_); missing == nullptr) {
    // Finished.
  } else if (const std::size_t most = 64 + 16 * roster_.size(); gets_.size() >= most) {
    get->Finish(TooLarge("key {}: {} calls wait for keys already, expected at most {}",
                         Quoted(*missing), gets_.size(), most));
  } else {
    gets_.emplace(*missing, get);
  }
  return get;
}

void Coordinator::Cancel(PendingGet& get) {
  const std::lock_guard lock(mutex_);
  for (auto at = gets_.begin(); at != gets_.end(); ++at) {
    if (at->second != &get) continue;
    gets_.erase(at);
    get.Finish(grpc::Status::CANCELLED);
    return;
  }
}

}  // namespace lockstep::train
