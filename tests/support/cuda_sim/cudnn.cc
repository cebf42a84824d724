// cuDNN's graph API on the simulated device: plans of one convolution. Descriptors are
// maps of attributes. As the real one, it refuses attributes that a descriptor does not have,
// changes after Finalize, and Finalize before what is required is set.
//
// Its heuristics rank engines that a program must pass over before the one that works: 2 gives
// other bits each time, of 3 no plan can be made, 4 needs a terabyte to work in, and 1 is for
// tensor cores, which round float32 to TF32. Mode B is not there. With CUDA_SIM_WORKSPACE=N, the
// engines that work need N bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/cuda_sim/convolve.h"
#include "tests/support/cuda_sim/cudnn_descriptor.h"
#include "tests/support/cuda_sim/device_memory.h"
#include "tests/support/cuda_sim/export.h"
#include "tests/support/cuda_sim/sim_stream.h"

namespace {

using namespace cuda_sim::dnn;  // NOLINT(google-build-using-namespace): of the same library
using cuda_sim::SimStream;

enum Mode { kModeB = 1, kModeFallback = 2, kModeA = 3 };
enum Note { kTensorCore = 0, kNondeterministic = 4 };

struct Handle {
  SimStream* stream = nullptr;
};

constexpr std::int64_t kWorkingEngine = 0, kTensorCoreEngine = 1, kOtherBitsEngine = 2,
                       kEngineWithoutPlan = 3, kGreedyEngine = 4;
constexpr std::int64_t kWorkspaceBytes = 1024, kGreedyBytes = std::int64_t{1} << 40;
constexpr std::uint64_t kWorkspaceAlignment = 256;

// None for more elements than 32 bits count.
std::vector<std::int64_t> EnginesOf(const Descriptor& graph, int mode) {
  constexpr std::int64_t kMostElements = std::numeric_limits<std::int32_t>::max();
  const cuda_sim::Convolving what = ConvolvingOf(graph.Named(801));
  for (const cuda_sim::Strided* tensor : {&what.x, &what.w, &what.y}) {
    const auto& [n, c, h, w] = tensor->dimensions;
    if (n * c * h * w > kMostElements) return {};
  }
  if (mode == kModeA) {
    return {kOtherBitsEngine, kEngineWithoutPlan, kGreedyEngine, kTensorCoreEngine};
  }
  return {kWorkingEngine};
}

std::vector<std::int32_t> NotesOf(std::int64_t engine) {
  if (engine == kTensorCoreEngine) return {kTensorCore};
  if (engine == kOtherBitsEngine) return {kNondeterministic};
  return {};
}

std::int64_t WorkspaceOf(std::int64_t engine) {
  if (engine == kGreedyEngine) return kGreedyBytes;
  const char* set = std::getenv("CUDA_SIM_WORKSPACE");
  return set == nullptr ? kWorkspaceBytes : std::atoll(set);
}

// What only the engines know.
int CheckEngines(Descriptor& descriptor) {
  if (descriptor.type == kHeuristic && descriptor.One<std::int32_t>(200) == kModeB) {
    return Refuse(kNotSupported, "there is no mode B");
  }
  if (descriptor.type != kPlan) return kSuccess;
  descriptor.engine = descriptor.Named(401).engine;
  descriptor.graph = descriptor.Named(401).graph;
  return descriptor.engine == kEngineWithoutPlan
             ? Refuse(kNotSupported, "engine 3 does not do this")
             : kSuccess;
}

// The memory of a tensor in a pack; nullopt if it is not there or not aligned as the tensor says.
std::optional<std::uint64_t> MemoryOf(const Descriptor& tensor, const Descriptor& pack) {
  const auto ids = pack.All<std::int64_t>(1000);
  const auto pointers = pack.All<std::uint64_t>(1001);
  const auto found = std::find(ids.begin(), ids.end(), tensor.One<std::int64_t>(906));
  if (found == ids.end()) return std::nullopt;
  const std::uint64_t memory = pointers[static_cast<std::size_t>(found - ids.begin())];
  if (memory % static_cast<std::uint64_t>(tensor.One<std::int64_t>(900)) != 0) return std::nullopt;
  return memory;
}

template <typename T>
int Give(const std::vector<T>& from, std::int64_t requested, std::int64_t* count, void* values) {
  *count = static_cast<std::int64_t>(from.size());
  if (requested == 0) return kSuccess;
  const std::int64_t given = std::min(requested, *count);
  if (given == 0) return kSuccess;  // an empty vector may give a null pointer
  std::memcpy(values, from.data(), static_cast<std::size_t>(given) * sizeof(T));
  return kSuccess;
}

// Fills in the configurations that the program has made.
int GiveConfigs(const Descriptor& heuristic, std::int64_t requested, std::int64_t* count,
                void* values) {
  const std::vector<std::int64_t> engines =
      EnginesOf(heuristic.Named(201), heuristic.One<std::int32_t>(200));
  *count = static_cast<std::int64_t>(engines.size());
  auto* const* configs = static_cast<Descriptor* const*>(values);
  for (std::int64_t i = 0; i < std::min(requested, *count); ++i) {
    if (configs[i]->type != kEngineConfig) return Refuse(kBadParam, "not a configuration");
    configs[i]->engine = engines[static_cast<std::size_t>(i)];
    configs[i]->graph = &heuristic.Named(201);
    configs[i]->is_final = true;
  }
  return kSuccess;
}

int GiveEngine(const Descriptor& config, std::int64_t* count, void* values) {
  auto* const engine = *static_cast<Descriptor* const*>(values);
  if (engine->type != kEngine) return Refuse(kBadParam, "not an engine");
  engine->engine = config.engine;
  engine->is_final = true;
  *count = 1;
  return kSuccess;
}

}  // namespace

CUDA_SIM_EXPORT int cudnnCreate(Handle** handle) {
  *handle = new Handle;
  return kSuccess;
}
CUDA_SIM_EXPORT int cudnnDestroy(Handle* handle) {
  delete handle;
  return kSuccess;
}
CUDA_SIM_EXPORT std::size_t cudnnGetVersion() {
  return 91900;
}
CUDA_SIM_EXPORT const char* cudnnGetErrorString(int status) {
  switch (status) {
    case kSuccess:
      return "CUDNN_STATUS_SUCCESS";
    case kBadParam:
      return "CUDNN_STATUS_BAD_PARAM";
    case kNotSupported:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    default:
      return "unknown";
  }
}
CUDA_SIM_EXPORT void cudnnGetLastErrorString(char* message, std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t size = std::min(LastError().size(), bytes - 1);
  std::memcpy(message, LastError().data(), size);
  message[size] = '\0';
}
CUDA_SIM_EXPORT int cudnnSetStream(Handle* handle, SimStream* stream) {
  handle->stream = stream;
  return kSuccess;
}

CUDA_SIM_EXPORT int cudnnBackendCreateDescriptor(int type, Descriptor** descriptor) {
  *descriptor = new Descriptor{.type = type};
  return kSuccess;
}
CUDA_SIM_EXPORT int cudnnBackendDestroyDescriptor(Descriptor* descriptor) {
  delete descriptor;
  return kSuccess;
}

CUDA_SIM_EXPORT int cudnnBackendSetAttribute(Descriptor* descriptor, int attribute, int type,
                                             std::int64_t count, const void* values) {
  return descriptor->Set(attribute, type, count, values);
}
CUDA_SIM_EXPORT int cudnnBackendFinalize(Descriptor* descriptor) {
  int status = descriptor->CheckComplete();
  if (status == kSuccess) status = CheckEngines(*descriptor);
  descriptor->is_final = status == kSuccess;
  return status;
}

CUDA_SIM_EXPORT int cudnnBackendGetAttribute(const Descriptor* descriptor, int attribute, int type,
                                             std::int64_t requested, std::int64_t* count,
                                             void* values) {
  if (!descriptor->is_final) return Refuse(kBadParam, "asked before Finalize");
  if (descriptor->type == kHeuristic && attribute == 202 && type == kDescriptor) {
    return GiveConfigs(*descriptor, requested, count, values);
  }
  if (descriptor->type == kEngineConfig && attribute == 300 && type == kDescriptor &&
      requested == 1) {
    return GiveEngine(*descriptor, count, values);
  }
  if (descriptor->type == kEngine && attribute == 1303 && type == kNumericalNote) {
    return Give(NotesOf(descriptor->engine), requested, count, values);
  }
  if (descriptor->type == kEngine && attribute == 1301 && type == kInt64) {
    return Give(std::vector{descriptor->engine}, requested, count, values);
  }
  if (descriptor->type == kPlan && attribute == 402 && type == kInt64) {
    return Give(std::vector{WorkspaceOf(descriptor->engine)}, requested, count, values);
  }
  return Refuse(kNotSupported,
                "the simulator does not give attribute " + std::to_string(attribute));
}

CUDA_SIM_EXPORT int cudnnBackendExecute(Handle* handle, const Descriptor* plan,
                                        const Descriptor* pack) {
  if (!plan->is_final || !pack->is_final) return Refuse(kBadParam, "executed before Finalize");
  if (plan->engine != kWorkingEngine && plan->engine != kTensorCoreEngine) {
    return Refuse(kNotSupported, "a program must not use this engine");
  }
  const Descriptor& operation = plan->graph->Named(801);
  const OperationAttributes names = AttributesOf(operation);
  const auto x = MemoryOf(operation.Named(names.x), *pack);
  const auto w = MemoryOf(operation.Named(names.w), *pack);
  const auto y = MemoryOf(operation.Named(names.y), *pack);
  const auto workspace = pack->One<std::uint64_t>(1003);
  if (!x || !w || !y || workspace == 0 || workspace % kWorkspaceAlignment != 0) {
    return Refuse(kBadParam, "a tensor's memory is not in the pack, or not aligned");
  }
  const bool rounds = plan->engine == kTensorCoreEngine;
  const auto convolve = [=, what = ConvolvingOf(operation), x = *x, w = *w, y = *y] {
    // Whatever the workspace held is lost.
    std::memset(cuda_sim::RealAddress<void>(workspace), 0xff, kWorkspaceBytes);
    cuda_sim::Convolve(what, rounds, cuda_sim::RealAddress<void>(x), cuda_sim::RealAddress<void>(w),
                       cuda_sim::RealAddress<void>(y));
  };
  if (handle->stream->Enqueue(convolve) == cuda_sim::kSuccess) return kSuccess;
  return Refuse(kExecutionFailed, "the stream refuses work");
}
