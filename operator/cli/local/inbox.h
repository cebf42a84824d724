// Messages from any thread, and signals, for one thread that waits for both.
#pragma once

#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "operator/kube/object.h"

namespace lockstep::cli {

struct JobChanged {
  kube::Object job;
  bool deleted = false;
};
struct EventSeen {
  kube::Object event;
};
struct PodsStopped {};
struct SignalReceived {
  int signal = 0;
};
using Message = std::variant<JobChanged, EventSeen, PodsStopped, SignalReceived>;

// Create before any other thread: blocks SIGINT, SIGTERM and SIGHUP, and threads inherit that.
// SystemProcesses unblocks them in pods' processes. Those that this process ignores stay ignored
// and are no messages.
class Inbox {
 public:
  Inbox();
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  void Post(Message message);  // thread-safe
  // Blocks until there is a message or a signal; returns nothing once `deadline` has passed.
  std::vector<Message> Wait(std::optional<SteadyTime> deadline);

 private:
  std::mutex mutex_;
  std::vector<Message> messages_;  // guarded by mutex_
  int wake_ = -1;
  int signals_ = -1;
};

}  // namespace lockstep::cli
