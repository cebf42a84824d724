#include "operator/health/watchdog.h"

#include <fmt/format.h>

#include "operator/kube/stream_end.h"

namespace lockstep::health {
namespace {

double Seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Watchdog::Watchdog(const Clock& clock) : clock_(clock) {}

void Watchdog::Expect(const kube::Kind& kind, const std::string& namespace_name, Duration limit) {
  const std::lock_guard lock(mutex_);
  Signs& signs = signs_[{kind.plural, namespace_name}];
  signs.limit = limit;
  signs.last = clock_.SteadyNow();
}

void Watchdog::ExpectCalls(const kube::Kind& kind, const std::string& namespace_name,
                           Duration limit) {
  Expect(kind, namespace_name, limit);
  const std::lock_guard lock(mutex_);
  signs_[{kind.plural, namespace_name}].any_call = true;
}

absl::Status Watchdog::Check() const {
  const std::lock_guard lock(mutex_);
  const SteadyTime now = clock_.SteadyNow();
  std::string silent;
  for (const auto& [about, signs] : signs_) {
    if (now - signs.last <= signs.limit) continue;
    const auto& [plural, namespace_name] = about;
    silent += fmt::format("{}{}{}{}: no progress for {:.0f} s, expected some every {:.0f} s",
                          silent.empty() ? "" : "; ", plural, namespace_name.empty() ? "" : " in ",
                          namespace_name, Seconds(now - signs.last), Seconds(signs.limit));
  }
  return silent.empty() ? absl::OkStatus() : absl::UnavailableError(silent);
}

std::optional<Duration> Watchdog::SinceSuccess(const kube::Kind& kind,
                                               const std::string& namespace_name) const {
  const std::lock_guard lock(mutex_);
  const auto it = signs_.find({kind.plural, namespace_name});
  if (it == signs_.end() || !it->second.last_success) return std::nullopt;
  return clock_.SteadyNow() - *it->second.last_success;
}

std::string Watchdog::LastError(const kube::Kind& kind, const std::string& namespace_name) const {
  const std::lock_guard lock(mutex_);
  const auto it = signs_.find({kind.plural, namespace_name});
  return it == signs_.end() ? "" : it->second.error;
}

void Watchdog::OnCall(kube::Verb verb, const kube::Kind& kind, const std::string& namespace_name,
                      const absl::Status& result, Duration) {
  const std::lock_guard lock(mutex_);
  const auto it = signs_.find({kind.plural, namespace_name});
  if (it == signs_.end()) return;
  Signs& signs = it->second;
  const bool follows = verb == kube::Verb::kList || verb == kube::Verb::kWatch;
  if (!follows && !signs.any_call) return;
  signs.was_silent = verb == kube::Verb::kWatch && kube::IsSilent(result);
  if (!signs.was_silent) signs.last = clock_.SteadyNow();
  if (result.ok()) {
    signs.last_success = signs.last;
    signs.error.clear();
  } else if (!absl::IsCancelled(result)) {
    signs.error = std::string(result.message());
  }
}

void Watchdog::OnWatchStart(const kube::Kind& kind, const std::string& namespace_name) {
  const std::lock_guard lock(mutex_);
  const auto it = signs_.find({kind.plural, namespace_name});
  if (it == signs_.end() || it->second.was_silent) return;
  it->second.last = clock_.SteadyNow();
}

void Watchdog::OnWatchEvent(const kube::Kind& kind, const std::string& namespace_name) {
  const std::lock_guard lock(mutex_);
  const auto it = signs_.find({kind.plural, namespace_name});
  if (it == signs_.end()) return;
  it->second.last = clock_.SteadyNow();
  it->second.was_silent = false;
}

}  // namespace lockstep::health
