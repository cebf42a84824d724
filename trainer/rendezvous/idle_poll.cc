#include "trainer/rendezvous/idle_poll.h"

#include <grpcpp/completion_queue.h>

#include <mutex>
#include <thread>

namespace lockstep::train {
namespace {

class IdlePoll {
 public:
  IdlePoll() : thread_([this] { Wait(); }) {}
  ~IdlePoll() { queue_.Shutdown(); }  // ends the thread's wait
  IdlePoll(const IdlePoll&) = delete;
  IdlePoll& operator=(const IdlePoll&) = delete;

 private:
  // No operation ever ends in this queue.
  void Wait() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  grpc::CompletionQueue queue_;
  std::jthread thread_;  // last: uses the above
};

}  // namespace

std::shared_ptr<const void> KeepPolling() {
  static std::mutex mutex;
  static std::weak_ptr<const IdlePoll> current;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const IdlePoll> poll = current.lock();
  if (poll == nullptr) current = poll = std::make_shared<IdlePoll>();
  return poll;
}

}  // namespace lockstep::train
