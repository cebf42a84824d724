#include "operator/health/headway.h"

#include <fmt/format.h>

namespace lockstep::health {
namespace {

double Seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Headway::Headway(const Clock& clock) : clock_(clock) {}

void Headway::Expect(const kube::Kind& kind, Duration limit) {
  const std::lock_guard lock(mutex_);
  Signs& signs = signs_[kind.plural];
  signs.limit = limit;
  signs.last = clock_.SteadyNow();
}

absl::Status Headway::Check() const {
  const std::lock_guard lock(mutex_);
  const SteadyTime now = clock_.SteadyNow();
  std::string silent;
  for (const auto& [plural, signs] : signs_) {
    if (!signs.limit || now - signs.last <= *signs.limit) continue;
    silent += fmt::format("{}{}: no headway for {:.0f} s, expected some every {:.0f} s",
                          silent.empty() ? "" : "; ", plural, Seconds(now - signs.last),
                          Seconds(*signs.limit));
  }
  return silent.empty() ? absl::OkStatus() : absl::UnavailableError(silent);
}

std::optional<Duration> Headway::SinceSuccess(const kube::Kind& kind) const {
  const std::lock_guard lock(mutex_);
  const auto it = signs_.find(kind.plural);
  if (it == signs_.end() || !it->second.last_success) return std::nullopt;
  return clock_.SteadyNow() - *it->second.last_success;
}

std::string Headway::LastError(const kube::Kind& kind) const {
  const std::lock_guard lock(mutex_);
  const auto it = signs_.find(kind.plural);
  return it == signs_.end() ? "" : it->second.error;
}

void Headway::OnCall(kube::Verb, const kube::Kind& kind, const absl::Status& result, Duration) {
  const std::lock_guard lock(mutex_);
  Signs& signs = signs_[kind.plural];
  signs.last = clock_.SteadyNow();
  if (result.ok()) {
    signs.last_success = signs.last;
    signs.error.clear();
  } else if (!absl::IsCancelled(result)) {
    signs.error = std::string(result.message());
  }
}

void Headway::OnWatchStart(const kube::Kind& kind) {
  const std::lock_guard lock(mutex_);
  signs_[kind.plural].last = clock_.SteadyNow();
}

void Headway::OnWatchEvent(const kube::Kind& kind) {
  OnWatchStart(kind);
}

}  // namespace lockstep::health
