// Ends the communication of a generation's group, or the forming of that group, when the generation
// ends or the process is asked to stop.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace lockstep::train {

// Thread-safe.
class GenerationStop {
 public:
  // Begins a generation. Returns the token that ends its communication, even while its group is
  // being formed: the rendezvous's thread may call Abort at any time.
  std::stop_token Begin(std::uint64_t generation);
  // Ends that generation and all earlier ones, begun or not.
  void Abort(std::uint64_t generation);

 private:
  std::mutex mutex_;  // guards the rest
  std::uint64_t generation_ = 0, ended_generation_ = 0;
  std::stop_source cancel_;
};

// Polls `asked` until it is true, then calls `act` once. Destroying the thread stops it.
std::jthread When(std::function<bool()> asked, std::function<void()> act);

}  // namespace lockstep::train
