#include "trainer/rendezvous/coordinator.h"

#include <algorithm>
#include <utility>

#include "api/proto/rendezvous.grpc.pb.h"
#include "base/log.h"

namespace lockstep::train {
namespace {

constexpr auto kLogPeriod = std::chrono::seconds(10);
constexpr int kLinesPerPeriod = 20;

grpc::ByteBuffer BytesOf(const proto::CoordinatorMessage& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
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

Coordinator::Coordinator(RosterConfig config, const Clock& clock,
                         std::function<void(const std::string& peer)> proven)
    : job_(config.job),
      job_uid_(config.job_uid),
      clock_(clock),
      proven_(std::move(proven)),
      callers_(config.token, config.listens_at, clock),
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

bool Coordinator::LeaderSaves() const {
  const std::lock_guard lock(mutex_);
  return roster_.LeaderSaves();
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
