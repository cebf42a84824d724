#include "operator/kube/rest/handover_buffer.h"

#include <utility>

namespace lockstep::kube {

std::string_view HandoverBuffer::Next() {
  std::unique_lock lock(mutex_);
  if (is_read_) {
    Release(std::move(lock));
    lock = std::unique_lock(mutex_);
  }
  changed_.wait(lock, [this] { return !piece_.empty() || ended_; });
  is_read_ = !piece_.empty();
  return piece_;
}

void HandoverBuffer::End() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
}

void HandoverBuffer::Abandon() {
  std::unique_lock lock(mutex_);
  abandoned_ = true;
  Release(std::move(lock));
}

pplx::task<std::size_t> HandoverBuffer::_putn(const std::uint8_t* piece, std::size_t size) {
  pplx::task<std::size_t> taken;
  {
    const std::lock_guard lock(mutex_);
    if (abandoned_) return pplx::task_from_result(size);
    piece_ = {reinterpret_cast<const char*>(piece), size};
    taken = pplx::create_task(taken_.emplace());
  }
  changed_.notify_one();
  return taken;
}

void HandoverBuffer::Release(std::unique_lock<std::mutex> lock) {
  const std::size_t size = std::exchange(piece_, {}).size();
  is_read_ = false;
  const auto taken = std::exchange(taken_, std::nullopt);
  lock.unlock();
  if (taken) taken->set(size);
}

}  // namespace lockstep::kube
