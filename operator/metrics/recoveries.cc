#include "operator/metrics/recoveries.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "api/v1/conditions.h"
#include "api/v1/names.h"

namespace lockstep::metrics {
namespace {

struct Counts {
  std::int64_t ready = 0, wanted = 0;
};

// Reads "3/4"; others may write a status.
Counts CountsOf(const api::TrainingJob& job) {
  const std::string& text = job.status.ready_replicas;
  const std::size_t slash = std::min(text.find('/'), text.size());
  const auto number = [](std::string_view digits) {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() ? std::max(value, 0) : 0;
  };
  if (slash == text.size()) return {};
  return {number(std::string_view(text).substr(0, slash)),
          number(std::string_view(text).substr(slash + 1))};
}

// An Evaluator's failures stop nothing.
std::int64_t Charged(const api::TrainingJob& job) {
  return std::int64_t{job.status.restarts.application} + job.status.restarts.disruption;
}

}  // namespace

std::optional<double> Recoveries::UpdateRecovery(const api::TrainingJob& before,
                                                 const api::TrainingJob& after, Time now) {
  const std::lock_guard lock(mutex_);
  return UpdateLocked(before, after, now);
}

std::optional<double> Recoveries::UpdateLocked(const api::TrainingJob& before,
                                               const api::TrainingJob& after, Time now) {
  const std::string& uid = after.metadata.uid;
  // A job that is suspended or has ended recovers from nothing; where all replicas start again, the
  // condition Restarting says since when.
  if (!IsTrue(after.status, api::kRunning) || before.metadata.uid != uid) {
    losses_.erase(uid);
    return std::nullopt;
  }
  const Counts then = CountsOf(before), counts = CountsOf(after);
  const std::int64_t charged = Charged(after) - Charged(before);
  if (charged > 0 && IsTrue(before.status, api::kRunning)) {
    // Some may have stopped being ready before their loss was charged.
    const std::int64_t ready =
        std::max(then.ready, std::min(counts.ready + charged, counts.wanted));
    // Replicas that an edit has taken away may have been restarted by their kubelet.
    const bool is_edit =
        counts.wanted < then.wanted && counts.ready >= std::min(then.ready, counts.wanted);
    if (is_edit || counts.ready >= ready) {  // or replaced in a version that was missed
      losses_.erase(uid);
      return std::nullopt;
    }
    Loss& loss = losses_.try_emplace(uid, Loss{now, ready}).first->second;
    loss.ready = std::max(loss.ready, ready);
    if (losses_.size() > most_) ForgetOldest();
    return std::nullopt;
  }
  const auto loss = losses_.find(uid);
  if (loss == losses_.end()) return std::nullopt;
  if (counts.ready < std::min(loss->second.ready, counts.wanted)) return std::nullopt;
  const double seconds = std::chrono::duration<double>(now - loss->second.since).count();
  losses_.erase(loss);
  // An edit that takes away what is missing recovers nothing.
  return counts.wanted < then.wanted ? std::nullopt : std::optional(seconds);
}

void Recoveries::ForgetOldest() {
  losses_.erase(
      std::ranges::min_element(losses_, {}, [](const auto& entry) { return entry.second.since; }));
}

}  // namespace lockstep::metrics
