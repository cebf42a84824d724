// Ends the process if a call that cannot be interrupted, such as a library's, takes too long. A
// process that hangs looks alive to its peers; once it has ended, its supervisor starts a new one.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"

namespace lockstep::train {

class HangLimit {
 public:
  // Starts the limit. Unless the object is destroyed within `limit`, logs that `what` has not
  // returned and ends the process with kExitPeerLost, without running destructors.
  HangLimit(std::string what, Duration limit);
  ~HangLimit();
  HangLimit(const HangLimit&) = delete;
  HangLimit& operator=(const HangLimit&) = delete;

 private:
  void Watch(const std::string& what, Duration limit);

  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;  // guarded by mutex_
  std::thread watching_;
};

}  // namespace lockstep::train
