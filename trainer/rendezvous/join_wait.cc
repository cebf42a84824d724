#include "trainer/rendezvous/join_wait.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"

namespace lockstep::train {
namespace {

constexpr Duration kLogAgainAfter = std::chrono::minutes(1);  // at the latest

}  // namespace

JoinWait::JoinWait(std::string leader, const RendezvousClientOptions& options, const Clock& clock)
    : leader_(std::move(leader)),
      leader_host_(leader_.substr(0, leader_.rfind(':'))),
      options_(options),
      clock_(clock),
      counting_since_(clock.SteadyNow()),
      last_log_(counting_since_) {}

void JoinWait::Begin() {
  counting_since_ = clock_.SteadyNow();
}

void JoinWait::OnConnecting() {
  admitted_ = false;
  if (options_.successors_come) addresses_.Watch({leader_host_});
}

void JoinWait::OnMessage() {
  if (!std::exchange(answered_, true)) addresses_.Watch({});
  leader_gone_.reset();
}

void JoinWait::OnSilence() {
  if (std::exchange(answered_, false) && admitted_) leader_gone_ = clock_.SteadyNow();
}

absl::Status JoinWait::Check() {
  const SteadyTime now = clock_.SteadyNow();
  if (SomebodyIsYetToCome(now)) counting_since_ = now;
  if (now - counting_since_ < options_.timeout) return absl::OkStatus();
  const double seconds = std::chrono::duration<double>(options_.timeout).count();
  return absl::DeadlineExceededError(fmt::format(
      "rendezvous at {}: not complete after {:.3g} s: {}", leader_, seconds, WaitingFor()));
}

// True if a member is missing that still saves or shares its state, or whose pod has yet to be
// created. A leader that had admitted this process counts as being replaced for given_up_within
// after it fell silent. For one that never has, or is silent for longer, only DNS can tell.
bool JoinWait::SomebodyIsYetToCome(SteadyTime now) const {
  if (answered_ && waiting_.busy_size() > 0) return true;
  if (!options_.successors_come) return false;
  if (answered_) return waiting_.absent_size() > 0;
  if (leader_gone_ && now - *leader_gone_ < options_.given_up_within) return true;
  return addresses_.WithoutAddress().contains(leader_host_);
}

std::string JoinWait::WaitingFor() const {
  if (!answered_) return fmt::format("its leader does not answer ({})", broken_reason_);
  if (waiting_.missing().empty()) return "waiting for the leader's answer";
  std::string text = fmt::format("waiting for {}", fmt::join(waiting_.missing(), ", "));
  const auto named = static_cast<std::uint32_t>(waiting_.missing_size());
  if (waiting_.missing_count() > named) {
    text += fmt::format(" and {} others", waiting_.missing_count() - named);
  }
  if (waiting_.busy_size() > 0) {
    text += fmt::format("; still saving or sharing state: {}", fmt::join(waiting_.busy(), ", "));
  }
  return text;
}

bool JoinWait::LogNowAndThen() {
  const Duration since = clock_.SteadyNow() - last_log_;
  if (since < options_.log_every) return false;
  std::string text = WaitingFor();
  if (text != logged_) {
    same_again_after_ = options_.log_every;
  } else if (since < same_again_after_) {
    return false;
  }
  same_again_after_ = std::min(2 * same_again_after_, kLogAgainAfter);
  last_log_ = clock_.SteadyNow();
  LogInfo(fmt::format("in the rendezvous: {}", text), {{"leader", leader_}});
  logged_ = std::move(text);
  return true;
}

}  // namespace lockstep::train
