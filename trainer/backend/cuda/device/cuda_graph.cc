#include "trainer/backend/cuda/device/cuda_graph.h"

#include <utility>

namespace lockstep::train::cuda {
namespace {

// Gathers what the ops' stream gets, instead of running it.
//
// The capture is local to the thread. So other threads may use the driver meanwhile, as they load
// samples or train with a device of their own; but this thread must not wait for the GPU, nor
// allocate or free memory of it, which would be right once and wrong in each replay: the driver
// refuses that. In the mode that refuses nothing (relaxed), it would not show.
class Capture {
 public:
  explicit Capture(Device& device) : device_(device) {
    device_.CheckCall(device_.driver().StreamBeginCapture(device_.stream(), kCaptureThreadLocal),
                      "cuStreamBeginCapture");
    device_.BeginRecording();
  }
  // Drops what was gathered, unless End has returned it.
  ~Capture() {
    const DriverApi& driver = device_.driver_for_cleanup();
    if (!std::exchange(has_ended_, true)) {
      device_.EndRecording();
      driver.StreamEndCapture(device_.stream(), &graph_);
    }
    if (graph_ != nullptr) driver.GraphDestroy(graph_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // The graph lives as long as this.
  GraphHandle End() {
    has_ended_ = true;
    device_.EndRecording();
    device_.CheckCall(device_.driver().StreamEndCapture(device_.stream(), &graph_),
                      "cuStreamEndCapture");
    return graph_;
  }

 private:
  Device& device_;
  bool has_ended_ = false;
  GraphHandle graph_ = nullptr;
};

class CudaGraph final : public Recording {
 public:
  CudaGraph(const Device& device, GraphHandle graph) : device_(device) {
    device_.CheckCall(device_.driver().GraphInstantiate(&exec_, graph, 0), "cuGraphInstantiate");
  }
  // The driver keeps what it still runs.
  ~CudaGraph() override { device_.driver_for_cleanup().GraphExecDestroy(exec_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void Replay() override {
    device_.Check(device_.driver().GraphLaunch(exec_, device_.stream()), "cuGraphLaunch");
  }

 private:
  const Device& device_;
  GraphExecHandle exec_ = nullptr;
};

}  // namespace

std::unique_ptr<Recording> RecordGraph(Device& device, const std::function<void()>& queue) {
  Capture capture(device);
  queue();
  return std::make_unique<CudaGraph>(device, capture.End());
}

}  // namespace lockstep::train::cuda
