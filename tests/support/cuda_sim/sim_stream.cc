#include "tests/support/cuda_sim/sim_stream.h"

namespace cuda_sim {

void Point::Reach() {
  {
    const std::lock_guard lock(mutex_);
    is_reached_ = true;
  }
  changed_.notify_all();
}

bool Point::IsReached() {
  const std::lock_guard lock(mutex_);
  return is_reached_;
}

void Point::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_reached_; });
}

std::shared_ptr<Point> SimStream::Mark() {
  auto point = std::make_shared<Point>();
  Enqueue([point] { point->Reach(); });
  return point;
}

}  // namespace cuda_sim
