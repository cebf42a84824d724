#include "tests/support/cuda_sim/sim_stream.h"

#include <utility>

namespace cuda_sim {

void Point::Reach() {
  {
    const std::lock_guard lock(mutex_);
    is_reached_ = true;
  }
  changed_.notify_all();
}

void Point::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_reached_; });
}

SimStream::SimStream() : thread_([this] { Run(); }) {}

SimStream::~SimStream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void SimStream::Enqueue(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_one();
}

std::shared_ptr<Point> SimStream::Mark() {
  auto point = std::make_shared<Point>();
  Enqueue([point] { point->Reach(); });
  return point;
}

void SimStream::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !work_.empty(); });
    if (work_.empty()) return;
    const std::function<void()> next = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    next();
    lock.lock();
  }
}

}  // namespace cuda_sim
