// Ends the process if something takes too long that nothing else can end, such as a call of a
// library. A process that hangs looks alive to its peers; its supervisor starts a new one.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"

namespace lockstep::train {

class HangLimit {
 public:
  // Unless it is destroyed within `limit`, the process ends with kExitPeerLost, without running any
  // destructor, and the log says that `what` hangs.
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
