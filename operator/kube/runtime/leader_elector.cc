#include "operator/kube/runtime/leader_elector.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status.h"

namespace lockstep::kube {
namespace {

std::string HolderOf(const Object& lease) {
  return TextMember(Member(lease, "spec"), "holderIdentity");
}

int IntegerOf(const Object& lease, const char* field) {
  return IntMember(Member(lease, "spec"), field);
}

// Adds up to half a retry period at random, so that candidates do not poll in step.
Duration Jittered(Duration period) {
  thread_local std::minstd_rand random{std::random_device{}()};
  const double factor = std::uniform_real_distribution<double>(1.0, 1.5)(random);
  return std::chrono::duration_cast<Duration>(period * factor);
}

std::string Holds(const std::string& holder) {
  return fmt::format("{} holds the lease", holder);
}

}  // namespace

struct LeaderElector::State {
  State(Client& api, const Clock& time, LeaderElectionOptions how,
        std::function<void(const std::string&)> when_lost)
      : client(api), clock(time), options(std::move(how)), on_lost(std::move(when_lost)) {}

  // Used by one thread at a time: Acquire's, then the renewing thread, then Release's.
  absl::StatusOr<std::string> TakeOrKeep();
  absl::StatusOr<std::string> Take();
  absl::StatusOr<std::string> Write(Object lease);
  Object MakeLease(Object lease) const;
  void Observe(Object lease);
  void GiveUp();

  void Renew(const std::stop_token& stop);
  void Watch(const std::stop_token& stop);
  void Lose(const std::string& reason);
  void Wait(Duration duration, const std::stop_token& stop);
  void StopThreads();
  SteadyTime Deadline() const { return renewed_at + options.renew_deadline; }  // requires mutex

  Client& client;
  const Clock& clock;
  const LeaderElectionOptions options;
  const std::function<void(const std::string&)> on_lost;

  // The lease as last seen, and when it was first seen so. Guarded like TakeOrKeep.
  std::optional<Object> seen;
  SteadyTime seen_at{};

  mutable std::mutex mutex;
  std::condition_variable_any changed;
  bool leads = false, lost = false;  // guarded by mutex
  SteadyTime renewed_at{};           // guarded by mutex; when the last successful renewal was sent
  std::jthread renewer, watchdog;
};

// Takes or renews the lease, and returns who holds it then: this process, or another that cannot be
// replaced yet.
absl::StatusOr<std::string> LeaderElector::State::TakeOrKeep() {
  const SteadyTime sent = clock.SteadyNow();
  absl::StatusOr<std::string> holder = absl::AbortedError("nothing is known yet");
  // The fast path, while nobody else writes: no read first.
  if (seen && HolderOf(*seen) == options.identity) holder = Write(MakeLease(*seen));
  if (absl::IsAborted(holder.status()) || absl::IsNotFound(holder.status())) holder = Take();
  if (!holder.ok() || *holder != options.identity) return holder;
  const std::lock_guard lock(mutex);
  if (lost) return absl::CancelledError("the lease was lost before");
  renewed_at = sent;
  leads = true;
  return holder;
}

absl::StatusOr<std::string> LeaderElector::State::Take() {
  auto lease = client.Get(kLeaseKind, options.lease);
  if (absl::IsNotFound(lease.status())) {
    Object made = MakeLease(Object());
    LOCKSTEP_ASSIGN_OR_RETURN(const Object written, client.Create(kLeaseKind, made));
    made["metadata"] = Member(written, "metadata");
    Observe(std::move(made));
    return options.identity;
  }
  if (!lease.ok()) return lease.status();
  Observe(*std::move(lease));
  const std::string holder = HolderOf(*seen);
  const Duration valid = std::chrono::seconds(IntegerOf(*seen, "leaseDurationSeconds"));
  if (!holder.empty() && holder != options.identity && clock.SteadyNow() < seen_at + valid) {
    return holder;
  }
  return Write(MakeLease(*seen));
}

// Returns the holder that it has written.
absl::StatusOr<std::string> LeaderElector::State::Write(Object lease) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Object written, client.Update(kLeaseKind, lease));
  lease["metadata"] = Member(written, "metadata");
  Observe(std::move(lease));
  return HolderOf(*seen);
}

// Returns `lease`, or a new one if it is null, with this process as its holder from now on.
Object LeaderElector::State::MakeLease(Object lease) const {
  const std::string now = FormatApiMicroTime(clock.Now());
  const bool is_new = lease.is_null();
  const bool was_ours = !is_new && HolderOf(lease) == options.identity;
  if (is_new) {
    lease = {
        {"apiVersion", kLeaseKind.ApiVersion()},
        {"kind", kLeaseKind.kind},
        {"metadata", {{"name", options.lease.name}, {"namespace", options.lease.namespace_name}}}};
  }
  Object& spec = lease["spec"];
  if (!was_ours) {
    spec["leaseTransitions"] = is_new ? 0 : IntegerOf(lease, "leaseTransitions") + 1;
    spec["acquireTime"] = now;
  }
  spec["holderIdentity"] = options.identity;
  spec["leaseDurationSeconds"] =
      std::chrono::ceil<std::chrono::seconds>(options.lease_duration).count();
  spec["renewTime"] = now;
  return lease;
}

void LeaderElector::State::Observe(Object lease) {
  if (!seen || ResourceVersion(*seen) != ResourceVersion(lease)) seen_at = clock.SteadyNow();
  seen = std::move(lease);
}

void LeaderElector::State::GiveUp() {
  if (!seen || HolderOf(*seen) != options.identity) return;
  Object lease = *seen;
  lease["spec"]["holderIdentity"] = "";
  lease["spec"]["leaseDurationSeconds"] = 1;  // as client-go writes it; 0 is invalid
  lease["spec"]["renewTime"] = FormatApiMicroTime(clock.Now());
  if (const absl::Status status = Write(lease).status(); !status.ok()) {
    LogWarning("the lease could not be given up; it expires", {{"error", status.ToString()}});
  }
}

void LeaderElector::State::Renew(const std::stop_token& stop) {
  while (true) {
    Wait(options.retry_period, stop);
    if (stop.stop_requested()) return;
    const absl::StatusOr<std::string> holder = TakeOrKeep();
    if (holder.ok() && *holder != options.identity) return Lose(Holds(*holder));
    {
      const std::lock_guard lock(mutex);
      if (lost) return;
    }
    // Whatever the server's error, it may pass before the deadline, for which Watch cares.
    if (!holder.ok()) {
      LogWarning("the lease was not renewed; retrying", {{"error", holder.status().ToString()}});
    }
  }
}

// Runs apart from the renewing thread, whose request may hang.
void LeaderElector::State::Watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    Duration left;
    {
      const std::lock_guard lock(mutex);
      left = Deadline() - clock.SteadyNow();
    }
    if (left <= Duration::zero()) {
      return Lose(fmt::format("the lease was not renewed for {:.3g} s",
                              std::chrono::duration<double>(options.renew_deadline).count()));
    }
    Wait(std::min(left, options.retry_period), stop);
  }
}

void LeaderElector::State::Lose(const std::string& reason) {
  {
    const std::lock_guard lock(mutex);
    if (std::exchange(lost, true)) return;
    leads = false;
  }
  on_lost(reason);
}

void LeaderElector::State::Wait(Duration duration, const std::stop_token& stop) {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, stop, duration, [] { return false; });
}

void LeaderElector::State::StopThreads() {
  renewer = {};  // request stop and join
  watchdog = {};
}

LeaderElector::LeaderElector(Client& client, const Clock& clock, LeaderElectionOptions options,
                             std::function<void(const std::string& reason)> on_lost)
    : state_(std::make_unique<State>(client, clock, std::move(options), std::move(on_lost))) {}

LeaderElector::~LeaderElector() {
  state_->StopThreads();
}

absl::Status LeaderElector::Acquire(std::stop_token stop) {
  State& state = *state_;
  std::string told;  // so as not to log the same line every two seconds
  while (!stop.stop_requested()) {
    const absl::StatusOr<std::string> holder = state.TakeOrKeep();
    if (holder.ok() && *holder == state.options.identity) {
      state.renewer = std::jthread([&state](const std::stop_token& end) { state.Renew(end); });
      state.watchdog = std::jthread([&state](const std::stop_token& end) { state.Watch(end); });
      return absl::OkStatus();
    }
    if (std::string reason = holder.ok() ? Holds(*holder) : holder.status().ToString();
        reason != told) {
      LogInfo("waiting for the lease", {{"lease", state.options.lease.name}, {"reason", reason}});
      told = std::move(reason);
    }
    state.Wait(Jittered(state.options.retry_period), stop);
  }
  return absl::CancelledError("stopped");
}

bool LeaderElector::IsLeader() const {
  const std::lock_guard lock(state_->mutex);
  return state_->leads && state_->clock.SteadyNow() < state_->Deadline();
}

void LeaderElector::Release() {
  state_->StopThreads();
  {
    const std::lock_guard lock(state_->mutex);
    if (!std::exchange(state_->leads, false)) return;
  }
  state_->GiveUp();
}

}  // namespace lockstep::kube
