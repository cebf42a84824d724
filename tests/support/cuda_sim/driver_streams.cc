// The driver's functions of streams, events and graphs. The handles are addresses of the
// simulator's own objects.
#include <memory>

#include "tests/support/cuda_sim/devices.h"
#include "tests/support/cuda_sim/export.h"
#include "tests/support/cuda_sim/graph.h"
#include "tests/support/cuda_sim/sim_stream.h"

namespace {

using cuda_sim::CaptureMode;
using cuda_sim::ContextError;
using cuda_sim::Graph;
using cuda_sim::SimEvent;
using cuda_sim::SimStream;
using enum cuda_sim::Result;

// A launch may outlive it.
struct GraphExec {
  std::shared_ptr<const Graph> graph;
};

// Works on a device that has failed, too.
template <typename T>
int Destroy(const T* object) {
  const int error = ContextError();
  if (error != kInvalidContext) delete object;
  return error;
}

}  // namespace

CUDA_SIM_EXPORT int cuStreamCreate(SimStream** stream, unsigned) {
  if (const int error = ContextError()) return error;
  *stream = new SimStream;
  return kSuccess;
}
CUDA_SIM_EXPORT int cuStreamDestroy_v2(SimStream* stream) {
  return Destroy(stream);
}
CUDA_SIM_EXPORT int cuStreamSynchronize(SimStream* stream) {
  if (const int error = ContextError()) return error;
  return stream->Synchronize();
}
CUDA_SIM_EXPORT int cuStreamWaitEvent(SimStream* stream, SimEvent* event, unsigned flags) {
  if (const int error = ContextError()) return error;
  return flags == 0 ? stream->Wait(*event) : kInvalidValue;
}
CUDA_SIM_EXPORT int cuLaunchHostFunc(SimStream* stream, void (*function)(void*), void* argument) {
  if (const int error = ContextError()) return error;
  return stream->Enqueue([=] { function(argument); });
}

CUDA_SIM_EXPORT int cuEventCreate(SimEvent** event, unsigned) {
  if (const int error = ContextError()) return error;
  *event = new SimEvent;
  return kSuccess;
}
CUDA_SIM_EXPORT int cuEventDestroy_v2(SimEvent* event) {
  return Destroy(event);
}
CUDA_SIM_EXPORT int cuEventRecord(SimEvent* event, SimStream* stream) {
  if (const int error = ContextError()) return error;
  return stream->Record(*event);
}
CUDA_SIM_EXPORT int cuEventQuery(SimEvent* event) {
  if (const int error = ContextError()) return error;
  return event->Query();
}
CUDA_SIM_EXPORT int cuEventSynchronize(SimEvent* event) {
  if (const int error = ContextError()) return error;
  return event->Synchronize();
}

// The legacy stream, which is null, cannot be captured.
CUDA_SIM_EXPORT int cuStreamBeginCapture_v2(SimStream* stream, int mode) {
  if (const int error = ContextError()) return error;
  if (stream == nullptr) return kCaptureUnsupported;
  if (mode < 0 || mode > 2) return kInvalidValue;
  return stream->BeginCapture(static_cast<CaptureMode>(mode));
}
CUDA_SIM_EXPORT int cuStreamEndCapture(SimStream* stream, Graph** graph) {
  if (const int error = ContextError()) return error;
  std::unique_ptr<Graph> captured;
  const int result = stream->EndCapture(captured);
  *graph = captured.release();
  return result;
}
CUDA_SIM_EXPORT int cuGraphDestroy(Graph* graph) {
  return Destroy(graph);
}
CUDA_SIM_EXPORT int cuGraphInstantiateWithFlags(GraphExec** exec, const Graph* graph,
                                                unsigned long long flags) {
  if (const int error = ContextError()) return error;
  if (graph == nullptr || flags != 0) return kInvalidValue;
  *exec = new GraphExec{std::make_shared<const Graph>(*graph)};
  return kSuccess;
}
CUDA_SIM_EXPORT int cuGraphExecDestroy(GraphExec* exec) {
  return Destroy(exec);
}
CUDA_SIM_EXPORT int cuGraphLaunch(const GraphExec* exec, SimStream* stream) {
  if (const int error = ContextError()) return error;
  return stream->EnqueueUncaptured([graph = exec->graph, device = cuda_sim::CurrentDevice()] {
    graph->Run([device] { return !cuda_sim::HasFailed(device); });
  });
}
