// cuDNN's graph API: descriptors, and plans of one operation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/backend/cuda/device/cudnn_api.h"
#include "trainer/backend/cuda/device/device.h"
#include "trainer/core/dtype.h"

namespace lockstep::train::cuda {

// cuDNN with a handle for the current context and a stream. Not thread-safe.
class DnnLibrary {
 public:
  // Throws DeviceError if the library is not there or refuses the GPU.
  explicit DnnLibrary(StreamHandle stream);
  // Without a GPU, and so for descriptors alone.
  DnnLibrary();
  ~DnnLibrary();
  DnnLibrary(const DnnLibrary&) = delete;
  DnnLibrary& operator=(const DnnLibrary&) = delete;

  const CudnnApi& api() const { return api_; }
  const std::string& path() const { return path_; }    // of the library's file
  DnnLibraryHandle handle() const { return handle_; }  // null without a GPU
  // Throws DeviceError, with cuDNN's own words, if `status` is an error of `call`.
  void Check(int status, const char* call) const;
  // What cuDNN says of the last error.
  std::string LastError() const;

 private:
  std::string path_;  // before api_, which sets it
  CudnnApi api_;
  DnnLibraryHandle handle_ = nullptr;
};

// A cuDNN descriptor; every function throws DeviceError on failure. Requires: the library outlives
// it, and so do the descriptors that it refers to.
class DnnDescriptor {
 public:
  DnnDescriptor(const DnnLibrary& library, DnnDescriptorType type);

  DnnDescriptorHandle handle() const { return handle_.get(); }
  void Set(DnnAttribute attribute, DnnType type, std::int64_t count, const void* values);
  void Set(DnnAttribute attribute, const std::vector<std::int64_t>& values);
  void Set(DnnAttribute attribute, std::int64_t value);
  void Set(DnnAttribute attribute, float value);
  void Set(DnnAttribute attribute, const DnnDescriptor& value);
  // `type`: the type of an enumeration.
  void Set(DnnAttribute attribute, DnnType type, int value);
  // Reads up to `count` values into `values` and returns how many it has read. With `count` 0,
  // returns how many there are.
  std::int64_t Get(DnnAttribute attribute, DnnType type, std::int64_t count, void* values) const;
  void Finalize();
  // Returns false if cuDNN rejects the descriptor, and sets `refusal` to its message.
  bool TryFinalize(std::string& refusal);

 private:
  const DnnLibrary* library_;
  std::unique_ptr<void, int (*)(DnnDescriptorHandle)> handle_;
};

// A tensor that a plan reads or writes: four axes, elements of `type`.
struct DnnTensor {
  std::int64_t id = 0;
  std::array<std::int64_t, 4> dimensions = {}, strides = {};
  DType type = DType::kFloat32;
};
DnnDescriptor MakeDnnTensor(const DnnLibrary& library, const DnnTensor& tensor);

// What an engine may do to the factors of products. Sums are in float32 either way.
enum class Factors {
  kKept,
  kForTensorCores,  // which round float32 to TF32, with 10 bits after the point
};

// Returns true if the engine changes factors no more than `factors` allows, sums in full precision,
// and gives the same bits every time.
bool KeepsPrecisionAndBits(const DnnDescriptor& engine, Factors factors);

// An operation with an engine (cuDNN's word for an implementation): the one that cuDNN's heuristics
// rank first among those that pass KeepsPrecisionAndBits and whose workspace is not too large. If
// every workspace is too large, the engine with the smallest one. Requires: the device outlives it.
class DnnPlan {
 public:
  // `parts`: finalized descriptors; the last is the operation, the others are those that it refers
  // to. `tensors`: what the operation reads and writes. `name`: the operation's name for error
  // messages. Throws DeviceError if no engine is suitable.
  DnnPlan(const Device& device, std::vector<DnnDescriptor> parts,
          const std::vector<DnnTensor>& tensors, const std::string& name, Factors factors);

  std::size_t WorkspaceBytes() const;
  std::int64_t engine() const { return choice_->engine; }
  // `memory`: the address of each tensor, in the order of the constructor's `tensors`. `workspace`:
  // WorkspaceBytes() bytes.
  void Run(std::span<void* const> memory, void* workspace);

 private:
  // An engine that serves.
  struct Choice {
    DnnDescriptor config;
    std::unique_ptr<DnnDescriptor> plan;
    std::int64_t engine = 0;
    std::size_t workspace_bytes = 0;
  };
  // Returns true if a suitable engine of this heuristic needs at most most_workspace_bytes_.
  bool ChooseBy(int heuristic, const DnnDescriptor& graph);
  // Keeps the engine as choice_ if it is suitable and needs less workspace than choice_. Returns
  // true if it needs at most most_workspace_bytes_.
  bool Consider(DnnDescriptor config);
  void Pack(std::span<void* const> memory, void* workspace);

  const Device& device_;
  const DnnLibrary& library_;
  std::vector<DnnDescriptor> parts_;  // all that the plan names
  std::optional<Choice> choice_;      // always there once it is made
  std::unique_ptr<DnnDescriptor> pack_;
  std::vector<std::int64_t> ids_;
  std::size_t most_workspace_bytes_;
  const Factors factors_;
  std::vector<void*> packed_;  // the memory in pack_
  void* packed_workspace_ = nullptr;
  std::string refusal_ = "none";  // cuDNN's last one while the engine was chosen
};

}  // namespace lockstep::train::cuda
