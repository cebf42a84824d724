#include "operator/controller/fair_turns.h"

#include <algorithm>
#include <chrono>

namespace lockstep::controller {

Duration FairTurns::Wait(const kube::Key& job, SteadyTime now, Duration apart) {
  if (!granted_.contains(job) && !waiting_.contains(job)) Enter(job);
  Grant(now, apart);
  if (granted_.contains(job)) return Duration::zero();
  const auto interval = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(rate_ > 0 ? 1.0 / rate_ : 0.0));
  return *next_ - now + static_cast<Duration::rep>(CountBefore(job)) * std::max(interval, apart);
}

void FairTurns::Enter(const kube::Key& job) {
  waiting_[job] = ++last_place_;
  Line& line = lines_[job.namespace_name];
  if (line.empty()) order_.push_back(job.namespace_name);
  line.emplace_back(last_place_, job);
}

// A turn that is due and that nobody has waited for is left in the bucket.
void FairTurns::Grant(SteadyTime now, Duration apart) {
  while (!order_.empty()) {
    if (!next_) next_ = bucket_.Take(now, apart);
    if (*next_ > now) return;
    next_.reset();
    const std::string first = order_.front();
    order_.pop_front();
    const auto line = lines_.find(first);
    waiting_.erase(line->second.front().second);
    granted_.insert(std::move(line->second.front().second));
    line->second.pop_front();
    if (line->second.empty()) {
      lines_.erase(line);
    } else {
      order_.push_back(first);
    }
  }
}

// Returns how many turns come before that of a job that waits.
std::size_t FairTurns::CountBefore(const kube::Key& job) const {
  const Line& own = lines_.at(job.namespace_name);
  const auto place = std::ranges::lower_bound(own, waiting_.at(job), {}, &Line::value_type::first);
  const auto rounds = static_cast<std::size_t>(place - own.begin());
  std::size_t before = rounds;
  std::size_t is_earlier = 1;  // the namespaces before the job's own have one turn more
  for (const std::string& name : order_) {
    if (name == job.namespace_name) {
      is_earlier = 0;
    } else {
      before += std::min(lines_.at(name).size(), rounds + is_earlier);
    }
  }
  return before;
}

void FairTurns::Drop(const kube::Key& job) {
  granted_.erase(job);
  const auto waits = waiting_.find(job);
  if (waits == waiting_.end()) return;
  const auto line = lines_.find(job.namespace_name);
  line->second.erase(
      std::ranges::lower_bound(line->second, waits->second, {}, &Line::value_type::first));
  waiting_.erase(waits);
  if (!line->second.empty()) return;
  lines_.erase(line);
  std::erase(order_, job.namespace_name);
}

}  // namespace lockstep::controller
