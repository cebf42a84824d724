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

void WorkQueue::Enqueue(std::function<void()> work) {
  thread_.Enqueue([this, work = std::move(work)] {
    if (failure_ != nullptr) return;
    try {
      work();
    } catch (const std::exception&) {
      failure_ = AsDeviceError(std::current_exception());
    }
  });
}

std::shared_ptr<Event> WorkQueue::Record() {
  auto done = std::make_shared<std::promise<void>>();
  auto event = std::make_shared<QueueEvent>(done->get_future().share());
  thread_.Enqueue([this, done] {
    if (failure_ == nullptr) {
      done->set_value();
    } else {
      done->set_exception(failure_);
    }
  });
  return event;
}

void WorkQueue::Wait(std::shared_ptr<Event> event) {
  Enqueue([event = std::move(event)] { event->Wait(); });
}

void WorkQueue::Download(const void* device, void* host, std::size_t bytes) {
  if (bytes == 0) return;  // `host` may be null, which memcpy must not get
  const void* real = memory_.Real(device);
  Enqueue([=] { std::memcpy(host, real, bytes); });
}

void WorkQueue::Upload(const void* host, void* device, std::size_t bytes) {
  if (bytes == 0) return;
  void* real = memory_.Real(device);
  Enqueue([=] { std::memcpy(real, host, bytes); });
}

}  // namespace lockstep::train::async_reference
