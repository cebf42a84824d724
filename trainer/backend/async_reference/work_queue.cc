#include "trainer/backend/async_reference/work_queue.h"

#include <cstring>
#include <future>
#include <string>
#include <utility>

#include "trainer/backend/backend.h"

namespace lockstep::train::async_reference {
namespace {

class QueueEvent final : public Event {
 public:
  explicit QueueEvent(std::shared_future<void> done) : done_(std::move(done)) {}
  void Wait() override { done_.get(); }

 private:
  const std::shared_future<void> done_;
};

std::exception_ptr AsDeviceError(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const DeviceError&) {
    return failure;
  } catch (const std::exception& error) {
    return std::make_exception_ptr(DeviceError(error.what()));
  }
}

}  // namespace

WorkQueue::WorkQueue(const DeviceMemory& memory) : memory_(memory), thread_([this] { Run(); }) {}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void WorkQueue::Enqueue(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back([this, work = std::move(work)] {
      if (failure_ == nullptr) work();
    });
  }
  changed_.notify_one();
}

std::shared_ptr<Event> WorkQueue::Record() {
  auto done = std::make_shared<std::promise<void>>();
  auto event = std::make_shared<QueueEvent>(done->get_future().share());
  {
    const std::lock_guard lock(mutex_);
    work_.push_back([this, done] {
      if (failure_ == nullptr) {
        done->set_value();
      } else {
        done->set_exception(failure_);
      }
    });
  }
  changed_.notify_one();
  return event;
}

void WorkQueue::Wait(std::shared_ptr<Event> event) {
  Enqueue([event = std::move(event)] { event->Wait(); });
}

void WorkQueue::Download(const void* device, void* host, std::size_t bytes) {
  const void* real = memory_.Real(device);
  Enqueue([=] { std::memcpy(host, real, bytes); });
}

void WorkQueue::Upload(const void* host, void* device, std::size_t bytes) {
  void* real = memory_.Real(device);
  Enqueue([=] { std::memcpy(real, host, bytes); });
}

void WorkQueue::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !work_.empty(); });
    if (work_.empty()) return;
    const std::function<void()> next = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    try {
      next();
    } catch (const std::exception&) {
      failure_ = AsDeviceError(std::current_exception());
    }
    lock.lock();
  }
}

}  // namespace lockstep::train::async_reference
