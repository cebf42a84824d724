#include "trainer/strategy/parameter_server/introductions.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"

namespace lockstep::train {
namespace {

constexpr auto kLogEvery = std::chrono::seconds(10);

// A stranger's time is real time.
SteadyTime Now() {
  return std::chrono::steady_clock::now();
}

// "ipv4:10.0.0.1:4711" without the port.
std::string HostOf(const std::string& peer) {
  return peer.substr(0, peer.rfind(':'));
}

}  // namespace

Introductions::Introductions(IntroductionLimits limits)
    : limits_(limits),
      places_(limits.at_once),
      thread_([this](const std::stop_token& stop) { CancelLate(stop); }) {}

Introductions::Pending::Pending(Introductions& all, grpc::ServerContext& caller) : all_(all) {
  const std::lock_guard lock(all_.mutex_);
  id_ = ++all_.last_id_;
  may_begin_ = all_.Admit(id_, caller);
}

Introductions::Pending::~Pending() {
  const std::lock_guard lock(all_.mutex_);
  const auto at = all_.guests_.find(id_);
  if (at == all_.guests_.end()) return;
  all_.places_.Remove(id_);
  all_.connections_.erase(at->second.connection);
  all_.guests_.erase(at);
}

void Introductions::Pending::NoteProof() {
  const std::lock_guard lock(all_.mutex_);
  all_.places_.Prove(id_, Now());
}

// Ends the introduction of the caller that has to make room, if any: its blocked read fails.
bool Introductions::Admit(GuestList::Id id, grpc::ServerContext& caller) {
  const std::string connection = caller.peer();
  if (connections_.contains(connection)) return false;
  const SteadyTime now = Now();
  const GuestList::Verdict verdict = places_.Admit(id, HostOf(connection), now);
  if (verdict.evicted) guests_.at(*verdict.evicted).caller->TryCancel();
  if (!verdict.admitted) return false;
  connections_.insert(connection);
  guests_.emplace(id, Guest{&caller, connection, now + limits_.patience});
  changed_.notify_all();
  return true;
}

void Introductions::CountRefusal() {
  const std::lock_guard lock(mutex_);
  ++refusals_;
  const SteadyTime now = Now();
  if (now < next_log_) return;
  next_log_ = now + kLogEvery;
  LogWarning("refused a caller that does not know the job's token", {{"refusals", refusals_}});
}

// Ends the streams of those that have not answered in time: their blocked reads fail.
void Introductions::CancelLate(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (guests_.empty()) {
      changed_.wait(lock, stop, [&] { return !guests_.empty(); });
      continue;
    }
    const SteadyTime now = Now();
    SteadyTime next = now + limits_.patience;
    for (auto& [id, guest] : guests_) {
      if (guest.deadline <= now) {
        guest.caller->TryCancel();
        guest.deadline = next;
      }
      next = std::min(next, guest.deadline);
    }
    changed_.wait_until(lock, stop, next, [] { return false; });
  }
}

}  // namespace lockstep::train
