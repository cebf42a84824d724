#include "trainer/rendezvous/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "base/shorten.h"
#include "trainer/rendezvous/generation_store.h"

namespace lockstep::train {
namespace {

// Limits of the store. A communicator needs two or three keys per rank, with some bytes per peer.
constexpr std::size_t kLongestKey = 256;
constexpr std::size_t kLargestValue = std::size_t{1} << 20;
constexpr std::size_t kMostStored = std::size_t{64} << 20;
constexpr std::size_t kBytesOfAnEntry = 128;  // beside its key and value, about
constexpr std::size_t kLargestAnswer = std::size_t{2} << 20;

constexpr auto kLogPeriod = std::chrono::seconds(10);
constexpr int kLinesPerPeriod = 20;

grpc::ByteBuffer BytesOf(const proto::CoordinatorMessage& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
}

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

SessionStream::SessionStream(Coordinator& coordinator, SessionId id, std::string peer)
    : coordinator_(coordinator), id_(id), peer_(std::move(peer)) {}

void SessionStream::Send(const grpc::ByteBuffer& message) {
  if (ending_) return;
  outgoing_.push_back(message);
  if (!writing_) Next();
}

void SessionStream::End() {
  ending_ = true;
  if (!writing_) Next();
}

void SessionStream::Written(bool ok) {
  writing_ = false;
  outgoing_.pop_front();
  if (!ok) outgoing_.clear();
  Next();
}

// Touches no member after Finish(): another thread may delete this object then.
void SessionStream::Next() {
  if (!outgoing_.empty()) {
    writing_ = true;
    StartWrite(&outgoing_.front());
  } else if (ending_ && !finished_) {
    finished_ = true;
    Finish(grpc::Status::OK);
  }
}

void SessionStream::OnReadDone(bool ok) {
  proto::ReplicaMessage message;
  using Traits = grpc::SerializationTraits<proto::ReplicaMessage>;
  if (!ok || !Traits::Deserialize(&incoming_, &message).ok()) {
    return coordinator_.HungUp(id_, *this);
  }
  coordinator_.Received(id_, message);
  StartRead(&incoming_);
}

void SessionStream::OnWriteDone(bool ok) {
  coordinator_.WriteDone(*this, ok);
}

void SessionStream::OnDone() {
  Coordinator& coordinator = coordinator_;
  delete this;
  coordinator.ReactorGone();
}

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

Coordinator::Coordinator(RosterConfig config, const Clock& clock,
                         std::function<void(const std::string& peer)> proven)
    : job_(config.job),
      job_uid_(config.job_uid),
      most_gets_(64 + 16 * config.slots.size()),
      clock_(clock),
      proven_(std::move(proven)),
      callers_(config.token, clock),
      roster_(std::move(config)) {}

SessionStream* Coordinator::Open(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  const SessionId id = next_session_++;
  auto* stream = new SessionStream(*this, id, peer);  // deletes itself in OnDone
  ++reactors_;
  streams_.emplace(id, stream);
  roster_.Connect(id, clock_.SteadyNow());
  proto::CoordinatorMessage message;
  message.mutable_challenge()->set_session(id);
  message.mutable_challenge()->set_nonce(callers_.Challenge(id));
  stream->Send(BytesOf(message));
  stream->StartReading();
  return stream;
}

void Coordinator::Received(SessionId id, const proto::ReplicaMessage& message) {
  const std::lock_guard lock(mutex_);
  if (message.has_join() && !callers_.AcceptsJoin(id, message.join())) {
    Outbox out = roster_.Disconnect(id, "a Join without proof");
    out.push_back({.to = id, .message = nullptr, .close = true});
    return Deliver(out);
  }
  if (message.has_join()) ProveTo(id, message.join());
  const Outbox out = roster_.Receive(id, message, clock_.SteadyNow());
  const bool refused =
      std::ranges::any_of(out, [id](const Outgoing& each) { return each.to == id && each.close; });
  const auto stream = streams_.find(id);
  if (message.has_join() && !refused && stream != streams_.end()) proven_(stream->second->peer());
  Deliver(out);
}

void Coordinator::ProveTo(SessionId id, const proto::Join& join) {
  const auto stream = streams_.find(id);
  proto::CoordinatorMessage message;
  message.mutable_leader_proof()->set_proof(callers_.ProofFor(join));
  const bool has_token = !message.leader_proof().proof().empty();
  if (has_token && stream != streams_.end()) stream->second->Send(BytesOf(message));
}

void Coordinator::HungUp(SessionId id, SessionStream& stream) {
  const std::lock_guard lock(mutex_);
  streams_.erase(id);
  callers_.Forget(id);
  Deliver(roster_.Disconnect(id, "its connection closed"));
  stream.End();
}

void Coordinator::WriteDone(SessionStream& stream, bool ok) {
  const std::lock_guard lock(mutex_);
  stream.Written(ok);
}

void Coordinator::Tick() {
  const std::lock_guard lock(mutex_);
  Deliver(roster_.Tick(clock_.SteadyNow()));
}

// A refused caller may retry at once, so the log lines that it causes are limited.
void Coordinator::LogWithinLimit(const std::string& line) {
  const SteadyTime now = clock_.SteadyNow();
  if (now - lines_from_ >= kLogPeriod) {
    lines_from_ = now;
    lines_ = 0;
  }
  if (++lines_ <= kLinesPerPeriod) LogWarning(line);
}

void Coordinator::Deliver(const Outbox& outbox) {
  const proto::CoordinatorMessage* latest = nullptr;
  grpc::ByteBuffer bytes;  // of `latest`; its copies share the memory
  for (const Outgoing& out : outbox) {
    if (!out.log.empty()) LogWithinLimit(out.log);
    const auto at = streams_.find(out.to);
    if (at == streams_.end()) continue;
    if (out.message) {
      if (out.message.get() != latest) bytes = BytesOf(*out.message);
      latest = out.message.get();
      at->second->Send(bytes);
    }
    if (!out.close) continue;
    at->second->End();
    streams_.erase(at);
    callers_.Forget(out.to);
  }
  SyncStore();
  changed_.notify_all();
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
  } else if (gets_.size() >= most_gets_) {
    get->Finish(TooLarge("key {}: {} calls wait for keys already, expected at most {}",
                         Quoted(*missing), gets_.size(), most_gets_));
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

void Coordinator::Describe(const std::string& peer, const proto::GetStatusRequest& request,
                           proto::GetStatusResponse& response) {
  const std::lock_guard lock(mutex_);
  response.set_nonce(callers_.StatusNonce());
  if (!callers_.AcceptsStatusCall(request)) return;
  proven_(peer);
  Tell(response);
  response.set_proof(callers_.ProofFor(request, response));
}

void Coordinator::Tell(proto::GetStatusResponse& response) const {
  response.set_job(job_);
  response.set_job_uid(job_uid_);
  response.set_generation(roster_.generation());
  for (const std::string& slot : roster_.Missing()) response.add_missing(slot);
  for (const std::string& pod : roster_.LostPods()) response.add_missing_members(pod);
  if (roster_.progress()) *response.mutable_progress() = *roster_.progress();
  response.set_activity(roster_.activity());
  if (evaluator_misses_checkpoints_) {
    response.set_evaluator_misses_checkpoints(*evaluator_misses_checkpoints_);
  }
  if (!evaluation_ || !response.has_progress()) return;
  proto::TrainerProgress& progress = *response.mutable_progress();
  if (evaluation_->has_test_loss()) progress.set_test_loss(evaluation_->test_loss());
  if (evaluation_->has_test_accuracy()) progress.set_test_accuracy(evaluation_->test_accuracy());
  if (evaluation_->has_test_mean_absolute_error()) {
    progress.set_test_mean_absolute_error(evaluation_->test_mean_absolute_error());
  }
}

void Coordinator::TakeEvaluation(const std::string& peer, const proto::EvaluationReport& report,
                                 proto::EvaluationAnswer& answer) {
  const std::lock_guard lock(mutex_);
  answer.set_nonce(callers_.StatusNonce());
  if (!callers_.AcceptsEvaluation(report)) return;
  proven_(peer);
  // Another job's pod may have had this address before.
  if (report.job() != job_ || report.job_uid() != job_uid_) return;
  answer.set_accepted(true);
  if (roster_.progress()) {
    answer.set_last_checkpoint_step(roster_.progress()->last_checkpoint_step());
  }
  answer.set_proof(callers_.ProofFor(report, answer));
  evaluator_misses_checkpoints_ = report.misses_checkpoints();
  const bool is_another_set =
      evaluation_ ? evaluation_->test_set() != report.test_set() : report.voids_earlier();
  if (!is_another_set && report.step() < (evaluation_ ? evaluation_->step() : 0)) return;
  evaluation_ = report;
  if (report.step() < 0) evaluation_->set_test_loss(std::numeric_limits<double>::quiet_NaN());
}

std::set<std::string> Coordinator::MissingHosts() const {
  const std::lock_guard lock(mutex_);
  return roster_.MissingHosts();
}

void Coordinator::SetHostsWithoutAddress(std::set<std::string> hosts) {
  const std::lock_guard lock(mutex_);
  roster_.SetHostsWithoutAddress(std::move(hosts));
}

std::int64_t Coordinator::refusals() const {
  const std::lock_guard lock(mutex_);
  return callers_.refusals();
}

bool Coordinator::WaitUntilDrained(Duration timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] { return roster_.done() && roster_.drained(); });
}

void Coordinator::WaitUntilIdle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return reactors_ == 0; });
}

void Coordinator::ReactorGone() {
  const std::lock_guard lock(mutex_);
  --reactors_;
  changed_.notify_all();
}

}  // namespace lockstep::train
