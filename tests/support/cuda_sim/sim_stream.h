// A stream of the simulated device: a thread that runs one piece of work after another.
// ThreadSanitizer sees that two streams are not ordered unless an event orders them.
//
// While a stream is captured, its work goes into a graph instead, by the rules of the "CUDA C++
// Programming Guide", section "Stream Capture". The simulator is stricter in places: it refuses
// copies from and to pageable memory, graphs within graphs, and, to a thread that captures, every
// call that waits for a stream. What breaks a rule invalidates the capture.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/serial_thread.h"
#include "tests/support/cuda_sim/devices.h"
#include "tests/support/cuda_sim/graph.h"
#include "tests/support/cuda_sim/result.h"

namespace cuda_sim {

// A point in a stream's work. Thread-safe.
class Point {
 public:
  void Reach();
  void Wait();
  bool IsReached();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_reached_ = false;
};

enum class CaptureMode { kGlobal, kThreadLocal, kRelaxed };

class SimStream;

// What streams add to one graph.
struct Capture {
  const SimStream* origin = nullptr;  // where it was begun, and must be ended
  CaptureMode mode = CaptureMode::kGlobal;
  std::thread::id thread;  // that has begun it
  Graph graph;
  std::map<SimStream*, Graph::Nodes> last;  // what the stream's next work comes after
  bool is_valid = true;
};

// An event, as streams record it. Thread-safe.
class SimEvent {
 public:
  // kCapturedEvent if it was recorded in a capture.
  Result Synchronize();
  Result Query();

 private:
  friend class SimStream;
  std::mutex mutex_;
  std::shared_ptr<Point> point_;  // null: not recorded, which counts as reached, or captured
  std::shared_ptr<Capture> capture_;
  Graph::Nodes nodes_;  // of capture_
};

// A stream of the device that its maker uses. Its destructor waits for all work. Thread-safe.
class SimStream {
 public:
  ~SimStream();

  // Queues work, or adds it to the graph.
  Result Enqueue(std::function<void()> work);
  // The same of work that cannot be captured.
  Result EnqueueUncaptured(std::function<void()> work);
  Result Synchronize();
  Result Record(SimEvent& event);
  // Waits for the event as it is now, whatever is recorded later. A stream that waits for a
  // captured event is captured, too, until the capture ends.
  Result Wait(SimEvent& event);

  Result BeginCapture(CaptureMode mode);
  // `graph` is null after an error.
  Result EndCapture(std::unique_ptr<Graph>& graph);

 private:
  Result Run(std::function<void()> work);
  std::shared_ptr<Point> Mark();
  // Invalidates the current capture, and returns `result`.
  Result Break(Result result);

  const int device_ = CurrentDevice();
  std::atomic<bool> is_captured_ = false;
  std::shared_ptr<Capture> capture_;  // null: its work runs
  lockstep::SerialThread thread_;
};

// For a call that would wait for a device or change its memory: kSuccess unless a capture forbids
// it to the calling thread.
Result UncapturedCall();

}  // namespace cuda_sim
