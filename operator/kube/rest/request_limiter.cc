#include "operator/kube/rest/request_limiter.h"

#include <algorithm>
#include <thread>

namespace lockstep::kube {
RequestLimiter::RequestLimiter(double qps, int burst, int at_once)
    : bucket_(qps, burst), free_(std::max(at_once, 1)) {}

void RequestLimiter::WaitForTurn() {
  SteadyTime turn;
  const SteadyTime now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    turn = bucket_.Take(now);
  }
  if (turn > now) std::this_thread::sleep_until(turn);
}

RequestLimiter::Slot::Slot(RequestLimiter& limiter) : limiter_(limiter) {
  std::unique_lock lock(limiter_.mutex_);
  limiter_.freed_.wait(lock, [this] { return limiter_.free_ > 0; });
  --limiter_.free_;
}

RequestLimiter::Slot::~Slot() {
  {
    const std::lock_guard lock(limiter_.mutex_);
    ++limiter_.free_;
  }
  limiter_.freed_.notify_one();
}

ByteBudget::Share::Share(ByteBudget& budget, std::size_t bytes, SteadyTime deadline)
    : budget_(budget), bytes_(std::min(bytes, budget.all_)) {
  {
    std::unique_lock lock(budget_.mutex_);
    const std::uint64_t ticket = budget_.next_ticket_++;
    budget_.waiting_.insert(ticket);
    is_held_ = budget_.changed_.wait_until(lock, deadline, [&] {
      return ticket == *budget_.waiting_.begin() && bytes_ <= budget_.free_;
    });
    if (is_held_) budget_.free_ -= bytes_;
    budget_.waiting_.erase(ticket);
  }
  budget_.changed_.notify_all();  // the next one may have room as well
}

ByteBudget::Share::~Share() {
  if (!is_held_) return;
  {
    const std::lock_guard lock(budget_.mutex_);
    budget_.free_ += bytes_;
  }
  budget_.changed_.notify_all();
}

}  // namespace lockstep::kube
