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

}  // namespace

Introductions::Introductions(IntroductionLimits limits)
    : limits_(limits), thread_([this](const std::stop_token& stop) { CancelLate(stop); }) {}

Introductions::Pending::Pending(Introductions& all, grpc::ServerContext& caller)
    : all_(all), caller_(caller) {
  const std::lock_guard lock(all_.mutex_);
  may_begin_ = all_.deadlines_.size() < all_.limits_.at_once;
  if (!may_begin_) return;
  all_.deadlines_.emplace(&caller_, Now() + all_.limits_.patience);
  all_.changed_.notify_all();
}

Introductions::Pending::~Pending() {
  const std::lock_guard lock(all_.mutex_);
  all_.deadlines_.erase(&caller_);
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
    if (deadlines_.empty()) {
      changed_.wait(lock, stop, [&] { return !deadlines_.empty(); });
      continue;
    }
    const SteadyTime now = Now();
    SteadyTime next = now + limits_.patience;
    for (auto& [caller, deadline] : deadlines_) {
      if (deadline <= now) {
        caller->TryCancel();
        deadline = next;
      }
      next = std::min(next, deadline);
    }
    changed_.wait_until(lock, stop, next, [] { return false; });
  }
}

}  // namespace lockstep::train
